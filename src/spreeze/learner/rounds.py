"""The learner's loop of a run that is the same every time (`--deterministic`): rounds, in which samplers and learner
work at the same time, and whose borders are where anything passes between them.

    round          r                                 r + 1
    samplers k     one step with weights r - 1       one step with weights r                 each into its own ring
    learner        the updates that are owed         the updates that are owed
                                         | rows of round r into replay, sampler by sampler
                                         | weights r out, then the round r + 1 begins

No clock decides anything: evaluations and checkpoints come after fixed counts of updates, nothing adapts, no role is
replaced. An evaluation has the weights of its round because the learner does not publish the next ones before the
evaluator has loaded them.

At a checkpoint every sampler begins new episodes, seeded by how many checkpoints there were: a run that goes on from it
can do the same, while the state of a simulator in the middle of an episode cannot be saved. What the old episodes had
not finished ends there, its last rows with their bootstrap. Checkpoints that are asked for, and the one at the end, are
not at such a border: what goes on from them is sound, and not the bits of a run that was never stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from spreeze.board import Section
from spreeze.experience.link import InTurn
from spreeze.learner.loop import LearnerLoop
from spreeze.memory import fence

UPDATES_A_SECOND = 1000  # for how many updates a second of --eval-every and --checkpoint-every stands
_LOOK_S = 0.0002


class Rounds(LearnerLoop):
    """`begin` before `work`."""

    era = 0  # how often all samplers have begun new episodes
    _at_border = False

    def begin(
        self,
        receiver: InTurn,
        samplers: Sequence[Section],
        evaluator: Section,
        era: int,
        eval_every_s: float,
        checkpoint_every_s: float | None,
    ) -> None:
        self._receiver, self._samplers, self._evaluator = receiver, samplers, evaluator
        self.era = era
        self._eval_every = updates_for(eval_every_s)
        self._checkpoint_every = None if checkpoint_every_s is None else updates_for(checkpoint_every_s)

    @property
    def next_era(self) -> int:
        """Of a run that goes on from here."""
        return self.era if self._at_border else self.era + 1

    def _work(self) -> None:
        cells, number = self._cells, 1
        cells.set("batch_size", self._runner.batch_size)
        if self.updates:
            self._publishing.publish_now(self.updates)
        self._open(number)
        while True:
            before = self.updates
            if not self._catch_up() or not self._wait(partial(self._have_done, number)):
                break
            self._take_round()
            self._publishing.publish_now(self.updates)
            if not self._evaluate(before) or not self._save(before):
                break
            number += 1
            self._open(number)
        self._wait(lambda: False)
        self._report()
        self._publishing.close(self.updates)
        self._saving.close(self._life.beat)

    def _open(self, number: int) -> None:
        """Samplers may begin this round."""
        self._cells.set("era", self.era)
        fence()
        self._cells.set("round", number)

    def _catch_up(self) -> bool:
        """The updates that the rows in replay allow. False at the end of the run."""
        while self._update():
            self._tend()
            if self._life.stopping():
                return False
        return not self._cells.get("reached_steps")

    def _note_limit(self) -> None:
        self._publishing.publish_now(self.updates)  # first, so that the last evaluation is of these weights
        super()._note_limit()

    def _have_done(self, number: int) -> bool:
        return all(section.get("rounds") >= number for section in self._samplers)

    def _take_round(self) -> None:
        fence()
        sent = self._asked.get("env_steps_before") + sum(section.get("env_steps") for section in self._samplers)
        self._receiver.start_over()
        while self._ingest.env_steps < sent:  # without end only where rows are lost, which a ring does not do
            self._ingest.poll(self.updates)
            self._life.beat()
        self._cells.set("env_steps", self._ingest.env_steps)
        self._cells.set("drains", self._ingest.drains)

    def _evaluate(self, updates_before: int) -> bool:
        """Where an evaluation is due. False at the end of the run."""
        if not crosses(updates_before, self.updates, self._eval_every):
            return True
        version = self._publishing.version
        self._cells.set("evaluation_env_steps", self._ingest.env_steps)
        fence()
        self._cells.set("evaluation_asked", version)
        return self._wait(lambda: self._evaluator.get("weights_version") == version)

    def _save(self, updates_before: int) -> bool:
        """Where a checkpoint is due. False at the end of the run."""
        if self._checkpoint_every is None or not crosses(updates_before, self.updates, self._checkpoint_every):
            return True
        asked = self._cells.get("evaluation_asked")
        if not self._wait(lambda: self._evaluator.get("evaluated_version") >= asked and self._saving.idle):
            return False
        self.era += 1
        self._at_border = True
        self._saving.begin()
        self._at_border = False
        return True

    def _wait(self, condition: Callable[[], bool]) -> bool:
        """False at the end of the run. The supervisor ends a run in which anybody who is waited for dies or hangs."""
        while not condition():
            self._tend()
            if self._life.stopping():
                return False
            time.sleep(_LOOK_S)
        return True

    def _tend(self) -> None:
        self._life.beat()
        self._saving.tend()
        self._health.tend(self.updates)
        if time.monotonic() >= self._report_due:
            self._report()


def updates_for(seconds: float) -> int:
    return max(1, round(seconds * UPDATES_A_SECOND))


def crosses(before: int, after: int, every: int) -> bool:
    return after // every > before // every
