"""Which pacing a run's schedule and ratio ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from spreeze.config import RunConfig
from spreeze.learner.pacing import ExactPacing, FreePacing
from spreeze.roles.learner import choose_pacing


def config(**settings: object) -> RunConfig:
    return RunConfig.of({"samplers": 2, "batch_size": 64, "learning_starts": 100, **settings})


def test_asynchronous_samplers_may_be_ahead() -> None:
    assert choose_pacing(config(), rows_a_step=4) == FreePacing(100)
    assert choose_pacing(config(replay_ratio=8), rows_a_step=4) == ExactPacing(8.0, 100, lead=16)


def test_in_turn_nobody_is_ahead() -> None:
    pacing = choose_pacing(config(schedule="synchronous"), rows_a_step=4)
    assert pacing == ExactPacing(64.0, 100, lead=0)  # one update an env step
    assert pacing.permitted(frames=0, batch_size=64) == 101
    assert not pacing.may_ingest(104, frames=3 * 64, batch_size=64)
    assert pacing.allowed(104, frames=3 * 64, batch_size=64) == 1
    assert choose_pacing(config(schedule="synchronous", replay_ratio=8), rows_a_step=4) == ExactPacing(8.0, 100, 0)
