"""Keeping a policy at the newest weights: what samplers, evaluator and watchers share."""

from __future__ import annotations

import time

import numpy as np

from spreeze.board import Section
from spreeze.errors import WeightsError
from spreeze.weights.link import Follower, WeightsStamp
from spreeze.weights.numpy_policy import NumpyPolicy

BROKEN_FOR_AT_MOST_S = 30.0
_RETRY_S = 0.05


class Refresher:
    """Loads new weights when a new version is announced. What is broken is counted and tried again, the policy keeps
    what it had; only when nothing could be loaded for 30 s it is an error."""

    def __init__(self, follower: Follower, policy: NumpyPolicy, section: Section | None = None) -> None:
        self._follower = follower
        self._policy = policy
        self._section = section
        self._incoming = np.zeros_like(policy.flat)
        self._broken_since: float | None = None
        self._retry_at = 0.0
        self.stamp = WeightsStamp(0, 0, 0)
        self.failures = 0

    def refresh(self) -> bool:
        """True when the policy has changed."""
        if self._broken_since is not None and time.monotonic() < self._retry_at:
            return False
        try:
            if self._follower.version() == self.stamp.version:
                return False
            stamp = self._follower.load(self._incoming)
        except WeightsError as error:
            self._note_broken(error)
            return False
        self._broken_since = None
        if stamp.version == self.stamp.version:
            return False
        self._policy.flat[:] = self._incoming
        self.stamp = stamp
        if self._section is not None:
            self._section.set("weights_version", stamp.version)
        return True

    def _note_broken(self, error: WeightsError) -> None:
        now = time.monotonic()
        self.failures += 1
        if self._section is not None:
            self._section.add("weights_failures", 1)
        if self._broken_since is None:
            self._broken_since = now
        self._retry_at = now + _RETRY_S
        if now - self._broken_since > BROKEN_FOR_AT_MOST_S:
            raise WeightsError(f"no whole weights for {BROKEN_FOR_AT_MOST_S:.0f} s: {error}") from error
