"""The policies that go out, made from the actor when they are published."""

from __future__ import annotations

import torch

from spreeze.algos.algorithm import Algorithm
from spreeze.observation_norm import ObservationNorm, fold
from spreeze.weights.published import ACTOR, AVERAGE, POLICIES


class Published:
    """`flat`: both policies, as weights/published.py has them, for observations as environments give them."""

    def __init__(self, algorithm: Algorithm, norm: ObservationNorm | None) -> None:
        self._actor, self._average = algorithm.policy_flat().detach(), algorithm.average
        self._spec, self._norm = algorithm.policy_spec, norm
        self.flat = torch.zeros(POLICIES * len(self._actor), dtype=self._actor.dtype, device=self._actor.device)
        self._policies = self.flat.view(POLICIES, -1)

    @property
    def average(self) -> torch.Tensor:
        return self._policies[AVERAGE]

    def renew(self, updates: int) -> None:
        """After so many updates."""
        self._average.follow(updates)
        self._policies[ACTOR].copy_(self._actor)
        self._policies[AVERAGE].copy_(self._average.flat)
        if self._norm is not None:
            for policy in self._policies:
                fold(policy, self._spec, self._norm)
