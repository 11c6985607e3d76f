"""An environment whose data carries its own proof: any row, found anywhere in the system, can be checked alone.

An observation of OBS_SIZE numbers, each a multiple of 2^-16 in [-1, 1] and so exact in float32:

    | seed, high bits | seed, low bits | episode | step | check of these four | the action that led here (2) |

The instance is the seed given at reset, so two environments of a run never look alike. The check changes when any of
the four does, the reward is another such function of where the step was taken, and the action comes back in next_obs:
an observation, action, reward or next_obs that belongs to another row shows.

Episodes have known lengths (`episode_length`); odd ones terminate, even ones are truncated.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from spreeze.spec import Layout

ACTION_SIZE = 2
OBS_SIZE = 5 + ACTION_SIZE
LAYOUT = Layout(OBS_SIZE, ACTION_SIZE)
SCALE = 65536.0  # a power of two: dividing by it loses nothing
_WEIGHTS = np.array([40503, 30011, 52391, 10007], np.int64)  # odd, so that every bit of each field changes the check
_REWARD_WEIGHTS = np.array([25253, 45691, 35023, 60013], np.int64)


def make_counting_env(render_mode: str | None = None) -> gymnasium.Env:
    return CountingEnv()


def episode_length(episode: int | np.ndarray) -> Any:
    """Steps in the given episode (counted from 1) of every instance: 5 to 35."""
    return 5 + (episode * 7) % 31


def episode_terminates(episode: int | np.ndarray) -> Any:
    return episode % 2 == 1


class CountingEnv(gymnasium.Env):
    """See the module. Actions in [-1, 1] are echoed as they came, so they must reach it as float32."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (OBS_SIZE,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)

    def __init__(self) -> None:
        self._instance = 0
        self._episode = 0
        self._step = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            if not 0 <= seed < 2**31:
                raise ValueError(f"seed {seed}: expected 0 to 2^31 - 1, which two fields of 16 bits can carry")
            self._instance, self._episode = seed, 0
        self._episode += 1
        self._step = 0
        return self._obs(np.zeros(ACTION_SIZE, np.float32)), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        length = episode_length(self._episode)
        if self._step >= length:
            raise RuntimeError(f"step {self._step + 1} of an episode of {length}: nobody reset")
        reward = float(_reward_of(self._fields()))
        self._step += 1
        over, terminates = self._step == length, bool(episode_terminates(self._episode))
        return self._obs(action), reward, over and terminates, over and not terminates, {}

    def _fields(self) -> np.ndarray:
        return np.array([self._instance >> 16, self._instance & 0xFFFF, self._episode & 0xFFFF, self._step], np.int64)

    def _obs(self, action: np.ndarray) -> np.ndarray:
        fields = self._fields()
        numbers = np.append(fields, _check_of(fields)) / SCALE
        return np.concatenate([numbers, action]).astype(np.float32)


def _check_of(fields: np.ndarray) -> np.ndarray:  # (..., 4) -> (...)
    return (fields @ _WEIGHTS + (fields[..., 2] ^ fields[..., 3]) * 7919) % 65536


def _reward_of(fields: np.ndarray) -> np.ndarray:  # (..., 4) -> (...) in [0, 1), exact in float32
    return (fields @ _REWARD_WEIGHTS % 65536) / SCALE


def instances(rows: np.ndarray) -> np.ndarray:  # (B, row_size) -> (B,) seeds
    fields = _fields_of(LAYOUT.split(rows).obs)
    return (fields[:, 0] << 16) + fields[:, 1]


def places(rows: np.ndarray) -> np.ndarray:  # (B, row_size) -> (B, 3): seed, episode, step; unique for each env step
    fields = _fields_of(LAYOUT.split(rows).obs)
    return np.column_stack([instances(rows), fields[:, 2], fields[:, 3]])


def check_rows(rows: np.ndarray, gamma: float = 0.99, n_step: int = 1) -> list[str]:
    """What is wrong with rows (B, row_size), one sentence a kind of problem; empty: nothing is.

    With n_step > 1 a row spans n steps, fewer only where its episode ended.
    """
    obs, action, _, next_obs, reward, discount = (np.asarray(part) for part in LAYOUT.split(np.asarray(rows)))
    start, end = _fields_of(obs), _fields_of(next_obs)
    span = end[:, 3] - start[:, 3]
    length = episode_length(start[:, 2])
    at_end = end[:, 3] == length
    terminated = at_end & episode_terminates(start[:, 2])
    spans_right = (span == n_step) | ((span >= 1) & (span < n_step) & at_end)
    expected_reward = _summed_reward(start, span, gamma, n_step)
    expected_discount = np.where(terminated, 0.0, gamma ** np.clip(span, 0, n_step))
    wrong = {
        "obs is torn or was never written by a counting environment": ~_is_whole(obs, start),
        "next_obs is torn or was never written by a counting environment": ~_is_whole(next_obs, end),
        "obs and next_obs are of different environments": (start[:, :2] != end[:, :2]).any(axis=1),
        "obs and next_obs are of different episodes": start[:, 2] != end[:, 2],
        f"next_obs is not {n_step} step(s) after obs": ~spans_right,
        "the row goes on after its episode's end": (start[:, 3] >= length) | (end[:, 3] > length),
        "reward is of another row": ~np.isclose(reward, expected_reward, rtol=0, atol=1e-5 if n_step > 1 else 0),
        "discount is wrong": ~np.isclose(discount, expected_discount, rtol=0, atol=1e-6),
    }
    if n_step == 1:  # next_obs carries the last action, the row the first
        wrong["action is of another row"] = (next_obs[:, 5:] != action).any(axis=1)
    return [_problem(text, mask) for text, mask in wrong.items() if mask.any()]


def _fields_of(obs: Any) -> np.ndarray:  # (B, O) -> (B, 4)
    numbers = np.asarray(obs)[:, :4].astype(np.float64) * SCALE
    return np.where(np.abs(numbers) <= SCALE, np.rint(numbers), -1).astype(np.int64)  # -1: no such field


def _is_whole(obs: np.ndarray, fields: np.ndarray) -> np.ndarray:
    same = (obs[:, :4] * SCALE == fields).all(axis=1)
    return same & (obs[:, 4] * SCALE == _check_of(fields)) & np.isfinite(obs).all(axis=1)


def _summed_reward(start: np.ndarray, span: np.ndarray, gamma: float, n_step: int) -> np.ndarray:
    total = np.zeros(len(start))
    for step in range(n_step):
        fields = start + np.array([0, 0, 0, step])
        total += np.where(step < span, gamma**step * _reward_of(fields), 0.0)
    return total


def _problem(text: str, mask: np.ndarray) -> str:
    first = ", ".join(str(index) for index in np.flatnonzero(mask)[:5])
    return f"{text}: {int(mask.sum())} of {len(mask)} rows (first: {first})"
