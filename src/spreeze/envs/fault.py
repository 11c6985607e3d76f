"""What is known about an environment that raised or answered something that must not become a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from spreeze.errors import EnvError


class EnvFault(EnvError):
    """One environment's fault. Nothing of the step in which it happened left the VecEnv; `recover` goes on."""

    def __init__(
        self,
        env_id: str,
        env_index: int,
        episode_step: int,  # counted from 1; 0: it happened in reset
        episode: int,  # of this environment since it was seeded, counted from 1
        seed: int,  # that this environment was last seeded with
        action: np.ndarray | None,  # in [-1, 1], as the policy gave it; None in reset
        cause: BaseException,
        lost_rows: int,  # good rows of the other environments that were dropped with this step
    ) -> None:
        self.env_id = env_id
        self.env_index = env_index
        self.episode_step = episode_step
        self.episode = episode
        self.seed = seed
        self.action = action
        self.cause = cause
        self.lost_rows = lost_rows
        where = "in reset" if action is None else f"at step {episode_step} on action {action.tolist()}"
        super().__init__(
            f"{env_id}: environment {env_index} (seed {seed}, episode {episode}) failed {where}: "
            f"{type(cause).__name__}: {cause}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "env_id": self.env_id,
            "env_index": self.env_index,
            "episode_step": self.episode_step,
            "episode": self.episode,
            "seed": self.seed,
            "action": None if self.action is None else self.action.tolist(),
            "cause": f"{type(self.cause).__name__}: {self.cause}",
            "lost_rows": self.lost_rows,
        }


class BadAnswer(ValueError):
    """An environment answered, but with something that is no transition."""


class Stalled(TimeoutError):
    """An environment does not answer."""

    def __init__(self, silent_s: float, env_known: bool) -> None:
        which = "" if env_known else "; which of its sampler's environments is not known, the first stands for all"
        super().__init__(f"no answer for {silent_s:.1f} s{which}")


def first_not_finite(rows: np.ndarray, reward: np.ndarray) -> tuple[int, BadAnswer, int]:
    """Of (K, O) and (K,), at least one not finite: the first bad environment, what is bad, how many rows are good."""
    good = np.isfinite(rows).all(axis=1) & np.isfinite(reward)
    index = int(np.argmin(good))
    if not np.isfinite(reward[index]):
        return index, BadAnswer(f"the reward is {reward[index]}"), int(good.sum())
    return index, not_finite_obs(rows[index]), int(good.sum())


def not_finite_obs(obs: np.ndarray) -> BadAnswer:
    place = int(np.argmin(np.isfinite(obs)))
    return BadAnswer(f"observation[{place}] is {obs[place]} (as float32)")
