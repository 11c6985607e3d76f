"""Updates that change their batch size while they go on."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from spreeze.learner.graphs import CapturedLadder, EagerUpdates
from spreeze.replay import Replay
from spreeze.spec import Layout

LAYOUT = Layout(2, 1)


class Turns:
    """Stands for an algorithm whose actor learns in every third update; notes (turn, rows) of each."""

    period = 3

    def __init__(self) -> None:
        self.done: list[tuple[int, int]] = []

    def update(self, batch: object, turn: int) -> None:
        self.done.append((turn, len(batch.obs)))  # type: ignore[attr-defined]


class Rung:
    """Stands for CapturedUpdates: runs `at_once` updates at a time."""

    def __init__(self, algorithm: Turns, batch_size: int, at_once: int) -> None:
        self.batch_size, self.turn, self._algorithm, self._at_once = batch_size, 0, algorithm, at_once

    def run(self, most: int) -> int:
        for _ in range(min(most, self._at_once)):
            self._algorithm.done.append((self.turn, self.batch_size))
            self.turn = (self.turn + 1) % self._algorithm.period
        return min(most, self._at_once)


def test_eager_updates_draw_as_many_rows_as_they_are_told() -> None:
    replay = Replay(LAYOUT, 100)
    replay.extend(torch.zeros(10, LAYOUT.row_size))
    algorithm = Turns()
    updates = EagerUpdates(algorithm, replay, 4)  # type: ignore[arg-type]
    for batch_size in (4, 4, 7, 2, 2):
        updates.step_to(batch_size)
        assert updates.run(10) == 1
        assert updates.batch_size == batch_size
    assert algorithm.done == [(0, 4), (1, 4), (2, 7), (0, 2), (1, 2)]


def test_a_ladder_prepares_a_rung_once_and_goes_on_in_the_turn_of_the_one_before() -> None:
    algorithm, captured = Turns(), []

    def capture(batch_size: int) -> Rung:
        captured.append(batch_size)
        return Rung(algorithm, batch_size, at_once=2)

    ladder = CapturedLadder(capture, 64)  # type: ignore[arg-type]
    assert captured == [64]
    for batch_size in (64, 128, 64, 256, 128):
        ladder.step_to(batch_size)
        assert (ladder.batch_size, ladder.run(10)) == (batch_size, 2)
    assert captured == [64, 128, 256]
    assert [turn for turn, _ in algorithm.done] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
