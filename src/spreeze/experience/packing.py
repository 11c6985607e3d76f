"""From what environments answered to rows: packed once, in the layout's order, before they leave the sampler."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from spreeze.spec import Layout, Step


class Packer(Protocol):
    block_rows: int  # the most rows that one step can give

    def before_step(self, obs: np.ndarray, action: np.ndarray) -> None: ...  # (K, O), (K, A)
    def after_step(self, step: Step) -> np.ndarray: ...  # -> rows (count, row_size), reused by the next step
    def forget(self) -> int: ...  # the step was interrupted, what waits becomes no row either -> how many waited


class OneStepPacker:
    """A row a transition."""

    def __init__(self, layout: Layout, num_envs: int, gamma: float) -> None:
        self.block_rows = num_envs
        self._gamma = np.float32(gamma)
        self._rows = np.zeros((num_envs, layout.row_size), np.float32)
        self._fields = layout.split(self._rows)

    def before_step(self, obs: np.ndarray, action: np.ndarray) -> None:
        self._fields.obs[:] = obs
        self._fields.action[:] = action

    def after_step(self, step: Step) -> np.ndarray:
        fields = self._fields
        fields.next_obs[:] = step.next_obs
        fields.reward[:] = step.reward
        np.multiply(~step.terminated, self._gamma, out=fields.discount)
        return self._rows if step.valid is None else self._rows[step.valid]

    def forget(self) -> int:
        return 0


class NStepPacker:
    """A row sums up to n rewards and leads n steps ahead: reward = r0 + g r1 + ... + g^(m-1) r(m-1), next_obs m steps
    later, discount g^m, or 0 where the episode terminated. At an episode's end the waiting steps fold into rows with
    a shorter m, so that every env step still gives exactly one row."""

    def __init__(self, layout: Layout, num_envs: int, gamma: float, n_step: int) -> None:
        self.block_rows = num_envs * n_step
        self._layout, self._n = layout, n_step
        self._powers = np.float32(gamma) ** np.arange(n_step + 1, dtype=np.float32)
        self._obs_action = np.zeros((n_step, num_envs, layout.obs_size + layout.action_size), np.float32)
        self._rewards = np.zeros((n_step, num_envs), np.float32)
        self._waiting = np.zeros(num_envs, np.int64)  # steps of each environment that have no row yet
        self._newest = np.zeros(num_envs, np.int64)  # place of its newest step in the history
        self._current = np.zeros_like(self._obs_action[0])
        self._rows = np.zeros((self.block_rows, layout.row_size), np.float32)

    def before_step(self, obs: np.ndarray, action: np.ndarray) -> None:
        self._current[:, : self._layout.obs_size] = obs
        self._current[:, self._layout.obs_size :] = action

    def after_step(self, step: Step) -> np.ndarray:
        count = 0
        for env in range(len(self._waiting)) if step.valid is None else np.flatnonzero(step.valid).tolist():
            self._remember(env, step.reward[env])
            over = step.terminated[env] or step.truncated[env]
            if over or self._waiting[env] == self._n:
                count = self._fold(env, step, count, int(self._waiting[env]) if over else 1)
        return self._rows[:count]

    def forget(self) -> int:
        waited = int(self._waiting.sum())
        self._waiting[:] = 0
        return waited

    def _remember(self, env: int, reward: np.float32) -> None:
        place = self._newest[env] = (self._newest[env] + 1) % self._n
        self._obs_action[place, env] = self._current[env]
        self._rewards[place, env] = reward
        self._waiting[env] += 1

    def _fold(self, env: int, step: Step, count: int, rows: int) -> int:
        """Turns the oldest `rows` waiting steps of one environment into rows from `count` on."""
        batch = self._layout.split(self._rows)
        for _ in range(rows):
            steps = int(self._waiting[env])
            places = (self._newest[env] - np.arange(steps - 1, -1, -1)) % self._n
            batch.obs_action[count] = self._obs_action[places[0], env]
            batch.reward[count] = self._rewards[places, env] @ self._powers[:steps]
            batch.discount[count] = 0.0 if step.terminated[env] else self._powers[steps]
            batch.next_obs[count] = step.next_obs[env]
            self._waiting[env] -= 1
            count += 1
        return count


def make_packer(layout: Layout, num_envs: int, gamma: float, n_step: int) -> OneStepPacker | NStepPacker:
    return OneStepPacker(layout, num_envs, gamma) if n_step == 1 else NStepPacker(layout, num_envs, gamma, n_step)


def block_rows(num_envs: int, n_step: int) -> int:
    """The most rows that one step of a sampler can give."""
    return num_envs * n_step
