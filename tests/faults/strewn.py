"""A run whose environments leave processes and files behind, and the count of what is left of it afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from running import Run, wait_for


class Strewn:
    """A run whose environments strew processes and files, and what there is of it on this machine."""

    def __init__(self, run: Run, sleep: str, temp: Path) -> None:
        self.run, self._sleep, self._temp = run, sleep, temp

    def sleepers(self) -> list[int]:
        return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", self._sleep]]

    def assert_nothing_left(self) -> None:
        self.run.assert_nobody_left()
        wait_for("the environments' processes to be gone", lambda: not self.sleepers(), within_s=15.0)
        assert list(self._temp.iterdir()) == []
        assert not [name for name in os.listdir("/dev/shm") if "spreeze" in name]
        wait_for("the guardian to be gone", lambda: not self.guardians(), within_s=15.0)

    def guardians(self) -> list[int]:
        token = f"SPREEZE_RUN={self.run.process.pid}-"
        return [p.pid for p in psutil.process_iter(["cmdline"]) if any(token in w for w in p.info["cmdline"] or ())]
