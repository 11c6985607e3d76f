"""Whole episodes, side by side: what evaluation and recording are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Episodes(NamedTuple):
    returns: np.ndarray  # (E,) float64
    lengths: np.ndarray  # (E,) int64


def run_episodes(
    envs: Sequence[Any],
    seeds: Sequence[int],
    act: Callable[[np.ndarray], np.ndarray],
    go_on: Callable[[], bool] = lambda: True,
) -> Episodes | None:
    """One episode in each Gymnasium environment, the policy called once for all that still run.

    `act` maps observations (n, O) float32 to actions (n, A) in the environments' own bounds. None when `go_on` said
    no before the last episode was over.
    """
    returns, lengths = np.zeros(len(envs)), np.zeros(len(envs), np.int64)
    running = list(range(len(envs)))
    latest = [np.asarray(env.reset(seed=int(seed))[0], np.float32) for env, seed in zip(envs, seeds, strict=True)]
    while running:
        if not go_on():
            return None
        actions = act(np.stack([latest[index] for index in running]))
        still_running = []
        for index, action in zip(running, actions, strict=True):
            obs, reward, terminated, truncated, _ = envs[index].step(action)
            returns[index] += reward
            lengths[index] += 1
            if not (terminated or truncated):
                latest[index] = np.asarray(obs, np.float32)
                still_running.append(index)
        running = still_running
    return Episodes(returns, lengths)
