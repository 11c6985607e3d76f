"""Counting environments that break now and then, each in its own way. Every row of theirs still proves itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from spreeze.envs.counting_env import CountingEnv

FAULT_EVERY = 97  # steps of one instance


class FaultyEnv(CountingEnv):
    """Answers as CountingEnv does, but for each FAULT_EVERY-th step, counted from the seed: neighbours take turns."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self._steps_in_all = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            self._steps_in_all = seed % FAULT_EVERY
        return super().reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self._steps_in_all += 1
        if self._steps_in_all % FAULT_EVERY:
            return obs, reward, terminated, truncated, info
        if self._fault == "raises":
            raise RuntimeError("the simulator broke")
        if self._fault == "nan observation":
            obs[3] = np.nan
        if self._fault == "infinite reward":
            reward = float("inf")
        if self._fault == "wrong shape":
            obs = obs[:-1]
        if self._fault == "wrong type":
            return obs, None, terminated, truncated, info  # type: ignore[return-value]
        return obs, reward, terminated, truncated, info


class HopelessEnv(CountingEnv):
    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("the simulator never works")


class HangingEnv(CountingEnv):
    """Never comes back from a step, and leaves a file that says so."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        Path(os.environ["FAULTY_ENVS_MARK"]).touch()
        threading.Event().wait()
        raise AssertionError("nobody sets that event")


def make_raising(render_mode: str | None = None) -> gymnasium.Env:
    return FaultyEnv("raises")


def make_nan(render_mode: str | None = None) -> gymnasium.Env:
    return FaultyEnv("nan observation")


def make_infinite(render_mode: str | None = None) -> gymnasium.Env:
    return FaultyEnv("infinite reward")


def make_misshapen(render_mode: str | None = None) -> gymnasium.Env:
    return FaultyEnv("wrong shape")


def make_mistyped(render_mode: str | None = None) -> gymnasium.Env:
    return FaultyEnv("wrong type")


def make_hanging(render_mode: str | None = None) -> gymnasium.Env:
    return HangingEnv()


def make_hopeless(render_mode: str | None = None) -> gymnasium.Env:
    return HopelessEnv()
