"""Losses reach the board one report later, and what an algorithm does not have is told from zero."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from spreeze.algos.algorithm import Metrics
from spreeze.board import Board
from spreeze.learner.losses import Losses


def test_a_report_puts_on_the_board_what_the_one_before_fetched() -> None:
    cells = Board.create(1).section("learner")
    metrics = Metrics(("critic_loss", "q_mean"), torch.device("cpu"))
    losses = Losses(metrics, cells)
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
