"""Runs that are killed at random, also while they save, and resumed: all that was saved is there again, once."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from running import Run, assert_no_gap, wait_for
from test_resume import kill_all, saved_places

from spreeze.learner.checkpoint import CHECKPOINTS, find_checkpoint

pytest.importorskip("torch")

KILLS = int(os.environ.get("FAULTS_ROUNDS") or 1) * 8
STEPS_A_LIFE = 300
VICTIMS = ("everybody", "everybody while it saves", "learner", "supervisor")


def shoot(run: Run, victim: str, moments: random.Random) -> None:
    if victim == "everybody while it saves":
        wait_for("a checkpoint that is being written", lambda: list((run.run_dir / CHECKPOINTS).glob(".writing-*")))
        kill_all(run)
    elif victim == "everybody":
        time.sleep(moments.uniform(0.0, 1.0))
        kill_all(run)
    elif victim == "learner":
        os.kill(run.pids()["learner"], signal.SIGKILL)
        assert run.wait_end() == 1
    else:
        run.process.kill()
        run.wait_end()
        run.assert_nobody_left()


def saved_enough(run: Run, steps: int) -> bool:
    assert run.process.poll() is None, run.stderr.read_text()
    return bool(run.events("checkpoint")) and (run.latest("env_steps") or 0) > steps


@pytest.mark.faults
def test_a_run_that_is_killed_again_and_again_ends(tmp_path: Path, moments: random.Random) -> None:
    settings = {"replay_ratio": 4, "checkpoint_every": 0.3, "samplers": 2, "until_return": 1e9}
    run, runs = Run(tmp_path / "r", "faulty_envs:make_unhurried", **settings), []
    try:
        before: set[tuple[int, ...]] = set()
        for kill in range(KILLS):
            runs.append(run)
            wait_for("rows and a checkpoint", partial(saved_enough, run, len(before) + STEPS_A_LIFE))
            shoot(run, VICTIMS[kill % len(VICTIMS)], moments)
            saved = saved_places(run)
            assert before <= saved, "a row that was saved is gone"
            assert_no_gap(saved)
            assert len(saved) == find_checkpoint(run.run_dir)[0].counters["env_steps"]
            before = saved
            last = {"steps": len(saved) + STEPS_A_LIFE} if kill == KILLS - 1 else {}
            run = Run(run.run_dir, "", again=True, trust=True, **last)
        runs.append(run)
        assert run.wait_end() == 0, run.stderr.read_text()
        assert before < saved_places(run)
        assert_no_gap(saved_places(run))
        assert len(run.events("resume")) == KILLS
    finally:
        for one in runs:
            one.end()
