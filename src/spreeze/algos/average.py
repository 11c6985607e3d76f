"""What is evaluated, shown and kept of an actor: the average over its own recent past.

Gradient steps of a constant size carry an actor around a good one more often than to it, and an episode of a task that
can be lost needs every step of it to be right. The mean of the places it came by is better than most of them.

    average <- average + w (actor - average)        w = 1 - exp(-d / (share x updates)), d updates since the last time

So its memory is a `share` of all updates so far: short while much is still to be learned, long later.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class PolicyAverage:
    """`share` 0: the actor as it is."""

    def __init__(self, actor: Tensor, share: float) -> None:
        self._actor = actor
        self._share = share
        self.flat = actor.detach().clone()
        self._updates = torch.zeros((), dtype=torch.float64)  # on the host, which reads it

    def follow(self, updates: int) -> None:
        """The actor has had so many updates."""
        since = updates - float(self._updates)
        if since <= 0:
            return
        weight = -math.expm1(-since / (self._share * updates)) if self._share else 1.0
        self.flat.lerp_(self._actor.detach(), weight)
        self._updates.fill_(updates)

    def state(self, name: str) -> dict[str, Tensor]:
        return {name: self.flat, f"{name}.updates": self._updates}
