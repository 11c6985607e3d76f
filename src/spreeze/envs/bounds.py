"""From a policy's action in [-1, 1] to the environment's bounds."""

from __future__ import annotations

import numpy as np

from spreeze.spec import EnvSpec


class Bounds:
    """action * half + middle, where both bounds are finite; elsewhere the action passes as it is, in [-1, 1].

    The result is a new array each time: an environment may keep the action it was given.
    """

    def __init__(self, spec: EnvSpec, dtype: np.dtype) -> None:
        low, high = np.array(spec.action_low, np.float64), np.array(spec.action_high, np.float64)
        finite = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(finite, low, -1.0), np.where(finite, high, 1.0)
        self._half = ((high - low) / 2).astype(dtype)
        self._middle = ((high + low) / 2).astype(dtype)
        self._low, self._high = low.astype(dtype), high.astype(dtype)
        # Rounding may carry an end past its bound; rounding is monotonic, so looking at the two ends is enough.
        ends = np.stack([self._middle - self._half, self._middle + self._half])
        self._rounds_out = bool((ends < self._low).any() or (ends > self._high).any())

    def __call__(self, action: np.ndarray) -> np.ndarray:  # (K, A) in [-1, 1] -> (K, A) in the environment's bounds
        scaled = action * self._half
        scaled += self._middle
        if self._rounds_out:
            np.clip(scaled, self._low, self._high, out=scaled)
        return scaled
