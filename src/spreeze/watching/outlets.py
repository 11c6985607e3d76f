"""Where the pictures of a playing policy go while it plays: the files that the page shows, or a window.

A picture is drawn when one of these is open; `open` may be called at any time and again.
"""

from __future__ import annotations

import fcntl
import importlib.util
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from spreeze.errors import ConfigError
from spreeze.watching import window
from spreeze.watching.drawing import NO_SCREEN, has_screen
from spreeze.watching.live import FRAME, LiveFiles
from spreeze.watching.window import write_picture

LOCK = ".drawing"  # beside the live picture: held by the process that draws, let go by the kernel with it
MOST_PIXELS = (640, 640)  # width, height of a live picture
JPEG_QUALITY = 80
BEAT_EVERY_S = 1.0
OFF, WEB, WINDOW, VIDEO = "off", "web", "window", "video"  # of --visualize


def check_outlet(kind: str) -> None:
    """Raises ConfigError where this machine cannot show that way."""
    if kind == WINDOW and not has_screen():
        raise ConfigError("a window needs a screen, and neither DISPLAY nor WAYLAND_DISPLAY is set; take web or video")
    needed = {WEB: ("PIL", "web"), WINDOW: ("pygame", "video"), VIDEO: ("imageio_ffmpeg", "video")}.get(kind)
    if needed is not None and importlib.util.find_spec(needed[0]) is None:
        raise ConfigError(f"{needed[0]} is not installed, and {kind} needs it: pip install 'spreeze[{needed[1]}]'")


class Outlet(Protocol):
    def open(self) -> bool: ...  # True: it takes pictures
    def show(self, picture: np.ndarray, state: Mapping[str, Any]) -> None: ...  # picture (H, W, 3) uint8
    def beat(self) -> None: ...  # often, also between pictures
    def close(self, reason: str, failed: bool = False) -> None: ...


class LiveOutlet:
    """The live picture's files (live.py). One process draws a run's picture: whoever holds the lock. Others find `open`
    False until it lets go. A disk that is full costs pictures, and `warn` is told once."""

    def __init__(self, run_dir: Path, started_by: str, warn: Callable[[str], None]) -> None:
        self._run_dir, self._started_by, self._warn = run_dir, started_by, warn
        self._files: LiveFiles | None = None
        self._lock: int | None = None
        self._state: dict[str, Any] = {}
        self._beat_s = 0.0
        self._warned = False

    def open(self) -> bool:
        if self._lock is None and self._take_lock():
            self._files, self._state = LiveFiles(self._run_dir), {}
        return self._lock is not None

    def show(self, picture: np.ndarray, state: Mapping[str, Any]) -> None:
        data, (width, height) = encode_jpeg(picture)
        self._state = {
            **state,
            "state": "playing",
            "reason": None,
            "started_by": self._started_by,
            "width": width,
            "height": height,
        }
        self._write(lambda files: files.write(data, self._state))

    def beat(self) -> None:
        if self._state and time.monotonic() - self._beat_s > BEAT_EVERY_S:
            self._write(lambda files: files.write_state(self._state))

    def close(self, reason: str, failed: bool = False) -> None:
        """Once there was a picture, or where there should have been one, its state says how it came to an end."""
        if self._lock is None:
            return
        if self._state or failed:
            over = {"state": "failed" if failed else "ended", "reason": reason, "started_by": self._started_by}
            self._write(lambda files: files.write_state({**self._state, **over}))
        os.close(self._lock)
        self._lock = self._files = None

    def _take_lock(self) -> bool:
        folder = (self._run_dir / FRAME).parent
        try:
            folder.mkdir(exist_ok=True)
            if folder.is_symlink():
                raise OSError(f"{folder} is a link; a picture is written into the run's own folder")
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            self._warn_once(f"the live picture cannot be written: {error}")
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # somebody else draws
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _write(self, write: Callable[[LiveFiles], None]) -> None:
        assert self._files is not None, "open() said False"
        self._beat_s = time.monotonic()
        try:
            write(self._files)
        except OSError as error:
            self._warn_once(f"a live picture was not written, and is tried again: {error}")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)


def encode_jpeg(picture: np.ndarray) -> tuple[bytes, tuple[int, int]]:
    """-> the file's bytes, and its width and height; a large picture is made smaller."""
    from PIL import Image

    image = Image.fromarray(picture)
    if image.width > MOST_PIXELS[0] or image.height > MOST_PIXELS[1]:
        image.thumbnail(MOST_PIXELS)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=JPEG_QUALITY)
    return data.getvalue(), image.size


class WindowOutlet:
    """A window of the screen, whatever the simulator: it shows the same pictures as the files. It is a process of its
    own (window.py), because the OpenGL of a window and that of a simulator end each other's process. Once the user has
    closed it, it stays closed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._closed = False

    def open(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            self.close("the window was closed")
        return not self._closed

    def show(self, picture: np.ndarray, state: Mapping[str, Any]) -> None:
        if self._process is None:
            self._process = _start_window()
        assert self._process.stdin is not None
        try:
            write_picture(self._process.stdin, picture, _caption(state))
        except OSError:  # closed in this moment
            self.close("the window was closed")

    def beat(self) -> None:
        """It answers the system by itself."""

    def close(self, reason: str, failed: bool = False) -> None:
        process, self._process, self._closed = self._process, None, True
        if process is not None:
            process.kill()
            process.wait()


def _start_window() -> subprocess.Popen:
    own = {name: value for name, value in os.environ.items() if (name, value) != NO_SCREEN}
    return subprocess.Popen(
        [sys.executable, "-P", str(Path(window.__file__))],
        stdin=subprocess.PIPE,  # its end is the window's end
        stdout=subprocess.DEVNULL,
        env=own,
        process_group=0,  # Ctrl-C in the terminal reaches only who plays
    )


def _caption(state: Mapping[str, Any]) -> str:
    version = state.get("weights_version")
    policy = f"weights {version}" if state["policy"] == "live" else "best policy"
    return f"{state['env']}   {policy}   episode {state['episode']}   return {state['episode_return']:.0f}"
