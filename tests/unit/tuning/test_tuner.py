"""The tuner on a real board, with a clock and windows that the test gives."""

from __future__ import annotations

from typing import Any

import pytest

from spreeze.board import Board
from spreeze.tuning.search import FOUND, Search, Setting, Space, Window, search
from spreeze.tuning.tuner import EVENT, Tuner


class Windows:
    """Stands for Readings: an update takes 1 ms and 0.9 us a row of the batch in force."""

    def __init__(self, board: Board, others: float | None = 0.0) -> None:
        self.board, self.others = board, others
        self.of: list[tuple[int, int]] = []
        self._begun = False

    def setting(self) -> tuple[int, int]:
        return self.board.active_samplers(), self.board.section("learner").get("batch_size")

    def begin(self) -> None:
        self._begun, self._setting = True, self.setting()

    def end(self) -> Window:
        assert self._begun
        assert self.setting() == self._setting, "the setting changed within a window"
        self._begun = False
        self.of.append(self._setting)
        samplers, batch_size = self._setting
        return Window(1 / (1e-3 + 0.9e-6 * batch_size), 100_000.0 * samplers, 2.0, self.others)


class House:
    """`learner_takes_s`: until it has stepped to another batch size."""

    def __init__(
        self,
        space: Space,
        start: Setting,
        known: str | None = None,
        others: float | None = 0.0,
        learner_takes_s: float = 0.3,
    ) -> None:
        self.now, self.takes_s = 100.0, learner_takes_s
        self.board = Board.create(space.samplers)
        self.learner, self.cells = self.board.section("learner"), self.board.section("supervisor")
        self.learner.set("batch_size", start.batch_size)
        self.windows = Windows(self.board, others)
        self.events: list[dict[str, Any]] = []
        self.kept: list[Setting] = []
        self._asked_at: float | None = None
        self.tuner = Tuner(
            space, Search(search(space, start, known)), self.board, self.windows,  # type: ignore[arg-type]
            self._event, self.kept.append, clock=lambda: self.now,
        )  # fmt: skip

    def _event(self, kind: str, reason: str, **fields: Any) -> None:
        assert kind == EVENT
        self.events.append({"reason": reason, **fields})

    def train(self) -> House:
        self.learner.set("first_update_ns", 1)
        for section in self.board.sampler_sections():
            section.set("first_step_ns", 1)
        return self

    def go_on(self, seconds: float) -> House:
        until = self.now + seconds
        while self.now < until:
            self.now += 0.02
            self.tuner.tick()
            asked = self.cells.get("batch_size")
            if asked and asked != self.learner.get("batch_size"):
                self._asked_at = self._asked_at or self.now
                if self.now >= self._asked_at + self.takes_s:
                    self._asked_at = None
                    self.learner.set("batch_size", asked)
        return self

    def phases(self) -> list[str]:
        return [event["phase"] for event in self.events]


SPACE = Space(2, None, (256, 512, 1024, 2048, 4096), None, 16)
NOTHING = Space(1, "one is what 2 usable cores have room for", (64,), "on a CPU 64 is known to be good", 2)


def test_nothing_is_measured_before_training_has_begun() -> None:
    house = House(SPACE, Setting(2, 1024)).go_on(30)
    assert (house.windows.of, house.events) == ([], [])
    assert house.board.active_samplers() == 2


def test_totals_of_an_earlier_command_are_not_taken_for_training() -> None:
    house = House(SPACE, Setting(2, 1024))
    house.learner.set("updates", 10_000)
    house.board.section("sampler-0").set("env_steps", 10_000)
    assert house.go_on(30).windows.of == []


def test_what_it_finds_is_in_force_told_and_kept() -> None:
    house = House(SPACE, Setting(2, 1024)).train().go_on(15)
    assert house.learner.get("batch_size") == house.cells.get("batch_size") == 2048  # of 2.8 ms one is fixed
    assert house.phases() == ["try", "try", "found"]
    assert house.events[-1]["batch_size"] == 2048
    assert house.events[-1]["samplers"] == 2
    assert house.kept == [Setting(2, 2048)]
    assert [batch for _, batch in house.windows.of[:12]] == [1024] * 3 + [512] * 3 + [2048] * 6


def test_windows_wait_until_the_learner_has_prepared_the_batch_size() -> None:
    house = House(SPACE, Setting(2, 1024), learner_takes_s=20.0).train().go_on(15)
    assert {batch for _, batch in house.windows.of} == {1024}
    assert house.cells.get("batch_size") == 512
    house.go_on(120)
    assert house.phases()[-1] == FOUND


def test_where_there_is_nothing_to_try_it_says_so_once_and_measures_nothing() -> None:
    house = House(NOTHING, Setting(1, 64)).go_on(2).train().go_on(60)
    assert house.windows.of == []
    assert [event["reason"] for event in house.events] == [f"nothing to try: {NOTHING.why_nothing()}"]
    assert (house.board.active_samplers(), house.cells.get("batch_size"), house.kept) == (1, 0, [])


@pytest.mark.parametrize("others", [None, 0.4, 3.0])
def test_what_is_found_beside_other_programs_is_not_remembered(others: float | None) -> None:
    house = House(SPACE, Setting(2, 1024), others=others).train().go_on(15)
    assert house.phases()[-1] != "try"
    assert bool(house.kept) == (others != 3.0)


def test_a_known_start_is_not_tried_again_and_stays_watched() -> None:
    house = House(SPACE, Setting(1, 2048), known="found here on 2026-11-19").train().go_on(30)
    assert house.phases() == ["found"]
    assert house.events[0]["reason"] == "found 1 active sampler, batch 2,048: found here on 2026-11-19"
    assert house.kept == []
    assert house.board.active_samplers() == 1
    assert len(house.windows.of) > 30


def test_a_sampler_that_does_not_come_up_holds_nothing_up() -> None:
    house = House(SPACE, Setting(2, 1024))
    house.learner.set("first_update_ns", 1)
    house.board.section("sampler-0").set("first_step_ns", 1)
    house.go_on(9)
    assert house.windows.of == []
    assert house.go_on(20).phases()[-1] == FOUND
