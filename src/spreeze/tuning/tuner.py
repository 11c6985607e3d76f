"""The tuner of a run: measures windows, asks the search, puts its answers in force by the board's cells, and says in
events what it did and why. It lives in the supervisor's loop and never waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from spreeze.board import Board, Section
from spreeze.tuning.readings import Readings
from spreeze.tuning.search import FOUND, TRY, WATCH, WINDOW_S, Search, Setting, Space, Window, middle

EVENT = "adaptation"
_WARM_UP_S = 1.0  # after the first update and everybody's first step
_SETTLE_S = 0.25  # from a change until it shows in the rates alone
_SAMPLERS_WITHIN_S = 10.0  # one that does not come up must not hold up the rest
_ALONE_BELOW_CORES = 0.5  # what other programs may have while something is found that is worth remembering


class Tuner:
    def __init__(
        self,
        space: Space,
        search: Search,
        board: Board,
        readings: Readings,
        event: Callable[..., object],
        keep: Callable[[Setting], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`event`: as Recorder.event; `keep`: remembers what a search found."""
        self._space = space
        self._board = board
        self._cells, self._learner = board.section("supervisor"), board.section("learner")
        self._readings = readings
        self._event = event
        self._keep = keep
        self._clock = clock
        self._search = search
        self._tried: list[Window] = []
        self._first_update_s: float | None = None
        self._due: float | None = None  # when a window begins; None: not before the setting is in force
        self._ends: float | None = None  # when the window that has begun ends
        self._over = False
        self._cells.set("active_samplers", search.ask().setting.samplers)

    def tick(self) -> None:
        """Now and then, from the supervisor's loop."""
        now = self._clock()
        if self._over or not self._begun(now):
            return
        if self._ends is not None:
            if now >= self._ends:
                self._tell(self._readings.end(), now)
        elif self._due is not None:
            if now >= self._due:
                self._begin_window(now)
        elif self._in_force():
            self._due = now + _SETTLE_S

    def _begun(self, now: float) -> bool:
        """Training goes on, and what there is to do has been said."""
        if self._first_update_s is None:
            if self._learner.get("first_update_ns"):  # of this command: totals may go on from an earlier one's
                self._first_update_s = now
                self._due = now + _WARM_UP_S
                if self._space.fixed:
                    self._over = True
                    self._event(EVENT, f"nothing to try: {self._space.why_nothing()}", phase=FOUND)
                elif self._search.ask().phase != TRY:
                    self._announce()
            return False
        return self._everybody_samples() or now >= self._first_update_s + _SAMPLERS_WITHIN_S

    def _everybody_samples(self) -> bool:
        active = self._board.sampler_sections()[: self._board.active_samplers()]
        return all(section.get("first_step_ns") for section in active)

    def _begin_window(self, now: float) -> None:
        self._readings.begin()
        self._due, self._ends = None, now + WINDOW_S

    def _in_force(self) -> bool:
        """The learner has stepped to the batch size, for which it may first have to prepare; parking takes no time."""
        return self._learner.get("batch_size") == self._search.ask().setting.batch_size

    def _tell(self, window: Window, now: float) -> None:
        self._ends = None
        before = self._search.ask()
        if before.phase == TRY:
            self._tried.append(window)
        self._search.tell(window)
        move = self._search.ask()
        if (move.phase, move.setting, move.reason) != (before.phase, before.setting, before.reason):
            self._announce()
        if move.setting == before.setting:
            self._begin_window(now)
        else:
            _put_in_force(self._cells, move.setting)

    def _announce(self) -> None:
        move = self._search.ask()
        if move.phase == WATCH:
            return
        setting = {"samplers": move.setting.samplers, "batch_size": move.setting.batch_size}
        self._event(EVENT, f"{move.phase} {move.reason}", phase=move.phase, **setting)
        if move.phase == FOUND and self._tried:
            others = middle(self._tried).cores_of_others
            if others is None or others < _ALONE_BELOW_CORES:
                self._keep(move.setting)


def _put_in_force(cells: Section, setting: Setting) -> None:
    cells.set("active_samplers", setting.samplers)
    cells.set("batch_size", setting.batch_size)
