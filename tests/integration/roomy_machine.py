"""`spreeze train` on a machine that is said to have more cores than it has, so that a small one has room to adapt.

    python roomy_machine.py CORES MODE train ENV ...

MODE: `plain`; `quota`, with a container's limit, so that nobody knows what other programs have; or `restless`, with a
tuner that puts another number of samplers and another batch size in force all the time.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from typing import Any

from spreeze.cli import main
from spreeze.resolve import Resolved
from spreeze.runtime import supervisor
from spreeze.tuning.hardware import find_machine

BATCH_SIZES = (32, 8, 64, 17, 128)


class Restless:
    """Stands for Tuner."""

    def __init__(self, resolved: Resolved, machine: Any, board: Any, crew: Any, event: Any, memory: Any) -> None:
        self._event = event
        self._cells = board.section("supervisor")
        samplers = int(resolved.config.samplers)
        self._settings = itertools.cycle(zip(itertools.cycle(range(1, samplers + 1)), BATCH_SIZES, strict=False))
        self._due = 0.0
        self._cells.set("active_samplers", samplers)

    def tick(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + 0.1
            samplers, batch_size = next(self._settings)
            self._cells.set("active_samplers", samplers)
            self._cells.set("batch_size", batch_size)
            self._event("adaptation", "restless", samplers=samplers, batch_size=batch_size)


def run() -> int:
    cores, mode = int(sys.argv[1]), sys.argv[2]
    quota = float(cores) if mode == "quota" else None
    machine = dataclasses.replace(find_machine(), cores_allowed=cores, cores_quota=quota)
    supervisor.find_machine = lambda: machine  # type: ignore[attr-defined]
    if mode == "restless":
        supervisor.make_tuner = Restless  # type: ignore[attr-defined,assignment]
    return main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(run())
