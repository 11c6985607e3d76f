"""How a sampler acts to explore, whatever the order in which it steps."""

from __future__ import annotations

import numpy as np

from spreeze.weights.numpy_policy import NumpyPolicy


class Actor:
    """Random actions until there are weights, then the policy's."""

    def __init__(self, policy: NumpyPolicy, noise_scales: np.ndarray, seed: int) -> None:
        self._policy = policy
        self._noise_scales = noise_scales
        self._rng = np.random.default_rng(seed)
        self._random = np.zeros((len(noise_scales), policy.spec.action_size), np.float32)

    def act(self, obs: np.ndarray, version: int) -> np.ndarray:
        if version > 0:
            return self._policy.explore(obs, self._noise_scales)
        self._rng.random(dtype=np.float32, out=self._random)
        self._random *= 2.0
        self._random -= 1.0
        return self._random


def noise_scales(largest: float, sampler: int, num_envs: int, samplers: int) -> np.ndarray:
    """(K, 1): all environments of all samplers spread evenly over (0, largest], so that some act nearly as the policy
    would and some explore widely."""
    place = sampler * num_envs + np.arange(num_envs, dtype=np.float32)[:, None]
    return (largest * (place + 1.0) / (samplers * num_envs)).astype(np.float32)
