"""The learner's loop: rows in, updates, weights and checkpoints out; each beside the other, none waiting for others."""

from __future__ import annotations

import time

from spreeze.board import Life, Section
from spreeze.config import RunConfig
from spreeze.errors import NotFiniteError
from spreeze.learner.graphs import Updates
from spreeze.learner.health import Health
from spreeze.learner.ingest import Intake
from spreeze.learner.losses import Losses
from spreeze.learner.pacing import Pacing
from spreeze.learner.publishing import Publishing
from spreeze.learner.saving import Saving

REPORT_EVERY_S = 0.5
_IDLE_S = 0.0005


class LearnerLoop:
    def __init__(
        self,
        config: RunConfig,
        cells: Section,
        asked: Section,
        life: Life,
        pacing: Pacing,
        ingest: Intake,
        updates: Updates,
        publishing: Publishing,
        losses: Losses,
        saving: Saving,
        health: Health,
        updates_before: int = 0,
        frames_before: int = 0,
    ) -> None:
        """`asked`: the supervisor's cells, with the batch size that it wants. `updates_before`: by earlier commands of
        the same run, and the frames that these drew."""
        self._steps = config.steps
        self._cells = cells
        self._asked = asked
        self._life = life
        self._pacing = pacing
        self._ingest = ingest
        self._runner = updates
        self._publishing = publishing
        self._losses = losses
        self._saving = saving
        self._health = health
        self._report_due = 0.0
        self._first_update_is_due = True
        self.updates = updates_before
        self.update_frames = frames_before

    def work(self) -> None:
        """Until the run is stopped."""
        while True:
            try:
                return self._work()
            except NotFiniteError as error:
                self._health.judge(error, self.updates, self._runner.batch_size, self._life.beat)
                self._runner.go_on_from(self.updates)
                self._losses.forget()
                self._publishing.recover()

    def _work(self) -> None:
        cells = self._cells
        cells.set("batch_size", self._runner.batch_size)
        while not self._life.stopping():
            self._life.beat()
            worked = self._take_rows() + self._update()
            if self.updates:  # also while it waits for rows: its last updates must not wait with it
                self._publishing.offer(self.updates)
                self._health.tend(self.updates)
            self._saving.tend()
            cells.set("env_steps_permitted", self._pacing.permitted(self.update_frames, self._runner.batch_size))
            if time.monotonic() >= self._report_due:
                self._report()
            if not worked:
                time.sleep(_IDLE_S)
        self._report()
        self._publishing.close(self.updates)
        self._saving.close(self._life.beat)

    def counters(self) -> dict[str, int]:
        """What a run that goes on from here counts on from."""
        return {
            "updates": self.updates,
            "update_frames": self.update_frames,
            "env_steps": self._ingest.env_steps,
            "weights_version": self._publishing.version,
        }

    def _take_rows(self) -> int:
        if not self._pacing.may_ingest(self._ingest.env_steps, self.update_frames, self._runner.batch_size):
            return 0
        rows = self._ingest.poll(self.updates)
        if rows:
            self._cells.set("env_steps", self._ingest.env_steps)
            self._cells.set("drains", self._ingest.drains)
        return rows

    def _update(self) -> int:
        batch_size = self._follow_batch_size()
        allowed = self._pacing.allowed(self._ingest.env_steps, self.update_frames, batch_size)
        done = 0
        if allowed:
            done = self._runner.run(allowed)
            if self._first_update_is_due:
                self._first_update_is_due = False
                self._cells.set("first_update_ns", time.monotonic_ns())
            self.updates += done
            self.update_frames += done * batch_size
            self._cells.set("updates", self.updates)
            self._cells.set("update_frames", self.update_frames)
        elif self._steps is not None and self._ingest.env_steps >= self._steps:
            self._note_limit()
        return done

    def _note_limit(self) -> None:
        """All updates that --steps allows are done."""
        self._cells.set("reached_steps", 1)

    def _follow_batch_size(self) -> int:
        """The batch size that the supervisor asked for last is that of the next update."""
        asked = self._asked.get("batch_size")
        if asked and asked != self._runner.batch_size:
            self._runner.step_to(asked)
            self._cells.set("batch_size", asked)
        return self._runner.batch_size

    def _report(self) -> None:
        self._report_due = time.monotonic() + REPORT_EVERY_S
        self._ingest.ages.report(self._cells)
        self._losses.report()
