"""Kills at random, hundreds of them. The learner is not among the victims: it cannot be replaced, its death ends the
run (test_phases)."""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import COUNTING, HERE, Account, Run, Samplers, is_gone, wait_for

pytest.importorskip("torch")

VICTIMS = ("sampler-0", "sampler-1", "evaluator")
BETWEEN_S = 1.0  # kills are at most so far apart
LONG = pytest.param(200, marks=pytest.mark.faults)


@pytest.fixture
def samplers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Samplers]:
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])  # children look where this process does
    pair = Samplers(tmp_path / "run", COUNTING, 2)
    yield pair
    pair.close()


@pytest.mark.parametrize("kills", [4, LONG])
def test_no_announced_row_is_lost_and_none_comes_twice(samplers: Samplers, moments: random.Random, kills: int) -> None:
    """Each row proves itself; each sampler's rows come in their order, without a gap, up to the moment of its death."""
    accounts = [Account(samplers, index) for index in range(2)]
    back_s: list[float] = []
    for index, account in enumerate(accounts):
        account.new_life()
        samplers.start(index)
    for _ in range(kills):
        index = moments.randrange(2)
        if moments.random() < 0.8:  # else it is killed in its start, as a rule
            accounts[index].drain_until(moments.randint(1, 500))
        samplers.kill(index)
        while accounts[index].drain():
            pass
        if samplers.board.section(f"sampler-{index}").get("lives") == len(accounts[index].rows_of_life):
            accounts[index].new_life()  # one that died before its life began leaves it to its successor
        started_s = time.monotonic()
        samplers.start(index)
        accounts[1 - index].drain()
        if moments.random() < 0.5:
            accounts[index].drain_until(1)
            back_s.append(time.monotonic() - started_s)
    if back_s:
        print(
            f"from its start to its first rows {statistics.median(back_s):.2f} s (median), {max(back_s):.2f} s (most)"
        )
    for index, account in enumerate(accounts):
        told = samplers.board.section(f"sampler-{index}").get("env_steps")
        while account.drain():
            pass
        # a killed sampler may have announced one block that it could not count any more
        uncounted = len(account.rows_of_life) * int(samplers.config.envs_per_sampler)
        assert told <= sum(account.rows_of_life) + uncounted
        assert sum(account.rows_of_life) > 0


@pytest.mark.faults
@pytest.mark.parametrize("kills", [int(os.environ.get("FAULTS_KILLS") or 200)])
def test_a_run_that_is_shot_at_ends_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: random.Random, kills: int
) -> None:
    """Evaluations look bad until the last shot, so that it cannot end before."""
    calm = tmp_path / "calm"
    monkeypatch.setenv("FAULTY_ENVS_MARK", str(calm))
    settings = {"samplers": 2, "replay_ratio": 32, "batch_size": 64, "hidden": "64,64", "learning_starts": 1_000}
    run = Run(tmp_path / "r", "faulty_envs:make_shy_pendulum", until_return=-250, restarts_per_minute=1_000, **settings)
    victims: list[int] = []
    back_s: list[float] = []
    try:
        run.wait_learning()
        for _ in range(kills):
            role = moments.choice(VICTIMS)
            victim = run.pids()[role]
            assert victim not in victims
            victims.append(victim)
            os.kill(victim, signal.SIGKILL)
            shot_s = time.monotonic()
            wait_for("its successor", lambda: run.pids()[role] != victim)  # noqa: B023
            back_s.append(time.monotonic() - shot_s)
            assert run.process.poll() is None, run.stderr.read_text()
            time.sleep(moments.uniform(0.0, BETWEEN_S))
        calm.touch()
        code = run.process.wait(600)
    finally:
        run.end()
    summary = run.summary()
    print(f"{kills} kills; the next process was started after {statistics.median(back_s):.2f} s (median)")
    assert (code, summary["status"]) == (0, "solved"), run.stderr.read_text()
    assert summary["lost_rows"] == 0
    assert sum(summary["restarts"].values()) == kills
    owed = 32 * (summary["env_steps"] - 1_000)
    assert 0 < summary["updates"] * 64 <= owed
    assert all(is_gone(pid) for pid in run.all_pids())
