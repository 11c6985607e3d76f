"""However a run ends, nothing of it is left: no process, not even one that an environment started elsewhere, no shared
memory, no temporary file beyond the run's folder. Counted before and after."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import Run, is_gone, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; elsewhere a role notices by itself"),
]
pytest.importorskip("torch")


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


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Strewn]]:
    started: list[Strewn] = []
    temp = tmp_path / "t"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))

    def make(**settings: Any) -> Strewn:
        sleep = f"9{time.monotonic_ns() % 10**7}"
        monkeypatch.setenv("FAULTY_ENVS_SLEEP", sleep)
        run = Run(tmp_path / "r", "faulty_envs:make_strewing", eval_episodes=1, envs_per_sampler=2, **settings)
        started.append(Strewn(run, sleep, temp))
        return started[-1]

    yield make
    for strewn in started:
        strewn.run.end()
        for pid in strewn.sleepers():
            psutil.Process(pid).kill()


def test_a_normal_end(start: Callable[..., Strewn]) -> None:
    strewn = start(steps=600)
    assert strewn.run.wait_end() == 0, strewn.run.stderr.read_text()
    strewn.assert_nothing_left()
    assert not (strewn.run.run_dir / "tmp").exists()


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal(start: Callable[..., Strewn], number: signal.Signals, exit_code: int) -> None:
    strewn = start()
    strewn.run.wait_learning()
    assert len(strewn.sleepers()) >= 2 * (2 + 1)  # two of each environment: the sampler's and the evaluator's
    assert list((strewn.run.run_dir / "tmp").glob("strewn-*"))
    strewn.run.process.send_signal(number)
    assert strewn.run.wait_end() == exit_code
    assert strewn.run.summary()["status"] == "stopped"
    strewn.assert_nothing_left()


@pytest.mark.faults
def test_two_signals(start: Callable[..., Strewn]) -> None:
    strewn = start()
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
def test_kill_9(start: Callable[..., Strewn], victim: str) -> None:
    """Of a sampler alone the run goes on; what its environments started is gone all the same."""
    strewn = start()
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
def test_a_parent_that_was_stopped_and_goes_on(start: Callable[..., Strewn]) -> None:
    """Nobody is taken for hung: what the supervisor slept through says nothing about the others."""
    strewn = start(hang_after=4)
    run = strewn.run.wait_learning()
    run.process.send_signal(signal.SIGSTOP)
    for pid in run.pids().values():  # as when the whole container is frozen
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
