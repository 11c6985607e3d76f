"""Windows against numbers worked out by hand, and against real work of this and another process."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import psutil
import pytest

from spreeze.board import Board
from spreeze.tuning.readings import Readings, machine_seconds


def test_a_window_by_hand() -> None:
    now, board = [10.0], Board.create(2)
    board.section("supervisor").set("active_samplers", 2)
    learner = board.section("learner")
    learner.set("updates", 100)
    learner.set("env_steps", 1_000)
    readings = Readings(board, list, blind=True, clock=lambda: now[0])
    readings.begin()
    now[0] = 12.0
    learner.set("updates", 150)
    learner.set("env_steps", 1_600)
    board.section("sampler-0").set("ring_full_ns", 1_000_000_000)
    window = readings.end()
    assert (window.update_hz, window.sample_hz) == (25.0, 300.0)
    assert window.ring_full == 0.25  # 1 s of 2 samplers in 2 s
    assert window.cores_busy is window.cores_of_others is None


class Times(NamedTuple):
    """As psutil tells them of a core on Linux."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    steal: float
    guest: float


def test_work_of_normal_priority_counts_on_the_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Times(10.0, 50.0, 2.0, 900.0, 7.0, 1.0, 3.0), Times(20.0, 0.0, 4.0, 900.0, 0.0, 0.0, 0.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [first, second] if percpu else None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert machine_seconds() == 10 + 2 + 1 + 20 + 4  # a core that the host has taken away (steal) is busy
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    assert machine_seconds() == 24


def test_own_work_is_not_counted_for_others() -> None:
    """Compared in CPU seconds that were really spent, so that it holds on a busy machine as well."""
    readings = Readings(Board.create(1), lambda: [os.getpid()], blind=False)
    readings.begin()
    began, spent = time.monotonic(), time.process_time()
    while time.process_time() < spent + 0.5:
        pass
    window = readings.end()
    own = (time.process_time() - spent) / (time.monotonic() - began)
    assert window.cores_busy is not None
    assert window.cores_of_others is not None
    assert window.cores_busy - window.cores_of_others == pytest.approx(own, rel=0.2)


def test_a_process_that_is_gone_does_not_end_a_window() -> None:
    pids = [os.getpid(), 2**22 - 1]
    readings = Readings(Board.create(1), lambda: pids, blind=False)
    readings.begin()
    pids.pop()
    assert readings.end().update_hz == 0
