"""Five environments so small that the right answer is known: they tell a broken learner from an unlucky one.

Each adds one thing to the one before it, so the first that fails names the broken part: the critic's regression, its
use of the observation, the bootstrap and the discount, the actor, and the actor's use of the observation.
All values are without an entropy bonus: with SAC let the temperature go to (almost) 0 before comparing.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

ObsInfo = tuple[np.ndarray, dict[str, Any]]
Answer = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


class _Probe(gymnasium.Env):
    """One observation and one action, each a number in [-1, 1]; every episode terminates."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._obs = np.zeros(1, np.float32)

    def _seen(self, value: float) -> np.ndarray:
        self._obs = np.full(1, value, np.float32)
        return self._obs.copy()

    def _random_sign(self) -> float:
        return -1.0 if self.np_random.random() < 0.5 else 1.0


class ProbeConstant(_Probe):
    """One step, reward 1 whatever is done. obs is 0. Q(0, a) = 1 for every action."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsInfo:
        super().reset(seed=seed)
        return self._seen(0.0), {}

    def step(self, action: np.ndarray) -> Answer:
        return self._seen(0.0), 1.0, True, False, {}


class ProbeObservation(_Probe):
    """One step, reward = obs, which is -1 or 1 by chance. Q(obs, a) = obs for every action."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsInfo:
        super().reset(seed=seed)
        return self._seen(self._random_sign()), {}

    def step(self, action: np.ndarray) -> Answer:
        reward = float(self._obs[0])
        return self._seen(0.0), reward, True, False, {}


class ProbeDiscount(_Probe):
    """Two steps, obs 0 then 1; reward 0 then 1. Q(1, a) = 1 and Q(0, a) = gamma for every action."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsInfo:
        super().reset(seed=seed)
        return self._seen(0.0), {}

    def step(self, action: np.ndarray) -> Answer:
        if self._obs[0] == 0.0:
            return self._seen(1.0), 0.0, False, False, {}
        return self._seen(0.0), 1.0, True, False, {}


class ProbeAction(_Probe):
    """One step, reward = -(a - 0.5)^2. obs is 0. Q(0, a) = -(a - 0.5)^2; the best action is 0.5, its value 0."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsInfo:
        super().reset(seed=seed)
        return self._seen(0.0), {}

    def step(self, action: np.ndarray) -> Answer:
        return self._seen(0.0), -((float(action[0]) - 0.5) ** 2), True, False, {}


class ProbeObservationAction(_Probe):
    """One step, reward = -(a - obs / 2)^2, where obs is -1 or 1 by chance.

    Q(obs, a) = -(a - obs / 2)^2; the best action is obs / 2 (-0.5 or 0.5), its value 0.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ObsInfo:
        super().reset(seed=seed)
        return self._seen(self._random_sign()), {}

    def step(self, action: np.ndarray) -> Answer:
        reward = -((float(action[0]) - 0.5 * float(self._obs[0])) ** 2)
        return self._seen(0.0), reward, True, False, {}
