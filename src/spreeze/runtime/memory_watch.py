"""How much memory a role takes, looked at once a second: a simulator that leaks must not take the machine with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOOK_EVERY_S = 1.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    def __init__(self) -> None:
        self._due: dict[int, float] = {}

    def excess(self, pid: int, limit_bytes: int | None, now_s: float) -> str | None:
        """What is wrong, where a process takes more than its limit."""
        if limit_bytes is None or now_s < self._due.get(pid, 0.0):
            return None
        self._due = {known: due for known, due in self._due.items() if due > now_s - 60.0}
        self._due[pid] = now_s + LOOK_EVERY_S
        taken = resident_bytes(pid)
        if taken <= limit_bytes:
            return None
        return f"took {_mib(taken)} of memory, more than the {_mib(limit_bytes)} that it may (--sampler-memory)"


def resident_bytes(pid: int) -> int:
    """0 for a process that is gone."""
    if sys.platform == "linux":
        try:
            return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):
            return 0
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
