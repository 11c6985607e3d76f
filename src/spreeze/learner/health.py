"""What the learner does when numbers stop being finite: it finds the batch that did it, and stops or goes back once.

Nothing here reads the device while all is well. Weights and losses are checked on the host, on their way to samplers
and figures, which they reach only if they are finite (learner/publishing.py, learner/losses.py); a checkpoint's state
on its way to the disk (learner/saving.py). Now and then the state is copied aside, on its device; a copy counts as good
once weights and losses of later updates were found finite, because a critic that went wrong shows in its next loss.

When something is not finite, the updates since the last good copy are done again, one at a time, each looked at. The
batch of the first that goes wrong is kept. Rows that came in meanwhile may change which rows are drawn; if all goes
well the second time, the batch that was drawn last is kept, and the note beside it says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from spreeze.algos.algorithm import Algorithm
from spreeze.errors import NotFiniteError
from spreeze.learner.paired_replay import PairedReplay
from spreeze.replay import Replay
from spreeze.spec import Batch

BATCH_FILE = "errors/batch.safetensors"  # in the run folder
COPY_EVERY_S = 1.0
_SEARCH_AT_MOST_S = 20.0
_FIELDS = ("obs", "action", "next_obs", "reward", "discount")


class _Copy(NamedTuple):
    updates: int
    state: dict[str, Tensor]
    draws: dict[str, Tensor]


class Health:
    """`tend` after updates; `judge` when a NotFiniteError was raised."""

    def __init__(
        self,
        run_dir: Path,
        algorithm: Algorithm,
        replay: Replay | PairedReplay,
        checked: Callable[[], int],
        restores: bool,
        warn: Callable[[str], None],
    ) -> None:
        """`checked`: how many updates the weights and losses had seen that were found finite last. `restores`: go back
        to the last good state, once."""
        self._run_dir, self._algorithm, self._replay = run_dir, algorithm, replay
        self._checked, self._warn = checked, warn
        self._restores = restores
        self._good: _Copy | None = None
        self._newest: _Copy | None = None
        self._due = 0.0

    def tend(self, updates: int) -> None:
        if self._newest is not None and self._checked() > self._newest.updates:
            self._good, self._newest = self._newest, None
        if self._newest is None and time.monotonic() >= self._due:
            self._due = time.monotonic() + COPY_EVERY_S
            state = {name: value.detach().clone() for name, value in self._algorithm.state().items()}
            self._newest = _Copy(updates, state, self._replay.draws())

    def judge(self, error: NotFiniteError, updates: int, batch_size: int, beat: Callable[[], object]) -> None:
        """Keeps the batch that did it. Goes back to the last good state, or raises."""
        words = self._keep_batch(updates, batch_size, beat)
        if not self._restores or self._good is None:
            raise NotFiniteError(f"{error} {words}") from error
        self._restores = False
        self._load(self._good)
        self._newest = None
        self._warn(
            f"{error} {words} Training went back to the state of {updates - self._good.updates} updates before, "
            "which it does once."
        )

    def _keep_batch(self, updates: int, batch_size: int, beat: Callable[[], object]) -> str:
        last = _copied(self._replay.last_drawn(batch_size))
        found = self._search(updates, batch_size, beat)
        batch = last if found is None else found
        how = "the first batch that did it again" if found is not None else "the batch that was drawn last"
        if batch is None:
            return "No batch was drawn yet."
        try:
            self._write(batch, {"batch": how, "updates": updates})
        except OSError as error:
            return f"The batch was not kept: {error}."
        return f"Kept in {self._run_dir / BATCH_FILE}: {how}."

    def _search(self, updates: int, batch_size: int, beat: Callable[[], object]) -> dict[str, Tensor] | None:
        """Does the updates since the last good state again, one at a time."""
        good, algorithm = self._good, self._algorithm
        if good is None or isinstance(self._replay, PairedReplay):  # whole updates are computed in one place
            return None
        self._load(good)
        self._replay.load_draws(good.draws)
        until = time.monotonic() + _SEARCH_AT_MOST_S
        for number in range(good.updates, updates + 1):
            if time.monotonic() > until:
                return None
            beat()
            batch = self._replay.sample(batch_size)
            algorithm.update(batch, number % algorithm.period)
            if not all_finite({**algorithm.state(), "losses": algorithm.metrics.values_vector}):
                return _copied(batch)
        return None

    def _load(self, copy: _Copy) -> None:
        self._algorithm.load(copy.state)
        for metrics in (self._algorithm.metrics, self._algorithm.critic_metrics):
            metrics.values_vector.zero_()  # not every update writes all of them

    def _write(self, batch: dict[str, Tensor], about: Mapping[str, object]) -> None:
        from safetensors.torch import save

        path = self._run_dir / BATCH_FILE
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(save(batch, metadata={"about": json.dumps(about)}))


def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in tensors.values() if value.is_floating_point())


def _copied(batch: Batch | None) -> dict[str, Tensor] | None:
    if batch is None:
        return None
    return {name: getattr(batch, name).detach().cpu().clone().contiguous() for name in _FIELDS}
