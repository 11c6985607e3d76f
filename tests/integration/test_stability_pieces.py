"""A run with every piece for stability switched on: what acts has the statistics of the rows in it, and they go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import Run

from spreeze.learner.checkpoint import find_checkpoint
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.published import ACTOR, AVERAGE, POLICIES
from spreeze.weights.ssd import SsdFollower

PIECES = {"critic_norm": "layer", "observation_norm": "on", "reward_scale": 0.1}
HIDDEN = 16  # as running.SMALL has it


def published(run_dir: Path) -> np.ndarray:
    flat = np.zeros((POLICIES, PolicySpec("tanh_gaussian", 3, 1, (HIDDEN, HIDDEN)).weight_count), np.float32)
    SsdFollower(run_dir).load(flat.ravel())
    return flat


def folded(state: dict[str, Any], name: str) -> np.ndarray:
    """By the formulas, from the actor or its average and the statistics that a checkpoint has."""
    flat, ends = state[name].copy(), 3 * HIDDEN
    mean, count = state["replay.norm_mean"], state["replay.norm_count"]
    std = np.sqrt(state["replay.norm_spread"] / count)
    weight = flat[:ends].reshape(3, HIDDEN) / std[:, None]
    flat[:ends] = weight.ravel()
    flat[ends : ends + HIDDEN] -= mean @ weight
    return flat


def test_what_was_published_last_is_the_actor_with_the_statistics_of_all_rows(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    for steps, settings in ((500, {**PIECES, "replay_ratio": 8}), (800, {})):  # the second goes on from the first
        run = Run(run_dir, "Pendulum-v1", again=not settings, steps=steps, **settings)
        try:
            assert run.wait_end() == 0, run.stderr.read_text()
        finally:
            run.end()
        checkpoint, _ = find_checkpoint(run_dir)
        state = checkpoint.state()
        assert state["replay.norm_count"] == checkpoint.end_row >= steps
        assert state["replay.norm_mean"][:2] == pytest.approx(0.0, abs=1.0)
        # statistics of the last rows may be newer than what was published: by little
        for policy, name in ((ACTOR, "actor"), (AVERAGE, "policy_average")):
            np.testing.assert_allclose(published(run_dir)[policy], folded(state, name), rtol=0.05, atol=0.01)
            hidden_on = slice(4 * HIDDEN, None)
            assert np.array_equal(published(run_dir)[policy, hidden_on], state[name][hidden_on])
