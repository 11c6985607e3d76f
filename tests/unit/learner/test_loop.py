"""The learner's loop with fakes around it: rows in, updates, weights out, each when pacing says so."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from spreeze.algos.algorithm import Metrics
from spreeze.board import Board
from spreeze.config import RunConfig
from spreeze.errors import NotFiniteError
from spreeze.learner.loop import LearnerLoop
from spreeze.learner.losses import Losses
from spreeze.learner.pacing import make_pacing

BATCH_SIZE, LEARNING_STARTS = 8, 20


class Ages:
    def report(self, cells: Any) -> None:
        cells.set_float("transfer_age_ms_p50", 1.0)


class Rows:
    """Stands for Ingest: gives `at_once` rows with each poll, `in_all` of them."""

    def __init__(self, at_once: int, in_all: int) -> None:
        self.at_once, self.in_all = at_once, in_all
        self.env_steps = self.drains = 0
        self.ages = Ages()
        self.seen: list[tuple[int, int]] = []  # (env steps, updates) at each poll

    def poll(self, updates: int) -> int:
        self.seen.append((self.env_steps, updates))
        rows = min(self.at_once, self.in_all - self.env_steps)
        self.env_steps += rows
        self.drains += rows > 0
        return rows


class Updates:
    """Does at most `bundle` updates at a time."""

    def __init__(self, bundle: int) -> None:
        self._bundle = bundle
        self.batch_size = BATCH_SIZE
        self.done: list[int] = []  # batch size of each update

    def step_to(self, batch_size: int) -> None:
        assert batch_size != self.batch_size
        self.batch_size = batch_size

    def run(self, most: int) -> int:
        assert most > 0
        done = min(most, self._bundle)
        self.done += [self.batch_size] * done
        return done


class Publishing:
    def __init__(self, trouble: Exception | None = None) -> None:
        self.offers: list[int] = []
        self.closed_with: int | None = None
        self._trouble = trouble

    def offer(self, updates: int) -> None:
        if self._trouble is not None:
            raise self._trouble
        self.offers.append(updates)

    def close(self, updates: int) -> None:
        self.closed_with = updates


class Saving:
    def __init__(self) -> None:
        self.tended = 0
        self.closed = False

    def tend(self) -> None:
        assert not self.closed
        self.tended += 1

    def close(self, beat: Any) -> None:
        self.closed = True


class Health:
    """Stops whatever was raised."""

    def tend(self, updates: int) -> None:
        assert updates

    def judge(self, error: Exception, updates: int, batch_size: int, beat: Any) -> None:
        raise error


class Life:
    """Lets the loop go round a given number of times."""

    def __init__(self, rounds: int) -> None:
        self._left = rounds
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1

    def stopping(self) -> bool:
        self._left -= 1
        return self._left < 0


class House:
    def __init__(
        self,
        rounds: int,
        rows: Rows,
        ratio: float | str = "free",
        steps: int | None = None,
        bundle: int = 3,
        trouble: Exception | None = None,
    ) -> None:
        board = Board.create(1)
        self.cells, self.asked = board.section("learner"), board.section("supervisor")
        self.rows, self.life, self.publishing = rows, Life(rounds), Publishing(trouble)
        self.updates = Updates(bundle)
        self.saving = Saving()
        self.loop = LearnerLoop(
            RunConfig.of({"steps": steps}),
            self.cells,
            self.asked,
            self.life,  # type: ignore[arg-type]
            make_pacing(ratio, LEARNING_STARTS, lead=4, steps=steps),
            self.rows,  # type: ignore[arg-type]
            self.updates,
            self.publishing,  # type: ignore[arg-type]
            Losses([Metrics(("critic_loss",), torch.device("cpu"))], self.cells),
            self.saving,  # type: ignore[arg-type]
            Health(),  # type: ignore[arg-type]
        )

    def work(self) -> House:
        self.loop.work()
        return self


@pytest.mark.parametrize("ratio", [1.0, 8.0, 30.0])
@pytest.mark.parametrize("at_once", [1, 7, 50])
def test_rows_are_let_in_only_when_the_ratio_is_met(ratio: float, at_once: int) -> None:
    house = House(400, Rows(at_once, 10_000), ratio).work()
    assert house.loop.updates > 10
    for env_steps, updates in house.rows.seen:
        owed = max(0.0, ratio * (env_steps - LEARNING_STARTS))
        assert 0 <= owed - updates * BATCH_SIZE < BATCH_SIZE


def test_a_limit_of_steps_is_told_when_the_last_update_is_done() -> None:
    house = House(200, Rows(7, 10_000), 16.0, steps=100).work()
    assert house.cells.get("reached_steps") == 1
    assert house.rows.env_steps == 105  # the block that reached it, and none after
    assert house.loop.updates == 2 * (105 - LEARNING_STARTS)
    unfinished = House(30, Rows(7, 10_000), 16.0, steps=100).work()
    assert unfinished.rows.env_steps < 100
    assert unfinished.cells.get("reached_steps") == 0


def test_what_it_has_done_is_on_the_board() -> None:
    house = House(100, Rows(10, 60), "free").work()
    cells = house.cells
    assert cells.get("env_steps") == house.rows.env_steps == 60
    assert cells.get("drains") == 6
    assert cells.get("updates") == house.loop.updates > 0
    assert cells.get("first_update_ns") > 0
    assert cells.get("env_steps_permitted") > 10**15
    assert cells.get_float("transfer_age_ms_p50") == 1.0
    assert house.life.beats == 100


def test_the_batch_size_that_is_asked_for_comes_between_two_updates_and_frames_are_counted() -> None:
    house, asked_at = House(200, Rows(10, 10_000), 16.0), {5: 2, 11: 32, 12: 8}
    poll = house.rows.poll

    def ask_and_poll(updates: int) -> int:
        if batch_size := asked_at.get(len(house.rows.seen)):
            house.asked.set("batch_size", batch_size)
        return poll(updates)

    house.rows.poll = ask_and_poll  # type: ignore[method-assign]
    house.work()
    assert list(dict.fromkeys(house.updates.done)) == [8, 2, 32]
    assert house.updates.done[-1] == 8
    assert house.cells.get("batch_size") == 8
    assert house.cells.get("update_frames") == house.loop.update_frames == sum(house.updates.done)
    assert house.cells.get("updates") == len(house.updates.done)
    # everything that the rows before the last poll owed
    assert 0 <= 16 * (house.rows.env_steps - LEARNING_STARTS) - house.loop.update_frames < 8 + 16 * 10


def test_weights_are_offered_also_while_it_waits_for_rows() -> None:
    """The last updates before a long wait must reach the samplers without another update."""
    house = House(50, Rows(30, 30), 8.0).work()
    assert house.loop.updates == 10
    assert house.publishing.offers.count(10) > 20
    assert house.publishing.closed_with == 10


def test_nothing_is_offered_before_the_first_update() -> None:
    house = House(50, Rows(1, LEARNING_STARTS - 1)).work()
    assert house.publishing.offers == []


def test_weights_that_are_not_finite_end_the_loop() -> None:
    house = House(100, Rows(10, 10_000), trouble=NotFiniteError("not finite"))
    with pytest.raises(NotFiniteError):
        house.work()
    assert house.publishing.closed_with is None
    assert not house.saving.closed, "what is not finite must not be saved"


def test_checkpoints_have_their_turn_in_every_round_and_the_last_word() -> None:
    house = House(50, Rows(30, 30), 8.0).work()
    assert house.saving.tended == 50
    assert house.saving.closed
