"""`python -m spreeze.bench.stepper`: K environments stepped with ready-made actions and nothing else. The limit that a
sampler is measured against.

Gymnasium's environments are what gymnasium.make gives, without the checker that it puts around them by default,
stepped one after the other and reset by hand. EnvPool's are one pool with one thread, as a sampler has it; its reset
steps are no env steps and are not counted. The actions are drawn from what a fresh policy does (tanh of a standard
normal), so that episodes are as long, and contacts as many, as those of the samplers beside it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from spreeze.bench.helper import Handler, serve
from spreeze.envs.quiet import keep_native_mujoco_out_of_cwd, stdout_to_stderr
from spreeze.envs.source import EnvSource, make_env

_READY_MADE = 256  # actions for each environment, used again and again
WARM_UP_SHARE = 0.1  # of a window, before it


class Stepper(Protocol):
    def run(self, seconds: float) -> int: ...  # -> env steps


class GymnasiumStepper:
    def __init__(self, env_id: str, num_envs: int, seed: int) -> None:
        self._envs = [make_env(EnvSource(env_id)) for _ in range(num_envs)]
        rng = np.random.default_rng(seed)
        for index, env in enumerate(self._envs):
            env.reset(seed=seed + index)
        space: Any = self._envs[0].action_space
        self._actions = [list(_draw(rng, (num_envs, *space.shape), space)) for _ in range(_READY_MADE)]
        self._turn = 0

    def run(self, seconds: float) -> int:
        envs, actions, turn = self._envs, self._actions, self._turn
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for env, action in zip(envs, actions[turn % _READY_MADE], strict=True):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
            turn += 1
        done, self._turn = turn - self._turn, turn
        return done * len(envs)


class EnvPoolStepper:
    def __init__(self, env_id: str, num_envs: int, seed: int) -> None:
        import envpool

        from spreeze.envs.envpool_env import NATIVE_MUJOCO

        if NATIVE_MUJOCO in sys.modules:
            keep_native_mujoco_out_of_cwd(str(sys.modules[NATIVE_MUJOCO].__file__))
        seeds = list(range(seed, seed + num_envs))
        with warnings.catch_warnings(), stdout_to_stderr():
            warnings.simplefilter("ignore")  # 'precision lowered by casting' of the spaces' bounds
            self._pool = envpool.make_gymnasium(env_id, num_envs=num_envs, num_threads=1, seed=seeds)
            space = self._pool.action_space
        self._num_envs = num_envs
        self._pool.reset()
        rng = np.random.default_rng(seed)
        self._actions = [_draw(rng, (num_envs, *space.shape), space) for _ in range(_READY_MADE)]
        self._turn = 0

    def run(self, seconds: float) -> int:
        pool, actions, steps = self._pool, self._actions, 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            _, _, terminated, truncated, _ = pool.step(actions[self._turn % _READY_MADE])
            # as many as end now only reset in the next call
            steps += self._num_envs - int(np.count_nonzero(terminated | truncated))
            self._turn += 1
        return steps


STEPPERS: dict[str, Callable[[str, int, int], Stepper]] = {"gymnasium": GymnasiumStepper, "envpool": EnvPoolStepper}


def _draw(rng: np.random.Generator, shape: tuple[int, ...], space: Any) -> np.ndarray:
    low, high = (np.where(np.isfinite(bound), bound, end) for bound, end in ((space.low, -1.0), (space.high, 1.0)))
    action = low + (np.tanh(rng.standard_normal(shape)) + 1.0) / 2.0 * (high - low)
    return action.astype(space.dtype)


def prepare(setup: dict[str, Any]) -> Handler:
    stepper = STEPPERS[setup["backend"]](setup["env_id"], setup["num_envs"], setup["seed"])

    def step(request: dict[str, Any]) -> dict[str, Any]:
        stepper.run(WARM_UP_SHARE * request["seconds"])
        start = time.perf_counter()
        steps = stepper.run(request["seconds"])
        return {"steps": steps, "seconds": time.perf_counter() - start}

    return step


if __name__ == "__main__":
    serve(prepare)
