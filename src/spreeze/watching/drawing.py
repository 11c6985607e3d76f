"""An environment that gives pictures, with a screen or without one."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import DrawingError

if TYPE_CHECKING:
    import gymnasium

STEPS_HZ = 30.0  # where the environment does not say
NO_SCREEN = ("SDL_VIDEODRIVER", "dummy")  # pygame draws Pendulum and Box2D, and would look for a screen
LIGHT_SIZE = (480, 360)  # width, height


def has_screen() -> bool:
    if sys.platform != "linux":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare_drawing() -> None:
    """Before a simulator is imported: how it draws is chosen then. Whoever set these variables is obeyed."""
    if sys.platform != "linux":
        return
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault(*NO_SCREEN)
    if "MUJOCO_GL" not in os.environ and (way := _way_of_mujoco()) is not None:
        os.environ["MUJOCO_GL"] = way


def _way_of_mujoco() -> str | None:
    """EGL needs no screen, and is used with one as well; None: MuJoCo's default, which needs one."""
    if ctypes.util.find_library("EGL") is not None:
        return "egl"
    if ctypes.util.find_library("OSMesa") is not None:
        return "osmesa"
    return None if has_screen() else "egl"  # which then says what is missing


def try_mujoco(within_s: float = 20.0) -> tuple[bool, str]:
    """Draws with MuJoCo in a process of its own, as the library may end it. -> whether that works, and by what; or why
    it does not"""
    prepare_drawing()
    program = (
        "import mujoco; context = mujoco.GLContext(8, 8); context.make_current(); from OpenGL import GL; "
        "print(GL.glGetString(GL.GL_RENDERER).decode())"
    )
    way = os.environ.get("MUJOCO_GL") or "the window system"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"{way}: nothing came within {within_s:.0f} s"
    last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:] or ["no word"]
    return done.returncode == 0, f"{way}: {last[0][:200]}"


class DrawnEnv:
    """One environment with pictures (H, W, 3) uint8. `light`: as cheap as it can be drawn, for a picture that must
    not cost the training anything; else as its author wants it to look."""

    def __init__(self, source: EnvSource, light: bool = False) -> None:
        self.env: gymnasium.Env = make_env(source, render_mode="rgb_array")
        _follow(self.env)
        if light:
            _lighten(self.env)
        self.step_s = seconds_a_step(self.env)

    def try_to_draw(self) -> None:
        """The first picture, which takes longest. Raises DrawingError."""
        self.reset(0)
        self.picture()

    def reset(self, seed: int) -> Any:
        return self.env.reset(seed=seed)

    def step(self, action: np.ndarray) -> Any:
        return self.env.step(action)

    def picture(self) -> np.ndarray:
        try:
            drawn = self.env.render()
        except Exception as error:  # whatever a renderer raises, the user needs the same answer
            raise DrawingError(
                f"this environment cannot be drawn here: {type(error).__name__}: {error}; "
                "'spreeze doctor' names what headless drawing needs"
            ) from error
        return checked_picture(drawn)

    def close(self) -> None:
        self.env.close()


def checked_picture(drawn: Any) -> np.ndarray:
    picture = np.asarray(drawn) if drawn is not None else None
    if picture is None or picture.ndim != 3 or picture.shape[2] not in (3, 4) or 0 in picture.shape:
        got = "nothing" if picture is None else f"an array {picture.shape} of {picture.dtype}"
        raise DrawingError(
            f"this environment cannot be drawn: its render() gave {got}, expected (height, width, 3) of uint8; "
            "a callable that makes an environment must take render_mode='rgb_array' and pass it on"
        )
    return np.ascontiguousarray(picture[:, :, :3], np.uint8)


def seconds_a_step(env: gymnasium.Env) -> float:
    """How long a step lasts in the environment's own time: what it says as `dt`, or the pictures a second that it was
    made for (Pendulum-v1 says both, and only the first is true)."""
    step_s = getattr(env.unwrapped, "dt", None)
    if isinstance(step_s, Real) and 1e-4 <= float(step_s) <= 10:
        return float(step_s)
    steps_hz = (env.metadata or {}).get("render_fps")
    if isinstance(steps_hz, Real) and 0.1 <= float(steps_hz) <= 1e4:
        return 1 / float(steps_hz)
    return 1 / STEPS_HZ


def _follow(env: gymnasium.Env) -> None:
    """Gymnasium 1.4 draws MuJoCo's tasks with a camera that stands still, and what runs has left the picture soon. The
    models have a camera for that, named `track`; it is taken where nobody asked for another one."""
    bare = env.unwrapped
    renderer, model = getattr(bare, "mujoco_renderer", None), getattr(bare, "model", None)
    asked = getattr(bare, "camera_id", None) is not None or getattr(bare, "camera_name", None) is not None
    if renderer is None or model is None or asked:
        return
    import mujoco

    camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
    if camera >= 0:
        renderer.camera_id = camera


def _lighten(env: gymnasium.Env) -> None:
    """A CPU (Mesa's EGL) needs seven times as long for MuJoCo's 480 x 480 pixels with smooth edges, shadows and
    reflections. Other simulators are left as they are."""
    renderer, model = getattr(env.unwrapped, "mujoco_renderer", None), getattr(env.unwrapped, "model", None)
    if renderer is None or model is None:
        return
    renderer.width, renderer.height = LIGHT_SIZE
    model.vis.quality.offsamples = 0
    model.light_castshadow[:] = 0
    model.mat_reflectance[:] = 0
