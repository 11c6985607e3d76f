"""Environments for tests of the picture: they step as fast as Pendulum-v1, and their render() misbehaves."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np


class Plain(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  as Gymnasium has it
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.step_count = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> Any:
        super().reset(seed=seed)
        self.step_count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> Any:
        self.step_count += 1
        return np.zeros(2, np.float32), float(action[0]), False, self.step_count == 100, {}

    def render(self) -> Any:
        return np.full((60, 80, 3), self.step_count, np.uint8)


class NoScreen(Plain):
    def render(self) -> Any:
        raise RuntimeError("no display\nand much more about it")


class DiesDrawing(Plain):
    def render(self) -> Any:
        os._exit(7)  # as a driver that ends its process does


class DrawsNothing(Plain):
    def render(self) -> Any:
        return None


def without_pictures() -> gymnasium.Env:
    return DrawsNothing()
