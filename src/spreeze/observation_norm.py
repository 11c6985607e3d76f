"""Observations brought to mean 0 and deviation 1, by the statistics of all rows that ever came in.

    networks see    x' = (x - mean) / std

The rows in replay stay as environments gave them; what is drawn is normalized, for actor and critics alike, with the
statistics of that moment. Whoever acts needs to know nothing of it: what is published is the actor for observations as
they are, since the first layer takes both in (`fold`):

    x' W + b  =  x W' + b'        W' = W / std        b' = b - mean W'
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from spreeze.spec import Batch, Layout
from spreeze.weights.numpy_policy import PolicySpec

# What hardly changes is not blown up: a number that has been constant may move later.
LEAST_STD = 0.01


class ObservationNorm:
    """What lives longer than a call is changed in place, so that a captured draw sees the newest statistics."""

    def __init__(self, layout: Layout, device: torch.device | str = "cpu") -> None:
        size = layout.obs_size
        self._obs = layout.slice_of("obs")
        self._count = torch.zeros((), dtype=torch.float64, device=device)  # rows
        self._mean, self._spread = (torch.zeros(size, dtype=torch.float64, device=device) for _ in range(2))
        self.shift = torch.zeros(size, device=device)  # the mean
        self.scale = torch.ones(size, device=device)  # 1 / std

    def update(self, rows: Tensor) -> None:
        """Rows (n, row_size) that came in: means and squared deviations of two groups become one's (Chan et al.)."""
        if not len(rows):
            return
        obs = rows[:, self._obs].double()
        mean, before = obs.mean(0), self._count.clone()
        self._count.add_(len(obs))
        further = mean - self._mean
        self._spread.add_((obs - mean).square_().sum(0)).add_(further.square() * (before * len(obs) / self._count))
        self._mean.add_(further * (len(obs) / self._count))
        self._renew()

    def apply(self, batch: Batch) -> None:
        """In place."""
        for part in (batch.obs, batch.next_obs):
            part.sub_(self.shift).mul_(self.scale)

    def state(self) -> dict[str, Tensor]:
        """Copies."""
        return {name: tensor.clone() for name, tensor in self._named().items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self._named().items():
            tensor.copy_(state[name])
        self._renew()

    def _named(self) -> dict[str, Tensor]:
        return {"norm_count": self._count, "norm_mean": self._mean, "norm_spread": self._spread}

    def _renew(self) -> None:
        self.shift.copy_(self._mean)
        self.scale.copy_((self._spread / self._count).sqrt_().clamp_(min=LEAST_STD).reciprocal_())


def fold(policy: Tensor, spec: PolicySpec, norm: ObservationNorm) -> None:
    """A policy's vector for normalized observations becomes that for observations as environments give them."""
    inputs, outputs = spec.layer_sizes[:2]
    weight = policy[: inputs * outputs].view(inputs, outputs)
    weight.mul_(norm.scale.unsqueeze(1))
    policy[inputs * outputs : (inputs + 1) * outputs].sub_(norm.shift @ weight)
