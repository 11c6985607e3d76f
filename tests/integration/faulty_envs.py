"""Counting environments that break now and then, each in its own way. Every row of theirs still proves itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from spreeze.envs.counting_env import CountingEnv
from spreeze.roles.evaluator import FIRST_SEED

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


class StrewingEnv(CountingEnv):
    """Starts processes, one in the sampler's group and one in a session of its own, and makes a temporary file; ends
    and removes none of them."""

    def __init__(self) -> None:
        super().__init__()
        for own_session in (False, True):
            subprocess.Popen(["sleep", os.environ["FAULTY_ENVS_SLEEP"]], start_new_session=own_session)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            os.close(tempfile.mkstemp(prefix="strewn-")[0])
        return super().reset(seed=seed, options=options)


class LeakingEnv(CountingEnv):
    """Keeps a megabyte more with each episode."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytes] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._kept.append(b"x" * (1 << 20))
        return super().reset(seed=seed, options=options)


class SometimesHangingEnv(CountingEnv):
    """Hangs once: the first that finds the mark and takes it away never comes back."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._hang("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._hang("step")
        return super().step(action)

    def _hang(self, where: str) -> None:
        mark = Path(os.environ["FAULTY_ENVS_MARK"])
        if where == self._where and mark.exists():
            mark.unlink()
            threading.Event().wait()


def make_strewing(render_mode: str | None = None) -> gymnasium.Env:
    return StrewingEnv()


def make_leaking(render_mode: str | None = None) -> gymnasium.Env:
    return LeakingEnv()


def make_hanging_in_step(render_mode: str | None = None) -> gymnasium.Env:
    return SometimesHangingEnv("step")


def make_hanging_in_reset(render_mode: str | None = None) -> gymnasium.Env:
    return SometimesHangingEnv("reset")


class UnhurriedEnv(CountingEnv):
    """Takes its time, as a simulator does that is not computed here: a run of it leaves the cores alone."""

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(0.005)
        return super().step(action)


def make_unhurried(render_mode: str | None = None) -> gymnasium.Env:
    return UnhurriedEnv()


class BreakingLateEnv(CountingEnv):
    """Raises in some episodes, with a message that only the same seed, episode and actions bring again."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        answer = super().reset(seed=seed, options=options)
        self._breaks_at = int(self.np_random.integers(2, 5)) if self.np_random.random() < 0.1 else 0
        self._sum = 0.0
        return answer

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        answer = super().step(action)
        self._sum += float(action.sum())
        if self._step == self._breaks_at:
            raise RuntimeError(f"broken in episode {self._episode} after actions that sum to {self._sum!r}")
        return answer


def make_breaking_late(render_mode: str | None = None) -> gymnasium.Env:
    return BreakingLateEnv()


class RaisingInAnEvaluationEnv(CountingEnv):
    """Raises once, in the first evaluation that finds the mark."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        mark = Path(os.environ["FAULTY_ENVS_MARK"])
        if seed == FIRST_SEED and mark.exists():
            mark.unlink()
            raise RuntimeError("the simulator broke")
        return super().reset(seed=seed, options=options)


def make_raising_in_an_evaluation(render_mode: str | None = None) -> gymnasium.Env:
    return RaisingInAnEvaluationEnv()


class ShyPendulum(gymnasium.Wrapper):
    """Pendulum-v1, whose evaluations lose 10 a step until the mark is there: a run with it is not solved before."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("Pendulum-v1"))
        self._loss = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        evaluation = seed is not None and FIRST_SEED <= seed < FIRST_SEED + 1024
        self._loss = 10.0 if evaluation and not Path(os.environ["FAULTY_ENVS_MARK"]).exists() else 0.0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, float(reward) - self._loss, terminated, truncated, info


def make_shy_pendulum(render_mode: str | None = None) -> gymnasium.Env:
    return ShyPendulum()
