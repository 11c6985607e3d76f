"""Windows against numbers worked out by hand, and against real work of this and another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time

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
    learner.set_float("staleness_updates_p50", 7.0)
    readings = Readings(board, list, shared_quota=True, clock=lambda: now[0])
    readings.begin()
    now[0] = 12.0
    learner.set("updates", 150)
    learner.set("env_steps", 1_600)
    board.section("sampler-0").set("ring_full_ns", 1_000_000_000)
    window = readings.end()
    assert (window.update_hz, window.sample_hz, window.staleness) == (25.0, 300.0, 7.0)
    assert window.ring_full == 0.25  # 1 s of 2 samplers in 2 s
    assert window.cores_busy is window.cores_of_others is None  # a quota hides whose the cores are


def burn_until(cpu_s: float) -> None:
    while time.process_time() < cpu_s:
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="time of low priority is told apart on Linux")
def test_own_work_is_not_counted_for_others_and_work_of_low_priority_for_nobody() -> None:
    """Compared in CPU seconds that were really spent, so that it holds on a busy machine as well."""
    readings = Readings(Board.create(1), lambda: [os.getpid()], shared_quota=False)
    readings.begin()
    began, spent = time.monotonic(), time.process_time()
    burn_until(spent + 0.5)
    window = readings.end()
    own = (time.process_time() - spent) / (time.monotonic() - began)
    assert window.cores_busy is not None
    assert window.cores_of_others is not None
    assert window.cores_busy - window.cores_of_others == pytest.approx(own, rel=0.2)

    burning = "import os, sys, time\nos.nice(5)\nwhile time.process_time() < 0.6: pass\nprint(1)"
    before, idle = machine_seconds(), psutil.cpu_times().nice
    subprocess.run([sys.executable, "-c", burning], check=True, stdout=subprocess.DEVNULL)
    niced = psutil.cpu_times().nice - idle
    assert niced >= 0.4
    assert machine_seconds() - before < 10 * niced  # others' work of normal priority is all that it may hold
