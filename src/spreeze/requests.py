"""What other processes may ask of a run while it lives: a file dropped into its folder.

    RUN/requests/checkpoint      save a checkpoint now
    RUN/requests/stop            end well: save, stop everybody, exit code 0
    RUN/requests/picture-on      draw the live picture (watching/live.py); the run starts its visualizer for it
    RUN/requests/picture-off     draw it no more

The name is the request; the content may be one line that says who asks, and goes into the event. A file appears whole
(written under a hidden name, then renamed), and the run takes it by removing it. What lay there before the run's
command started is removed unheard.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from spreeze.errors import ConfigError, nearest

FOLDER = "requests"  # in the run folder
CHECKPOINT, STOP = "checkpoint", "stop"
PICTURE_ON, PICTURE_OFF = "picture-on", "picture-off"
KNOWN = (CHECKPOINT, STOP, PICTURE_ON, PICTURE_OFF)
LOOK_EVERY_S = 0.25
_LONGEST_NAME = 200


class Request(NamedTuple):
    what: str  # one of KNOWN, or the name of a file that means nothing
    asked_by: str


def ask(run_dir: Path, what: str, asked_by: str = "") -> None:
    """For a dashboard, a script or a test. Asking again before it was heard is the same request."""
    if what not in KNOWN:
        raise ConfigError(f"a run cannot be asked for {what!r}.{nearest(what, KNOWN)}")
    folder = run_dir / FOLDER
    folder.mkdir(exist_ok=True)
    beside = folder / f".{what}.{os.getpid()}"
    beside.write_text(asked_by, encoding="utf-8")
    os.replace(beside, folder / what)


class Inbox:
    """The run's side: `take` gives each request once."""

    def __init__(self, run_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = run_dir / FOLDER
        self._clock = clock
        self._due = 0.0
        for path in self._files():
            _remove(path)

    def take(self) -> list[Request]:
        """Looks into the folder at most every LOOK_EVERY_S."""
        now = self._clock()
        if now < self._due:
            return []
        self._due = now + LOOK_EVERY_S
        return [Request(path.name, asked_by) for path in self._files() if (asked_by := _take(path)) is not None]

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except OSError:  # as a rule nobody has asked yet, and there is no folder
            return []


def _take(path: Path) -> str | None:
    """Who asks; None where the file is gone again or may not be removed: it would be heard for ever."""
    asked_by = ""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe that nobody writes to must not hold us
        with os.fdopen(fd, "rb") as file:
            asked_by = file.read(_LONGEST_NAME).decode(errors="replace")
    return asked_by.strip() if _remove(path) else None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
