"""However a run ends, nothing of it is left: no process, not even one that an environment started elsewhere, no shared
memory, no temporary file beyond the run's folder. Counted before and after."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
from running import is_gone, wait_for
from strewn import Strewn

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; elsewhere a role notices by itself"),
]
pytest.importorskip("torch")


def test_a_normal_end(start_strewing: Callable[..., Strewn]) -> None:
    strewn = start_strewing(steps=600)
    assert strewn.run.wait_end() == 0, strewn.run.stderr.read_text()
    strewn.assert_nothing_left()
    assert not (strewn.run.run_dir / "tmp").exists()


NOHUP = pytest.mark.skipif(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, reason="under nohup it is ignored")


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=NOHUP)],
)
def test_a_signal(start_strewing: Callable[..., Strewn], number: signal.Signals, exit_code: int) -> None:
    strewn = start_strewing()
    strewn.run.wait_learning()
    assert len(strewn.sleepers()) >= 2 * (2 + 1)  # two of each environment: the sampler's and the evaluator's
    assert list((strewn.run.run_dir / "tmp").glob("strewn-*"))
    strewn.run.process.send_signal(number)
    assert strewn.run.wait_end() == exit_code
    assert strewn.run.summary()["status"] == "stopped"
    strewn.assert_nothing_left()


@pytest.mark.faults
def test_two_signals(start_strewing: Callable[..., Strewn]) -> None:
    strewn = start_strewing()
    strewn.run.wait_learning()
    strewn.run.process.send_signal(signal.SIGINT)
    strewn.run.process.send_signal(signal.SIGTERM)
    assert strewn.run.wait_end() in (130, 143)
    strewn.assert_nothing_left()


@pytest.mark.parametrize(
    "victim",
    [
        "supervisor",
        "sampler-0",
        pytest.param("learner", marks=pytest.mark.faults),
        pytest.param("everybody", marks=pytest.mark.faults),
    ],
)
def test_kill_9(start_strewing: Callable[..., Strewn], victim: str) -> None:
    """Of a sampler alone the run goes on; what its environments started is gone all the same."""
    strewn = start_strewing()
    strewn.run.wait_learning()
    roles, supervisor = strewn.run.pids(), strewn.run.process.pid
    victims = {"supervisor": [supervisor], "everybody": [supervisor, *roles.values()]}.get(victim) or [roles[victim]]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if victim == "sampler-0":
        wait_for("its successor", lambda: strewn.run.pids()["sampler-0"] != roles["sampler-0"])
        strewn.run.process.send_signal(signal.SIGINT)
    assert strewn.run.wait_end() == {"learner": 1, "sampler-0": 130}.get(victim, -signal.SIGKILL)
    strewn.assert_nothing_left()


@pytest.mark.faults
@pytest.mark.parametrize("alone", [False, True])
def test_a_parent_that_was_stopped_and_goes_on(start_strewing: Callable[..., Strewn], alone: bool) -> None:
    """Nobody is taken for hung: what the supervisor slept through says nothing about the others."""
    strewn = start_strewing(hang_after=4)
    run = strewn.run.wait_learning()
    run.process.send_signal(signal.SIGSTOP)
    for pid in run.pids().values() if not alone else ():  # as when the whole container is frozen
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4.5)  # the fault itself: longer than a role may be silent
    run.process.send_signal(signal.SIGCONT)
    before = run.latest("env_steps")
    for pid in run.pids().values():
        os.kill(pid, signal.SIGCONT)
    wait_for("new rows", lambda: run.latest("env_steps") > before)
    assert run.events("restart") == []
    assert all(not is_gone(pid) for pid in run.pids().values())
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    strewn.assert_nothing_left()
