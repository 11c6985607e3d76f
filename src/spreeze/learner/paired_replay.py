"""Replay where it is used: whole rows with the critics, their observations once more with the actor.

Observations are most of a row, and they cross once, when a row comes in, instead of with every update that draws it.
Both sides draw the same rows because they draw the same numbers: from equal generators of the same kind, or, on a CPU
and a GPU, from numbers that are counted (draws.py). So both must be extended between the same two updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from spreeze.observation_norm import ObservationNorm
from spreeze.replay import Replay, Side
from spreeze.spec import Batch, Layout, ObservationLayout


class PairedReplay:
    def __init__(
        self,
        layout: Layout,
        capacity: int,
        actor_device: torch.device | str,
        critic_device: torch.device | str,
        seed: int = 0,
        normalize: bool = False,
        reward_scale: float = 1.0,
    ) -> None:
        actor_device, critic_device = torch.device(actor_device), torch.device(critic_device)
        counted = actor_device.type != critic_device.type
        self.layout = layout
        self.observations = ObservationLayout(layout.obs_size, layout.action_size)
        self.critics = Replay(
            layout, capacity, critic_device, seed, counted, normalize=normalize, reward_scale=reward_scale
        )
        self.actor = Replay(self.observations, capacity, actor_device, seed, counted, normalize=normalize)

    @property
    def norm(self) -> ObservationNorm | None:
        """The actor's: both sides see the same rows."""
        return self.actor.norm

    @property
    def size(self) -> int:
        return self.critics.size

    @property
    def sides(self) -> tuple[Side, ...]:
        """Each takes whole rows, on its own device; all of them must have the same rows between the same updates."""
        return (
            Side(self.critics.device, self.critics.extend),
            Side(self.actor.device, self._extend_actor),
        )

    def extend(self, rows: Tensor) -> None:
        for side in self.sides:
            side.extend(rows.to(side.device))

    def _extend_actor(self, rows: Tensor) -> None:
        self.actor.extend(self._observations_of(rows))

    def generator_states(self) -> tuple[Tensor, Tensor]:
        return self.critics.generator.get_state(), self.actor.generator.get_state()

    def set_generator_states(self, states: tuple[Tensor, Tensor]) -> None:
        self.critics.generator.set_state(states[0])
        self.actor.generator.set_state(states[1])

    @property
    def total(self) -> int:
        return self.critics.total

    @property
    def capacity(self) -> int:
        return self.critics.capacity

    def view(self, first: int, most: int) -> Tensor:
        """Of whole rows: the observations are in them."""
        return self.critics.view(first, most)

    def begin_again(self, pieces: Iterable[Tensor], rows: int, end: int) -> None:
        self.critics.begin_again((), rows, end)
        self.actor.begin_again((), rows, end)
        for piece in pieces:
            self.extend(piece)

    def last_drawn(self, count: int) -> Batch | None:
        return self.critics.last_drawn(count)

    def draws(self) -> dict[str, Tensor]:
        """Both sides stand where one replay alone would."""
        return self.critics.draws()

    def load_draws(self, saved: Mapping[str, Tensor]) -> None:
        for side in (self.critics, self.actor):
            side.load_draws(saved)

    def _observations_of(self, rows: Tensor) -> Tensor:
        taken = torch.empty(len(rows), self.observations.row_size, device=rows.device)
        self.observations.take(rows, taken)
        return taken.to(self.actor.device)
