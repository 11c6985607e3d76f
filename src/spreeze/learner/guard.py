"""The guard over fast updates while a run lasts: now and then, and before the first update of another batch size, they
are compared with the reference on rows of replay, and if they no longer agree the run goes on with the plain ones.
(Users of compiled learners lost days to updates that silently learned nothing.)"""

from __future__ import annotations

import time
from collections.abc import Callable

from spreeze.algos.choice import Choice, compare
from spreeze.algos.kernels.parity import Parity
from spreeze.config import RunConfig
from spreeze.learner.graphs import Updates, make_updates
from spreeze.replay import Replay

FIRST_CHECK_S = 30.0  # rows and weights are no longer those of the start
CHECK_EVERY_S = 300.0  # a check takes about 0.1 s of the learner


class GuardedUpdates:
    """`check` compares updates of a batch size; `make_plain` puts plain ones of it in the place of the fast ones."""

    def __init__(
        self,
        fast: Updates,
        check: Callable[[int], Parity],
        make_plain: Callable[[int], Updates],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._updates = fast
        self._check = check
        self._make_plain = make_plain
        self._warn = warn
        self._clock = clock
        self._due: float | None = clock() + FIRST_CHECK_S
        self._checked = {fast.batch_size}  # before the run began

    @property
    def batch_size(self) -> int:
        return self._updates.batch_size

    def go_on_from(self, updates: int) -> None:
        self._updates.go_on_from(updates)

    def run(self, most: int) -> int:
        if self._due is not None and self._clock() >= self._due:
            self._compare(self.batch_size)
        return self._updates.run(most)

    def step_to(self, batch_size: int) -> None:
        if self._due is not None and batch_size not in self._checked:
            self._compare(batch_size)
        self._updates.step_to(batch_size)

    def _compare(self, batch_size: int) -> None:
        parity = self._check(batch_size)
        self._checked.add(batch_size)
        self._due = self._clock() + CHECK_EVERY_S
        if not parity.ok:
            self._due = None
            self._updates = self._make_plain(batch_size)
            self._warn(f"the fast update no longer agrees with the reference: {parity.words()}; plain updates go on")


def make_guarded(choice: Choice, replay: Replay, config: RunConfig, warn: Callable[[str], None]) -> Updates:
    """The updates of a run: captured on a GPU unless `--compile off`, and guarded where they are kernels."""
    kernels = choice.kernels
    captured = replay.device.type == "cuda" and config.compile == "on"
    updates = make_updates(choice.algorithm, replay, int(config.batch_size), captured)
    if kernels is None or config.deterministic:  # a check draws rows, at a time that the clock decides
        return updates

    def make_plain(batch_size: int) -> Updates:
        kernels.fall_back()
        return make_updates(kernels, replay, batch_size, captured)

    return GuardedUpdates(
        updates, lambda size: compare(kernels, replay.layout, config, replay.sample(size)), make_plain, warn
    )
