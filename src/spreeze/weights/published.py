"""What a learner publishes: two policies as one vector, so that they always belong together.

| the actor, which samplers explore with | its average, which is evaluated, shown and kept |
"""

from __future__ import annotations

import numpy as np

from spreeze.weights.link import Follower, WeightsStamp

POLICIES = 2
ACTOR, AVERAGE = range(POLICIES)


class PolicyFollower:
    """One of the published policies, of `weight_count` numbers; `published` follows the whole vector."""

    def __init__(self, published: Follower, weight_count: int, which: int) -> None:
        self._published = published
        self._all = np.zeros(POLICIES * weight_count, np.float32)
        self._policy = self._all[which * weight_count : (which + 1) * weight_count]

    def version(self) -> int:
        return self._published.version()

    def load(self, into: np.ndarray) -> WeightsStamp:
        stamp = self._published.load(self._all)
        into[:] = self._policy
        return stamp
