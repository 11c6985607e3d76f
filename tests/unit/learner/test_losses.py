"""Losses reach the board one report later, and what an algorithm does not have is told from zero."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from spreeze.algos import make_algorithm
from spreeze.algos.algorithm import Metrics
from spreeze.board import Board
from spreeze.config import RunConfig
from spreeze.learner.losses import Losses, halves_of


def test_a_report_puts_on_the_board_what_the_one_before_fetched() -> None:
    cells = Board.create(1).section("learner")
    metrics = Metrics(("critic_loss", "q_mean"), torch.device("cpu"))
    losses = Losses([metrics], cells)
    metrics["critic_loss"].fill_(3.5)
    metrics["q_mean"].fill_(-2.0)
    losses.report()
    assert math.isnan(cells.get_float("critic_loss"))
    metrics["q_mean"].fill_(7.0)
    losses.report()
    assert (cells.get_float("critic_loss"), cells.get_float("q_mean")) == (3.5, -2.0)
    losses.report()
    assert cells.get_float("q_mean") == 7.0
    assert math.isnan(cells.get_float("temperature"))


def test_what_both_halves_name_is_the_sum_of_the_two() -> None:
    cells = Board.create(1).section("learner")
    actor, critics = (Metrics(("actor_loss", "q_mean"), torch.device("cpu")) for _ in range(2))
    losses = Losses([actor, critics], cells)
    actor["actor_loss"].fill_(-1.5)
    critics["actor_loss"].fill_(4.0)
    critics["q_mean"].fill_(2.0)
    losses.report()
    losses.report()
    assert (cells.get_float("actor_loss"), cells.get_float("q_mean")) == (2.5, 2.0)


def test_one_place_is_one_half() -> None:
    one = make_algorithm("sac", 3, 2, RunConfig(hidden=(4,), target_entropy=-1.0))
    two = make_algorithm("sac", 3, 2, RunConfig(hidden=(4,), target_entropy=-1.0), critic_device="cpu")
    assert halves_of(one) == [one.metrics]
    assert [id(half) for half in halves_of(two)] == [id(two.metrics), id(two.critic_metrics)]
