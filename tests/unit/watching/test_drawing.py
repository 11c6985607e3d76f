"""What can be drawn, how long a step lasts, and the sentence where it cannot be drawn."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from spreeze.envs.source import EnvSource
from spreeze.errors import DrawingError
from spreeze.watching.drawing import LIGHT_SIZE, DrawnEnv, checked_picture, prepare_drawing, seconds_a_step


@pytest.mark.parametrize(
    ("env", "metadata", "expected"),
    [
        ({"dt": 0.05}, {"render_fps": 30}, 0.05),
        ({"dt": np.float64(0.008)}, {"render_fps": 125}, 0.008),
        ({}, {"render_fps": 60}, 1 / 60),
        ({"dt": 0}, {"render_fps": 50}, 0.02),
        ({"dt": float("nan")}, {"render_fps": 50}, 0.02),
        ({"dt": "soon"}, {"render_fps": None}, 1 / 30),
        ({}, None, 1 / 30),
    ],
)
def test_how_long_a_step_lasts(env: dict, metadata: dict | None, expected: float) -> None:
    made = SimpleNamespace(unwrapped=SimpleNamespace(**env), metadata=metadata)
    assert seconds_a_step(made) == pytest.approx(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("drawn", [None, np.zeros((3, 4)), np.zeros((0, 4, 3)), np.zeros((4, 4, 1)), "text"])
def test_what_is_no_picture_is_named(drawn: object) -> None:
    with pytest.raises(DrawingError, match=r"its render\(\) gave .*, expected \(height, width, 3\) of uint8"):
        checked_picture(drawn)


def test_transparency_is_left_out() -> None:
    picture = checked_picture(np.full((4, 5, 4), 7, np.uint8))
    assert picture.shape == (4, 5, 3)
    assert picture.flags.c_contiguous


@pytest.mark.parametrize(
    ("env_id", "module", "step_s", "size"),
    [
        ("Pendulum-v1", "pygame", 0.05, (500, 500)),
        ("HalfCheetah-v5", "mujoco", 0.05, LIGHT_SIZE),
        ("HalfCheetahBulletEnv-v0", "pybullet_envs_gymnasium", 1 / 60, (320, 240)),
    ],
)
def test_each_simulator_is_drawn_without_a_screen(
    env_id: str, module: str, step_s: float, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    prepare_drawing()
    env = DrawnEnv(EnvSource.of(env_id), light=True)
    try:
        assert env.step_s == pytest.approx(step_s, rel=1e-3)
        env.reset(1)
        first = env.picture()
        assert first.shape == (size[1], size[0], 3)
        assert first.std() > 10, "more than one colour"
        for _ in range(20):
            env.step(env.env.action_space.high)
        moved = np.abs(env.picture().astype(int) - first).max(axis=2) > 40
        assert 0.001 < moved.mean() < 0.9, "the robot has moved, the world stays"
    finally:
        env.close()


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5"])
def test_what_has_run_away_is_still_in_the_picture(env_id: str) -> None:
    pytest.importorskip("mujoco")
    prepare_drawing()
    env = DrawnEnv(EnvSource.of(env_id), light=True)
    try:
        env.reset(1)
        env.picture()  # the camera has found its place
        bare = env.env.unwrapped
        position = bare.data.qpos.copy()
        position[0] += 30.0
        bare.set_state(position, bare.data.qvel)
        with_robot = env.picture().astype(int)
        bare.model.geom_rgba[bare.model.geom_bodyid > 0, 3] = 0.0
        without_robot = env.picture()
    finally:
        env.close()
    covered = np.abs(with_robot - without_robot).max(axis=2) > 20
    assert 0.005 < covered.mean() < 0.5
