"""The guard over fast updates while a run lasts: now and then they are compared with the reference on rows of replay,
and if they no longer agree the run goes on with the plain ones. (Users of compiled learners lost days to updates that
silently learned nothing.)"""

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
    """`check` compares; `make_plain` puts the plain updates in the place of the fast ones."""

    def __init__(
        self,
        fast: Updates,
        check: Callable[[], Parity],
        make_plain: Callable[[], Updates],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._updates = fast
        self._check = check
        self._make_plain = make_plain
        self._warn = warn
        self._clock = clock
        self._due: float | None = clock() + FIRST_CHECK_S

    def run(self, most: int) -> int:
        if self._due is not None and self._clock() >= self._due:
            self._compare()
        return self._updates.run(most)

    def _compare(self) -> None:
        parity = self._check()
        self._due = self._clock() + CHECK_EVERY_S
        if not parity.ok:
            self._due = None
            self._updates = self._make_plain()
            self._warn(f"the fast update no longer agrees with the reference: {parity.words()}; plain updates go on")


def make_guarded(choice: Choice, replay: Replay, config: RunConfig, warn: Callable[[str], None]) -> Updates:
    """The updates of a run: captured on a GPU unless `--compile off`, and guarded where they are kernels."""
    batch_size, kernels = int(config.batch_size), choice.kernels
    captured = replay.device.type == "cuda" and config.compile == "on"
    updates = make_updates(choice.algorithm, replay, batch_size, captured)
    if kernels is None:
        return updates

    def make_plain() -> Updates:
        kernels.fall_back()
        return make_updates(kernels, replay, batch_size, captured)

    return GuardedUpdates(
        updates, lambda: compare(kernels, replay.layout, config, replay.sample(batch_size)), make_plain, warn
    )
