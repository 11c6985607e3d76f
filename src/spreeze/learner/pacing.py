"""How many updates the env steps so far allow, and how many env steps the updates so far allow. Pure.

Updates are counted in frames (updates x the batch size that each had), since the batch size may change while a run goes
on: what is owed to the env steps so far is a number of frames, whatever batches they are drawn in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

UNBOUNDED = 2**62


class Pacing(Protocol):
    """`frames`: update frames done; `batch_size`: of the next update."""

    def allowed(self, env_steps: int, frames: int, batch_size: int) -> int: ...  # updates that may be done now

    def may_ingest(self, env_steps: int, frames: int, batch_size: int) -> bool: ...  # may more rows enter replay now

    def permitted(self, frames: int, batch_size: int) -> int: ...  # env steps that samplers may have taken by now


@dataclass(frozen=True)
class FreePacing:
    """The paper's way: both sides run as fast as they can once the first rows are there."""

    learning_starts: int
    last_step: int = UNBOUNDED  # --steps

    def allowed(self, env_steps: int, frames: int, batch_size: int) -> int:
        return UNBOUNDED if self.learning_starts <= env_steps < self.last_step else 0

    def may_ingest(self, env_steps: int, frames: int, batch_size: int) -> bool:
        return env_steps < self.last_step

    def permitted(self, frames: int, batch_size: int) -> int:
        return self.last_step


@dataclass(frozen=True)
class ExactPacing:
    """Update frames / env steps is held at `ratio`, counted from the first update on; the faster side waits.

    Rows enter replay only while the learner has nothing left to do: whenever rows are let in, and at the end, the
    frames that ratio x (env_steps - learning_starts) owes and that are not done yet are less than one batch. So the
    rows that came with the last block beyond --steps have their updates as well. Samplers may run ahead of replay by
    `lead` rows and no further, so the faster side never makes data that waits long.
    """

    ratio: float
    learning_starts: int
    lead: int
    last_step: int = UNBOUNDED

    def allowed(self, env_steps: int, frames: int, batch_size: int) -> int:
        owed = self.ratio * (env_steps - self.learning_starts)
        return max(0, math.floor((owed - frames) / batch_size + 1e-9))

    def may_ingest(self, env_steps: int, frames: int, batch_size: int) -> bool:
        return env_steps < self.last_step and self.allowed(env_steps, frames, batch_size) == 0

    def permitted(self, frames: int, batch_size: int) -> int:
        needed_for_next = math.ceil((frames + batch_size) / self.ratio)
        return min(self.last_step, self.learning_starts + needed_for_next + self.lead)


def make_pacing(
    replay_ratio: float | str, learning_starts: int, lead: int, steps: int | None
) -> FreePacing | ExactPacing:
    last_step = UNBOUNDED if steps is None else steps
    if replay_ratio == "free":
        return FreePacing(learning_starts, last_step)
    return ExactPacing(float(replay_ratio), learning_starts, lead, last_step)
