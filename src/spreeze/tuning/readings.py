"""What a window of a running system gave: counters of the board, and the CPU time of this run and of others.

A core is busy with work of normal priority. What runs at low priority (this run's evaluator, others' background work)
gives way by itself and is counted nowhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psutil

from spreeze.board import Board
from spreeze.tuning.search import Window

_IDLE = ("idle", "iowait", "nice", "guest", "guest_nice")  # guests' time is in user and nice already


class _Totals(NamedTuple):
    at_s: float
    updates: int
    env_steps: int
    ring_full_ns: int
    machine_s: float | None
    own_s: dict[int, float]  # by process


class Readings:
    """`begin` a window, `end` it. `pids`: the run's processes of normal priority. `blind`: what others have of the
    cores says nothing, since a container's limit stands between them and this run, or it gives way to all itself."""

    def __init__(
        self,
        board: Board,
        pids: Callable[[], Iterable[int]],
        blind: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board = board
        self._pids = pids
        self._machine_known = not blind
        self._clock = clock
        self._before: _Totals | None = None

    def begin(self) -> None:
        self._before = self._read()

    def end(self) -> Window:
        before, now = self._before, self._read()
        assert before is not None, "begin() comes before end()"
        span_s = max(now.at_s - before.at_s, 1e-9)
        own = sum(max(0.0, spent - before.own_s[pid]) for pid, spent in now.own_s.items() if pid in before.own_s)
        busy = None
        if now.machine_s is not None and before.machine_s is not None:
            busy = max(0.0, now.machine_s - before.machine_s) / span_s
        samplers = max(1, self._board.active_samplers())
        return Window(
            update_hz=(now.updates - before.updates) / span_s,
            sample_hz=(now.env_steps - before.env_steps) / span_s,
            cores_busy=busy,
            cores_of_others=None if busy is None else max(0.0, busy - own / span_s),
            ring_full=(now.ring_full_ns - before.ring_full_ns) / 1e9 / span_s / samplers,
        )

    def _read(self) -> _Totals:
        learner = self._board.section("learner")
        ring_full_ns = sum(section.get("ring_full_ns") for section in self._board.sampler_sections())
        return _Totals(
            self._clock(), learner.get("updates"), learner.get("env_steps"), ring_full_ns,
            machine_seconds() if self._machine_known else None, dict(_seconds_of(self._pids())),
        )  # fmt: skip


def machine_seconds() -> float:
    """CPU seconds that the cores which this process may use have worked so far."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    cores = enumerate(psutil.cpu_times(percpu=True))
    return sum(
        sum(spent for name, spent in times._asdict().items() if name not in _IDLE)
        for core, times in cores
        if allowed is None or core in allowed
    )


def _seconds_of(pids: Iterable[int]) -> Iterable[tuple[int, float]]:
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:  # gone: what it did in this window counts for others, once
            continue
        yield pid, times.user + times.system
