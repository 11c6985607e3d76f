"""What a transition is made of: the only place that knows a row.

A row is one transition, packed once by the sampler and never re-packed on its way to the network:

    | obs (O) | action (A) | next_obs (O) | reward (1) | discount (1) |        all float32, no padding

`obs` and `action` are neighbours so that a critic's input is one slice of the row. `next_obs` is the true last
observation, never the one after a reset. `discount` is the factor of the bootstrap: gamma^n, and 0 where the
episode terminated; a truncated episode keeps its bootstrap. Actions are stored as the policy gives them, in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from spreeze.errors import ConfigError


@dataclass(frozen=True)
class EnvSpec:
    """The spaces of one environment, as the rest of the system needs them."""

    env_id: str
    obs_size: int
    action_size: int
    action_low: tuple[float, ...]  # the environment's bounds; the policy acts in [-1, 1]
    action_high: tuple[float, ...]
    max_episode_steps: int | None = None

    def as_json(self) -> dict:
        return {
            "env_id": self.env_id,
            "obs_size": self.obs_size,
            "action_size": self.action_size,
            "action_low": list(self.action_low),
            "action_high": list(self.action_high),
            "max_episode_steps": self.max_episode_steps,
        }

    @staticmethod
    def from_json(data: dict) -> EnvSpec:
        return EnvSpec(
            env_id=str(data["env_id"]),
            obs_size=int(data["obs_size"]),
            action_size=int(data["action_size"]),
            action_low=tuple(float(x) for x in data["action_low"]),
            action_high=tuple(float(x) for x in data["action_high"]),
            max_episode_steps=None if data["max_episode_steps"] is None else int(data["max_episode_steps"]),
        )


class Step(NamedTuple):
    """What K environments answered to one action each. The arrays are reused by the next step: copy to keep."""

    next_obs: np.ndarray  # (K, O) float32, where the action led: the true last observation of an episode
    reward: np.ndarray  # (K,) float32
    terminated: np.ndarray  # (K,) bool: the episode is over, nothing follows
    truncated: np.ndarray  # (K,) bool: the episode was cut (a time limit), the value goes on
    obs: np.ndarray  # (K, O) float32, what to act on next: next_obs, or the first observation of a new episode
    valid: np.ndarray | None  # (K,) bool, or None for all: False where the engine only reset and nothing happened


class VecEnv(Protocol):
    """K environments stepped together; finished ones start anew by themselves."""

    spec: EnvSpec
    num_envs: int

    def reset(self, seed: int | None = None) -> np.ndarray: ...  # -> obs (K, O) float32
    def step(self, action: np.ndarray) -> Step: ...  # action (K, A) float32 in [-1, 1]: begin, then finish
    def begin(self, action: np.ndarray) -> None: ...  # an engine with threads of its own steps from here on
    def finish(self) -> Step: ...  # of the step that has begun
    def recover(self, fault: Any) -> np.ndarray: ...  # after an EnvFault: -> obs (K, O) of new episodes in all K
    def stalled(self, silent_s: float) -> Any: ...  # -> EnvFault; asked by another thread while a call hangs
    def render(self) -> np.ndarray: ...  # -> (H, W, 3) uint8 of the first environment
    def close(self) -> None: ...


class Field(NamedTuple):
    name: str
    size: int  # floats
    offset: int  # floats from the row's start


@dataclass(frozen=True)
class Layout:
    """Where each field of a row lies. Slices work on NumPy arrays and torch tensors of shape (rows, row_size)."""

    obs_size: int
    action_size: int

    @property
    def fields(self) -> tuple[Field, ...]:
        sizes = (
            ("obs", self.obs_size),
            ("action", self.action_size),
            ("next_obs", self.obs_size),
            ("reward", 1),
            ("discount", 1),
        )
        fields, offset = [], 0
        for name, size in sizes:
            fields.append(Field(name, size, offset))
            offset += size
        return tuple(fields)

    @property
    def row_size(self) -> int:
        """Floats in a row."""
        return 2 * self.obs_size + self.action_size + 2

    @property
    def row_bytes(self) -> int:
        return 4 * self.row_size

    def slice_of(self, name: str) -> slice:
        for field in self.fields:
            if field.name == name:
                return slice(field.offset, field.offset + field.size)
        raise KeyError(f"a row has no field {name!r}; it has {[f.name for f in self.fields]}")

    def split(self, rows: Any) -> Batch:
        """Views of `rows` (B, row_size), one per field; nothing is copied."""
        action_end = self.obs_size + self.action_size
        next_end = action_end + self.obs_size
        return Batch(
            obs=rows[:, : self.obs_size],
            action=rows[:, self.obs_size : action_end],
            obs_action=rows[:, :action_end],
            next_obs=rows[:, action_end:next_end],
            reward=rows[:, next_end],
            discount=rows[:, next_end + 1],
        )


class ObservationLayout(Layout):
    """The part of a row that an actor on a device of its own needs: | obs (O) | next_obs (O) |"""

    @property
    def fields(self) -> tuple[Field, ...]:
        return Field("obs", self.obs_size, 0), Field("next_obs", self.obs_size, self.obs_size)

    @property
    def row_size(self) -> int:
        return 2 * self.obs_size

    def split(self, rows: Any) -> Batch:
        obs, next_obs = rows[:, : self.obs_size], rows[:, self.obs_size :]
        return Batch(obs, None, None, next_obs, None, None)

    def take(self, rows: Any, into: Any) -> None:
        """From whole rows (B, row_size) into such parts (B, 2 O)."""
        whole = Layout(self.obs_size, self.action_size)
        for field in self.fields:
            into[:, self.slice_of(field.name)] = rows[:, whole.slice_of(field.name)]


class Batch(NamedTuple):
    """Rows by field: NumPy arrays in a sampler, torch tensors in the learner."""

    obs: Any  # (B, O)
    action: Any  # (B, A)
    obs_action: Any  # (B, O + A), the two above as one view
    next_obs: Any  # (B, O)
    reward: Any  # (B,)
    discount: Any  # (B,)


def layout_of(spec: EnvSpec) -> Layout:
    if spec.obs_size < 1 or spec.action_size < 1:
        raise ConfigError(
            f"{spec.env_id}: an observation of {spec.obs_size} and an action of {spec.action_size} numbers were got; "
            "both need at least one. Give the environment a flat Box observation and a Box action."
        )
    return Layout(spec.obs_size, spec.action_size)
