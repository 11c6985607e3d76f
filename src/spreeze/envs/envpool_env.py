"""EnvPool: K environments stepped by native code, in one call.

What differs from stepping Gymnasium's own environments, as found with EnvPool 1.2.5 beside gymnasium 1.4:

- **The step after an end is a reset step.** The action is ignored, the reward is 0, both flags are False and the
  observation is the first of the new episode. Such rows are marked in Step.valid and are no transitions. The
  observation of the ending step is the true last one.
- **Same dynamics, other starts.** From the same state and actions, observations agree to 1e-12 over 10 steps of
  HalfCheetah-v5 and 1e-6 over an episode of Pendulum-v1, and rewards to float32. Where contacts make the motion
  chaotic this grows (HalfCheetah-v5 1e-9 after 50 steps, Ant-v5 0.1 after 10). Starts come from the same distribution
  with another generator, so a seed gives other episodes than Gymnasium's.
- **Given one seed s, environment i gets s + i**, so neighbouring seeds share episodes; here every environment is given
  its own. Seeds are fixed when the pool is made: a reset with a seed makes a new pool.
- Rewards are float32. MuJoCo tasks take float64 actions, Gymnasium's float32.
- One environment cannot be made anew alone: `recover` makes a new pool.
- Pictures are left to Gymnasium's environment: `render` refuses.
- Importing takes a second and 110 MB in every process that does.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from spreeze.envs import mujoco_lean
from spreeze.envs.bounds import Bounds
from spreeze.envs.fault import BadAnswer, EnvFault, Stalled, first_not_finite
from spreeze.envs.quiet import keep_native_mujoco_out_of_cwd, stdout_to_stderr
from spreeze.envs.seeds import env_seed
from spreeze.envs.source import EnvSource, entry_point_of, install_command
from spreeze.errors import ConfigError, SpreezeError
from spreeze.spec import EnvSpec, Step

GROUPS = 2  # the engine's thread steps one half of a sampler's environments while Python acts for the other
NATIVE_MUJOCO = "envpool.mujoco.mujoco_gym_envpool"


def known_ids() -> Collection[str]:
    return () if _why_not_importable() else _ids()


def why_not(source: EnvSource, spec: EnvSpec) -> str | None:
    if source.pickled is not None or ":" in source.env_id:
        return f"envpool steps registered environments only, and {source.env_id} is code of yours"
    problem = _why_not_importable()
    if problem is not None:
        return problem
    if source.env_id not in _ids():
        return f"envpool does not know {source.env_id}"
    return _difference(spec)


def why_not_unasked(source: EnvSource) -> str | None:
    """Classic tasks are solved in the seconds that importing EnvPool takes. Gymnasium's MuJoCo tasks run at the
    physics' own rate without it, and its threads would take the learner's core
    (docs/decisions/0005-two-halves-for-native-engines.md)."""
    entry_point = entry_point_of(source.env_id)
    if entry_point.startswith("gymnasium.envs.classic_control"):
        return "importing envpool takes longer than its speed gains on a task this light"
    if mujoco_lean.knows(entry_point):
        return "Gymnasium's task is stepped as fast without its Python, and leaves the learner its core"
    return None


def make(source: EnvSource, spec: EnvSpec, num_envs: int, seed: int, render: bool) -> EnvPoolVecEnv:
    if render:
        raise ConfigError(_no_pictures(source.env_id))
    refusal = why_not(source, spec)
    if refusal is not None:
        raise ConfigError(f"{source.env_id}: {refusal}")
    return EnvPoolVecEnv(spec, num_envs, seed)


class EnvPoolVecEnv:
    """See spec.VecEnv, and GymnasiumVecEnv for faults. `threads`: one by default, a sampler is one core's work."""

    def __init__(self, spec: EnvSpec, num_envs: int, seed: int, threads: int = 1) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self._threads = threads
        self._seed = seed
        self._generation = 0
        self._action_shape = (num_envs, spec.action_size)
        self._episodes = np.zeros(num_envs, np.int64)
        self._elapsed = np.zeros(num_envs, np.int32)  # steps in the running episode, as the engine counts them
        self._ended = np.zeros(num_envs, bool)  # in the last step: their next one only resets
        self._any_ended = False
        self._ready = False
        self._begun_action = np.zeros(self._action_shape, np.float32)
        self._pool = self._make()
        self._bounds = Bounds(spec, self._pool.action_space.dtype)

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._seed, self._generation = seed, 0
            self._renew()
        return self._begin()

    def step(self, action: np.ndarray) -> Step:
        self.begin(action)
        return self.finish()

    def begin(self, action: np.ndarray) -> None:
        if not self._ready or action.shape != self._action_shape:
            self._refuse(action)
        self._begun_action = action.copy()
        try:
            self._pool.send(self._bounds(action))
        except Exception as cause:
            self._fail(0, int(self._elapsed[0]) + 1, action, cause, lost_rows=0)

    def finish(self) -> Step:
        action = self._begun_action
        try:
            obs, reward, terminated, truncated, info = self._pool.recv(reset=False, return_info=True)
        except Exception as cause:
            self._fail(0, int(self._elapsed[0]) + 1, action, cause, lost_rows=0)
        self._elapsed = info["elapsed_step"]
        next_obs = np.array(obs, np.float32)  # copies: the engine's memory is its own
        reward = np.array(reward, np.float32)
        if not (np.isfinite(next_obs).all() and np.isfinite(reward).all()):
            bad, reason, good_rows = first_not_finite(next_obs, reward)
            self._fail(bad, int(self._elapsed[bad]), action, reason, lost_rows=good_rows)
        valid = self._valid_after_ends() if self._any_ended else None
        self._ended = np.logical_or(terminated, truncated)
        self._any_ended = bool(self._ended.any())
        return Step(next_obs, reward, np.array(terminated, bool), np.array(truncated, bool), next_obs, valid)

    def recover(self, fault: EnvFault) -> np.ndarray:  # -> obs (K, O)
        """A new pool: new episodes in all K, so whoever keeps account of episodes clears it for all K."""
        self._generation += 1
        self._renew()
        return self._begin()

    def render(self) -> np.ndarray:
        raise ConfigError(_no_pictures(self.spec.env_id))

    def close(self) -> None:
        """Twice is fine."""
        self._ready = False
        self._pool.close()

    def _make(self) -> Any:
        seeds = [env_seed(self._seed, index, self._generation) for index in range(self.num_envs)]
        return _engine_make(self.spec.env_id, self.num_envs, self._threads, seeds)

    def _renew(self) -> None:
        self.close()
        self._pool = self._make()
        self._episodes[:] = 0

    def _begin(self) -> np.ndarray:
        self._ready = False
        try:
            engine_obs, info = self._pool.reset()
        except Exception as cause:
            self._fail(0, 0, None, cause, lost_rows=0)
        obs = np.array(engine_obs, np.float32)
        if obs.shape != (self.num_envs, self.spec.obs_size):
            self._fail(0, 0, None, BadAnswer(f"the observations have shape {obs.shape}"), lost_rows=0)
        if not np.isfinite(obs).all():
            bad, reason, _ = first_not_finite(obs, np.zeros(self.num_envs, np.float32))
            self._fail(bad, 0, None, reason, lost_rows=0)
        self._elapsed = info["elapsed_step"]
        self._ended = np.zeros(self.num_envs, bool)
        self._any_ended = False
        self._episodes += 1
        self._ready = True
        return obs

    def _valid_after_ends(self) -> np.ndarray:
        """The mask for a step in which the environments that ended before only reset."""
        if (self._elapsed[self._ended] != 0).any():
            raise SpreezeError(f"{self.spec.env_id}: envpool did not reset after an end; use the gymnasium backend")
        self._episodes += self._ended
        return ~self._ended

    def _refuse(self, action: np.ndarray) -> NoReturn:
        if action.shape != self._action_shape:
            raise SpreezeError(f"{self.spec.env_id}: actions of shape {action.shape}, expected {self._action_shape}")
        raise SpreezeError(f"{self.spec.env_id}: step before reset, or after a fault without recover")

    def stalled(self, silent_s: float) -> EnvFault:
        actions = self._begun_action if self._ready else None
        return self._fault(0, int(self._elapsed[0]) + 1, actions, Stalled(silent_s, env_known=False), lost_rows=0)

    def _fail(
        self, index: int, episode_step: int, actions: np.ndarray | None, cause: Exception, lost_rows: int
    ) -> NoReturn:
        self._ready = False
        raise self._fault(index, episode_step, actions, cause, lost_rows) from cause

    def _fault(
        self, index: int, episode_step: int, actions: np.ndarray | None, cause: Exception, lost_rows: int
    ) -> EnvFault:
        return EnvFault(
            env_id=self.spec.env_id,
            env_index=index,
            episode_step=episode_step,
            episode=int(self._episodes[index]),
            seed=env_seed(self._seed, index, self._generation),
            action=None if actions is None else actions[index].copy(),
            cause=cause,
            lost_rows=lost_rows,
        )


def _no_pictures(env_id: str) -> str:
    return f"{env_id}: the envpool backend gives no pictures; render with the gymnasium backend"


def _engine_make(env_id: str, num_envs: int, threads: int, seeds: list[int]) -> Any:
    import envpool

    if NATIVE_MUJOCO in sys.modules:
        keep_native_mujoco_out_of_cwd(str(sys.modules[NATIVE_MUJOCO].__file__))
    with warnings.catch_warnings(), stdout_to_stderr():
        warnings.simplefilter("ignore")  # 'precision lowered by casting' of the spaces' bounds: see _same
        pool = envpool.make_gymnasium(env_id, num_envs=num_envs, num_threads=threads, seed=seeds)
        _ = pool.observation_space, pool.action_space  # made at the first look, with that warning
    return pool


@functools.cache
def _why_not_importable() -> str | None:
    if importlib.util.find_spec("envpool") is None:
        return f"envpool is not installed: {install_command('envpool')}"
    try:
        with stdout_to_stderr():
            importlib.import_module("envpool")
    except Exception as error:
        fix = " (on Debian and Ubuntu: apt-get install libegl1 libopengl0)" if isinstance(error, ImportError) else ""
        return f"envpool cannot be imported: {error}{fix}"
    return None


@functools.cache
def _ids() -> frozenset[str]:
    import envpool

    return frozenset(envpool.list_all_envs())


def _difference(spec: EnvSpec) -> str | None:
    """What of envpool's spaces and time limit is not what Gymnasium's environment has; None: all is the same."""
    pool = _engine_make(spec.env_id, 1, 1, [0])
    try:
        obs_shape = getattr(pool.observation_space, "shape", None)
        if obs_shape != (spec.obs_size,):
            return f"envpool's observation has shape {obs_shape}, Gymnasium's ({spec.obs_size},)"
        low, high = (getattr(pool.action_space, bound, None) for bound in ("low", "high"))
        if not (_same(low, spec.action_low) and _same(high, spec.action_high)):
            return f"envpool's actions are {pool.action_space}, Gymnasium's {spec.action_low} to {spec.action_high}"
        limit = pool.spec.config.max_episode_steps
        if limit != spec.max_episode_steps:
            return f"envpool cuts episodes after {limit} steps, Gymnasium after {spec.max_episode_steps}"
    finally:
        pool.close()
    return None


def _same(bound: np.ndarray | None, expected: tuple[float, ...]) -> bool:
    # as float32: EnvPool's bounds of MuJoCo tasks are float64, Gymnasium's float32
    return bound is not None and np.array_equal(bound.astype(np.float32), np.array(expected, np.float32))
