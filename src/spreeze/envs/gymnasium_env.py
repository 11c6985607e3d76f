"""K Gymnasium environments, stepped one after the other in one Python loop.

The loop runs once per env step, so each line in it is paid for by every row: what can be done once for all K is
done outside (scaling the actions, looking for numbers that are not finite), and what is rare is left to the rare path
(ends of episodes, faults). Measured on HalfCheetah-v5 with K = 8: under 1 us per env step above env.step itself.
Gymnasium's own MuJoCo tasks are stepped without env.step, with the same results: see mujoco_lean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from operator import add
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from spreeze.envs.bounds import Bounds
from spreeze.envs.fault import BadAnswer, EnvFault, Stalled, first_not_finite, not_finite_obs
from spreeze.envs.mujoco_lean import lean_step
from spreeze.envs.seeds import env_seed
from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import ConfigError, SpreezeError
from spreeze.spec import EnvSpec, Step

if TYPE_CHECKING:
    import gymnasium

NEVER = 2**62
GROUPS = 1  # everything happens in the caller's thread


def known_ids() -> Collection[str] | None:
    return None


def why_not(source: EnvSource, spec: EnvSpec) -> str | None:
    return None


def why_not_unasked(source: EnvSource) -> str | None:
    return None


def make(source: EnvSource, spec: EnvSpec, num_envs: int, seed: int, render: bool) -> GymnasiumVecEnv:
    return GymnasiumVecEnv(source, spec, num_envs, seed, render)


def without_bookkeeping(env: gymnasium.Env) -> tuple[gymnasium.Env, int]:
    """The environment inside the wrappers that gymnasium.make puts around every one, and the time limit they held.

    They only count steps and check the order of calls, which VecEnv does itself, without a Python call per env step.
    """
    from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

    limit = NEVER
    while type(env) in (OrderEnforcing, PassiveEnvChecker, TimeLimit):
        if type(env) is TimeLimit:
            limit = min(limit, int(env._max_episode_steps))
        env = env.env  # type: ignore[attr-defined]
    return env, limit


def _explained(cause: Exception) -> Exception:
    """What the loop itself raised, not the environment, is about the answer that it could not take in."""
    if isinstance(cause, BadAnswer) or (cause.__traceback__ is not None and cause.__traceback__.tb_next is not None):
        return cause
    return BadAnswer(f"its answer is not (array, number, bool, bool, dict): {cause}")


class GymnasiumVecEnv:
    """See spec.VecEnv. Every Step has arrays of its own; where no episode ended, obs is next_obs itself.

    An episode's generator goes on from the one before it, as Gymnasium does; the seed starts the first.
    When an environment fails, step or reset raises EnvFault, and `recover` is the only way to go on.
    """

    def __init__(self, source: EnvSource, spec: EnvSpec, num_envs: int, seed: int, render: bool = False) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self._source = source
        self._seed = seed
        self._render_mode = "rgb_array" if render else None
        self._generations = [0] * num_envs
        self._seeds = [env_seed(seed, index) for index in range(num_envs)]
        self._limits = [NEVER] * num_envs
        self._envs: list[gymnasium.Env] = []
        self._ready = False
        self._at = 0  # the environment that is being stepped or reset, for whoever asks while it does not come back
        self._stepping: np.ndarray | None = None  # on these actions; None in reset
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for index in range(num_envs):
                self._envs.append(self._make(index))
            undo.pop_all()
        self._lean = lean_step(self._envs)
        self._bounds = Bounds(spec, self._envs[0].action_space.dtype or np.dtype(np.float32))
        self._action_shape = (num_envs, spec.action_size)
        self._obs_shape = (spec.obs_size,)
        self._obs_dtype = self._envs[0].observation_space.dtype
        self._nobody = np.zeros(num_envs, bool)
        self._nobody.flags.writeable = False
        self._ticks = 0  # calls of step: episodes remember when they started, so no step has to be counted
        self._started_at = [0] * num_envs
        self._episodes = [0] * num_envs
        self._next_limit = NEVER  # the tick at which the first episode reaches its time limit

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Start K new episodes; without `seed` the first call uses the one given at the start."""
        if seed is not None:
            self._seed = seed
            self._generations = [0] * self.num_envs
        first = seed is not None or not any(self._episodes)
        self._ready = False
        obs = np.empty((self.num_envs, *self._obs_shape), np.float32)
        for index in range(self.num_envs):
            self._begin(index, obs[index], reseed=first)
        return self._begun(obs)

    def begin(self, action: np.ndarray) -> None:
        """Nothing happens before finish: the caller leaves `action` as it is until then."""
        self._begun_action = action

    def finish(self) -> Step:
        return self.step(self._begun_action)

    def step(self, action: np.ndarray) -> Step:
        if not self._ready or action.shape != self._action_shape:
            self._refuse(action)
        ended: dict[int, tuple[bool, bool]] = {}
        self._stepping = action
        next_obs, reward = (self._step_each if self._lean is None else self._step_lean)(action, ended)
        self._ticks += 1
        if not (np.isfinite(next_obs).all() and np.isfinite(reward).all()):
            bad, reason, good_rows = first_not_finite(next_obs, reward)
            self._ticks -= 1
            self._fail(bad, action, reason, lost_rows=good_rows)
        if self._ticks >= self._next_limit:
            self._cut_at_limit(ended)
        if not ended:
            return Step(next_obs, reward, self._nobody, self._nobody, next_obs, None)
        return self._start_anew(next_obs, reward, ended)

    def _step_each(self, action: np.ndarray, ended: dict[int, tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
        """Next observations and rewards by env.step; the ends of episodes go into `ended`."""
        obs_shape, obs_dtype = self._obs_shape, self._obs_dtype
        next_obs = np.empty((self.num_envs, *obs_shape), np.float32)
        reward = np.empty(self.num_envs, np.float32)
        rewards: Any = memoryview(
            reward.data
        )  # twice as fast as the array for one number, and takes nothing but numbers
        index = self._at = 0
        try:
            for step_one, env_action in zip(self._step_calls, self._bounds(action), strict=True):
                obs, rewards[index], terminated, truncated, _ = step_one(env_action)
                if obs.shape != obs_shape or obs.dtype is not obs_dtype:
                    self._refuse_unless_usable(obs)
                next_obs[index] = obs
                if terminated or truncated:
                    ended[index] = (bool(terminated), bool(truncated))
                index += 1
                self._at = index
        except Exception as cause:
            self._fail(index, action, _explained(cause), lost_rows=index)
        return next_obs, reward

    def _step_lean(self, action: np.ndarray, ended: dict[int, tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
        """The same by the lean step."""
        assert self._lean is not None
        try:
            obs, reward, terminated = self._lean(self._bounds(action))
        except Exception as cause:
            self._fail(self._lean.index, action, cause, lost_rows=self._lean.index)
        if terminated is not None and terminated.any():
            ended.update((index, (True, False)) for index in np.flatnonzero(terminated).tolist())
        return obs.astype(np.float32), reward.astype(np.float32)

    def recover(self, fault: EnvFault) -> np.ndarray:  # -> obs (K, O)
        """Rebuild the environment that failed and start new episodes in all K.

        The rest starts anew too because its last step was dropped with the faulty one: a sampler that went on inside
        those episodes would miss one of their rows. So whoever keeps account of episodes clears it for all K.
        Raises EnvFault again when the rebuilt one, or another, fails in reset.
        """
        index = fault.env_index
        with contextlib.suppress(Exception):
            self._envs[index].close()
        self._generations[index] += 1
        self._seeds[index] = env_seed(self._seed, index, self._generations[index])
        try:
            self._envs[index] = self._make(index)
        except Exception as cause:
            self._fail(index, None, cause, lost_rows=0)
        self._lean = lean_step(self._envs)
        obs = np.empty((self.num_envs, *self._obs_shape), np.float32)
        for other in range(self.num_envs):
            self._begin(other, obs[other], reseed=other == index)
        return self._begun(obs)

    def render(self) -> np.ndarray:
        if self._render_mode is None:
            raise ConfigError(f"{self.spec.env_id}: make_vec_env(render=True) is needed to render")
        image = self._envs[0].render()
        if not isinstance(image, np.ndarray) or image.ndim != 3:
            raise ConfigError(f"{self.spec.env_id}: rendered {type(image).__name__}, expected an image (H, W, 3)")
        return image

    def close(self) -> None:
        """Twice is fine."""
        self._ready = False
        for env in self._envs:
            with contextlib.suppress(Exception):  # one that broke may not close either; the process ends anyway
                env.close()
        self._envs = []

    def _make(self, index: int) -> gymnasium.Env:
        env = make_env(self._source, self._render_mode if index == 0 else None)
        env, self._limits[index] = without_bookkeeping(env)
        return env

    def _begin(self, index: int, row: np.ndarray, reseed: bool) -> None:
        """Reset one environment and write its first observation into `row`."""
        if reseed:
            self._seeds[index] = env_seed(self._seed, index, self._generations[index])
            self._episodes[index] = 0
        self._episodes[index] += 1
        self._started_at[index] = self._ticks
        self._at, self._stepping = index, None
        try:
            obs, _ = self._envs[index].reset(seed=self._seeds[index] if reseed else None)
            self._refuse_unless_usable(obs)
            row[:] = obs
            if not np.isfinite(row).all():
                raise not_finite_obs(row)
        except Exception as cause:
            self._fail(index, None, cause, lost_rows=0)

    def _begun(self, obs: np.ndarray) -> np.ndarray:
        self._step_calls = [env.step for env in self._envs]
        self._set_next_limit()
        self._ready = True
        return obs

    def _start_anew(self, next_obs: np.ndarray, reward: np.ndarray, ended: dict[int, tuple[bool, bool]]) -> Step:
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        obs = next_obs.copy()
        for index, (was_terminated, was_truncated) in ended.items():
            terminated[index], truncated[index] = was_terminated, was_truncated
            try:
                self._begin(index, obs[index], reseed=False)
            except EnvFault as fault:
                fault.lost_rows = self.num_envs
                raise
        self._set_next_limit()
        return Step(next_obs, reward, terminated, truncated, obs, None)

    def _cut_at_limit(self, ended: dict[int, tuple[bool, bool]]) -> None:
        for index, (started_at, limit) in enumerate(zip(self._started_at, self._limits, strict=True)):
            if self._ticks - started_at >= limit:
                terminated, _ = ended.get(index, (False, False))
                ended[index] = (terminated, True)

    def _set_next_limit(self) -> None:
        self._next_limit = min(map(add, self._started_at, self._limits))

    def _refuse_unless_usable(self, obs: Any) -> None:
        if not isinstance(obs, np.ndarray):
            raise BadAnswer(f"the observation is a {type(obs).__name__}, expected an array")
        if obs.shape != self._obs_shape:
            raise BadAnswer(f"the observation has shape {obs.shape}, expected {self._obs_shape}")
        if obs.dtype.kind not in "fiub":
            raise BadAnswer(f"the observation has dtype {obs.dtype}, expected numbers")

    def _refuse(self, action: np.ndarray) -> NoReturn:
        if action.shape != self._action_shape:
            raise SpreezeError(f"{self.spec.env_id}: actions of shape {action.shape}, expected {self._action_shape}")
        raise SpreezeError(f"{self.spec.env_id}: step before reset, or after a fault without recover")

    def stalled(self, silent_s: float) -> EnvFault:
        known = self._lean is None or self._stepping is None
        return self._fault(self._at if known else 0, self._stepping, Stalled(silent_s, known), lost_rows=0)

    def _fail(self, index: int, actions: np.ndarray | None, cause: Exception, lost_rows: int) -> NoReturn:
        self._ready = False
        raise self._fault(index, actions, cause, lost_rows) from cause

    def _fault(self, index: int, actions: np.ndarray | None, cause: Exception, lost_rows: int) -> EnvFault:
        return EnvFault(
            env_id=self.spec.env_id,
            env_index=index,
            episode_step=0 if actions is None else self._ticks - self._started_at[index] + 1,
            episode=self._episodes[index],
            seed=self._seeds[index],
            action=None if actions is None else actions[index].copy(),
            cause=cause,
            lost_rows=lost_rows,
        )
