"""The policy that acts in the picture: the newest weights of a run, or the best ones that it kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spreeze.board import Section
from spreeze.envs.bounds import Bounds
from spreeze.envs.registry import spec_of
from spreeze.errors import ConfigError, WeightsError
from spreeze.spec import EnvSpec
from spreeze.weights.link import Follower, WeightsStamp
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec
from spreeze.weights.policy_file import POLICY_FILE, load_policy
from spreeze.weights.refresh import Refresher

if TYPE_CHECKING:
    import gymnasium


def check_fits(policy: PolicySpec, env: gymnasium.Env, env_id: str) -> EnvSpec:
    """-> what the environment is. Raises WeightsError where the policy is of another one."""
    spec = spec_of(env, env_id)
    if (spec.obs_size, spec.action_size) != (policy.obs_size, policy.action_size):
        raise WeightsError(
            f"the policy takes {policy.obs_size} numbers and gives {policy.action_size}; {env_id} has "
            f"{spec.obs_size} and {spec.action_size}: they are not of one run"
        )
    return spec


class FollowedPolicy:
    """Acts without exploration; until there are weights it acts at random, as samplers do."""

    def __init__(
        self,
        follower: Follower,
        spec: PolicySpec,
        env: EnvSpec,
        describe: Callable[[WeightsStamp], dict[str, Any]] | None = None,
        section: Section | None = None,
    ) -> None:
        self._policy = NumpyPolicy(spec, 1)
        self._refresher = Refresher(follower, self._policy, section)
        self._bounds = Bounds(env, np.dtype(np.float32))
        self._describe = describe or _live
        self._rng = np.random.default_rng(0)

    def refresh(self) -> bool:
        return self._refresher.refresh()

    def act(self, obs: Any) -> np.ndarray:
        """obs (O,) -> action (A,) in the environment's own bounds"""
        spec = self._policy.spec
        if self._refresher.stamp.version == 0:
            action = self._rng.uniform(-1.0, 1.0, (1, spec.action_size)).astype(np.float32)
        else:
            action = self._policy.act(np.asarray(obs, np.float32).reshape(1, spec.obs_size))
        return self._bounds(action)[0]

    def describe(self) -> dict[str, Any]:
        """The fields of the picture's state that say who acts."""
        return self._describe(self._refresher.stamp)


def _live(stamp: WeightsStamp) -> dict[str, Any]:
    return {"policy": "live", "weights_version": stamp.version, "updates": stamp.updates}


class BestFollower:
    """Follows the best policy that a run keeps, as if it were published weights; the file's age is the version."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.about: dict[str, Any] = {}

    def version(self) -> int:
        try:
            return os.stat(self._run_dir / POLICY_FILE).st_mtime_ns
        except OSError:
            return 0

    def load(self, into: np.ndarray) -> WeightsStamp:
        version = self.version()
        try:
            policy = load_policy(self._run_dir)
        except ConfigError as error:
            raise WeightsError(str(error)) from None
        if policy.flat.shape != into.shape:
            raise WeightsError(f"the best policy has {len(policy.flat)} weights, this run's have {len(into)}")
        into[:] = policy.flat
        self.about = policy.about
        return WeightsStamp(version, 0, 0)

    def describe(self, stamp: WeightsStamp) -> dict[str, Any]:
        found = {"weights_version": self.about.get("weights_version"), "updates": self.about.get("updates")}
        return {"policy": "best", **{name: n if isinstance(n, int) else None for name, n in found.items()}}
