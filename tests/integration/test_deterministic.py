"""`--deterministic`: the same bits at every run, with samplers and learner at work at the same time, and after a kill
in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import Run, is_gone, wait_for

from spreeze.learner.checkpoint import find_checkpoint

pytest.importorskip("torch")

STEPS = 600
ROUNDS = {
    "deterministic": True, "samplers": 2, "envs_per_sampler": 2, "learning_starts": 60, "hidden": "8,8",
    "eval_every": 0.15, "checkpoint_every": 0.25, "replay_size": 500,  # every 150 and 250 updates; replay goes round
}  # fmt: skip
OF_THE_CLOCK = ("wall_s", "ended_s")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(run: Run | None = None, **settings: Any) -> Run:
        if run is None:
            started.append(Run(tmp_path / f"run-{len(started)}", **{**ROUNDS, **settings}))
        else:
            started.append(Run(run.run_dir, again=True, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


def ended(run: Run) -> Run:
    assert run.wait_end() == 0, run.stderr.read_text()
    return run


def told(run: Run) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in run.lines("eval.jsonl")
    ]


def assert_same(run: Run, other: Run) -> None:
    """Every evaluation, and everything at the end: networks, optimisers, random states and replay."""
    assert len(told(run)) >= 3
    assert told(run) == told(other)
    one, two = find_checkpoint(run.run_dir)[0], find_checkpoint(other.run_dir)[0]
    assert one.counters == two.counters
    state, other_state = one.state(), two.state()
    assert state.keys() == other_state.keys()
    for name, value in state.items():
        assert np.array_equal(value, other_state[name]), name
    assert np.array_equal(np.concatenate(list(one.pieces())), np.concatenate(list(two.pieces())))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="sac"),
        pytest.param({"algo": "td3", "n_step": 3, "replay_ratio": 24}, id="td3", marks=pytest.mark.slow),
    ],
)
def test_the_same_seed_is_the_same_run_also_after_a_kill(start: Callable[..., Run], settings: dict[str, Any]) -> None:
    whole = ended(start(steps=STEPS, **settings))
    killed = start(steps=STEPS, **settings)
    wait_for("a checkpoint", lambda: killed.events("checkpoint"))
    for pid in (killed.process.pid, *killed.all_pids()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    killed.process.wait()
    wait_for("everybody to be gone", lambda: all(is_gone(pid) for pid in killed.all_pids()))
    resumed = ended(start(run=killed))
    assert_same(whole, resumed)
    for run in (whole, resumed):  # the rounds count their time in the environments as well
        assert any(line["raw_hz"] for line in run.lines("metrics.jsonl"))


@pytest.mark.slow
def test_another_seed_is_another_run(start: Callable[..., Run]) -> None:
    one, two = (ended(start(steps=200, seed=seed, eval_every=0.02)) for seed in (1, 2))
    assert told(one)
    assert told(one) != told(two)
