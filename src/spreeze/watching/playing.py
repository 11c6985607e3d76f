"""Episodes one after the other, each state shown when its moment has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spreeze.watching.clips import Clips
from spreeze.watching.drawing import DrawnEnv
from spreeze.watching.following import FollowedPolicy
from spreeze.watching.outlets import Outlet
from spreeze.watching.pace import Pace

FIRST_SEED = 20_000  # none of the evaluator's episodes, and never a training seed of the same run
_LONGEST_NAP_S = 0.1


class Player:
    """Plays one environment. `outlets` gives those that take pictures just now: with one the episode goes at the speed
    of life, without one, for a clip, as fast as it can. `go_on` is asked before every step and while it waits.

    The policy is refreshed at every step: what is seen is what training has just learned. An episode that becomes a
    clip keeps its weights, because the clip's name tells their return.
    """

    def __init__(
        self,
        env: DrawnEnv,
        env_id: str,
        policy: FollowedPolicy,
        outlets: Callable[[], Sequence[Outlet]],
        clips: Clips | None = None,
        on_picture: Callable[[], None] = lambda: None,
    ) -> None:
        self._env, self._env_id, self._policy, self._outlets, self._clips = env, env_id, policy, outlets, clips
        self._on_picture = on_picture
        self._pace = Pace(env.step_s, time.monotonic())
        self._episode = self._step = self._pictures = 0
        self._return = 0.0
        self._last_return: float | None = None

    def play_episode(self, go_on: Callable[[], bool]) -> bool:
        """False when `go_on` said no before it was over."""
        self._episode += 1
        self._step, self._return = 0, 0.0
        self._policy.refresh()
        filming = self._clips is not None and self._clips.begin()
        obs, _ = self._env.reset(FIRST_SEED + self._episode)
        self._show()
        over = False
        while not over:
            if not go_on():
                return False
            if not filming:
                self._policy.refresh()
            obs, reward, terminated, truncated, _ = self._env.step(self._policy.act(obs))
            over = bool(terminated or truncated)
            self._step += 1
            self._return += float(reward)
            if not self._show(go_on):
                return False
        self._last_return = self._return
        if filming:
            assert self._clips is not None
            self._clips.end(self._return)
        return True

    def _show(self, go_on: Callable[[], bool] = lambda: True) -> bool:
        """The state as it is now."""
        picture = None
        if self._clips is not None and self._clips.wants(self._step):
            picture = self._env.picture()
            self._clips.take(picture)
        outlets = self._outlets()
        if not outlets:
            return True
        self._pace.advance(time.monotonic())
        if self._pace.draws(time.monotonic()) and picture is None:
            picture = self._env.picture()
        if not self._wait(go_on):
            return False
        if picture is not None:
            self._hand_out(picture, outlets)
        for outlet in outlets:
            outlet.beat()
        return True

    def _wait(self, go_on: Callable[[], bool]) -> bool:
        """Until the state's moment."""
        while (left_s := self._pace.due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LONGEST_NAP_S))
            if left_s > _LONGEST_NAP_S and not go_on():
                return False
        return True

    def _hand_out(self, picture: np.ndarray, outlets: Sequence[Outlet]) -> None:
        self._pictures += 1
        self._pace.shown(time.monotonic())
        state = self._state(picture)
        for outlet in outlets:
            outlet.show(picture, state)
        self._on_picture()

    def _state(self, picture: np.ndarray) -> dict[str, Any]:
        """As live.py tells it, but for what an outlet adds."""
        frames_hz, speed = self._pace.rates()
        return {
            "env": self._env_id,
            **self._policy.describe(),
            "episode": self._episode,
            "step": self._step,
            "episode_s": round(self._step * self._env.step_s, 3),
            "episode_return": self._return,
            "last_return": self._last_return,
            "frame": self._pictures,
            "frames_hz": round(frames_hz, 1),
            "speed": round(speed, 2),
            "width": picture.shape[1],
            "height": picture.shape[0],
        }
