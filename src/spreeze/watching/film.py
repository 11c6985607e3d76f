"""Pictures one after the other -> an mp4 or a gif, whole or not there."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.errors import ConfigError, SpreezeError

SUFFIXES = (".mp4", ".gif")
MOST_HZ = {".mp4": 60.0, ".gif": 25.0}  # what players show; a gif counts in hundredths of a second
GIF_WIDTH = 480
_ENCODED_WITHIN_S = 600.0


def check_film(path: Path) -> None:
    """Raises ConfigError where such a film cannot be made here."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a video is one of {', '.join(SUFFIXES)}, got {path.suffix or 'no ending'!r}")
    if importlib.util.find_spec("imageio") is None or importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ConfigError("a video needs imageio with ffmpeg: pip install 'spreeze[video]'")


def stride_of(step_s: float, most_hz: float) -> int:
    """Every so many states are filmed."""
    return max(1, math.ceil(1 / step_s / most_hz - 1e-6))


class Film:
    """`take` pictures of one size, then `finish` or `drop`. `step_s`: the time from one state to the next; of fast
    environments every so many states are taken, so that the film keeps the speed of life."""

    def __init__(self, path: Path, step_s: float, most_hz: float | None = None) -> None:
        check_film(path)
        import imageio.v2 as imageio

        self._path, self._gif = path, path.suffix.lower() == ".gif"
        self.stride = stride_of(step_s, most_hz or MOST_HZ[path.suffix.lower()])
        self._hz = 1 / (step_s * self.stride)
        self._writing = path.with_name(f".{path.stem}.{os.getpid()}.mp4")
        self._palette = self._writing.with_suffix(".png")
        self._gif_writing = self._writing.with_suffix(".gif")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer: Any = imageio.get_writer(
                self._writing,
                fps=self._hz,
                macro_block_size=2,  # yuv420 needs even sides; the default rounds them to 16 and so distorts
                quality=9 if self._gif else 6,
                output_params=["-movflags", "+faststart"],  # a browser plays it while it is fetched
            )
        except (OSError, ValueError) as error:
            raise self._failed(error) from error

    def take(self, picture: np.ndarray) -> None:
        try:
            self._writer.append_data(picture)
        except (OSError, ValueError) as error:
            raise self._failed(error) from error

    def finish(self, path: Path | None = None) -> Path:
        """Puts it in place; under another name where the film's end decides it."""
        path = path or self._path
        try:
            self._writer.close()
            finished = self._make_gif() if self._gif else self._writing
            os.replace(finished, path)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise self._failed(error) from error
        finally:
            self._tidy()
        return path

    def drop(self) -> None:
        """What was not finished leaves nothing."""
        with contextlib.suppress(OSError, ValueError):
            self._writer.close()
        self._tidy()

    def _make_gif(self) -> Path:
        """In two passes, so that memory does not grow with the film: its 256 colours, then the film in them."""
        import imageio_ffmpeg

        scaled = f"scale='min({GIF_WIDTH},iw)':-1:flags=lanczos"
        ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error", "-i", str(self._writing)]
        _encode([*ffmpeg, "-vf", f"{scaled},palettegen", "-update", "1", str(self._palette)])
        colours = f"{scaled}[film];[film][1:v]paletteuse=dither=bayer:bayer_scale=4:diff_mode=rectangle"
        _encode([*ffmpeg, "-i", str(self._palette), "-lavfi", colours, "-loop", "0", str(self._gif_writing)])
        return self._gif_writing

    def _tidy(self) -> None:
        for path in (self._writing, self._palette, self._gif_writing):
            path.unlink(missing_ok=True)

    def _failed(self, error: Exception) -> SpreezeError:
        return SpreezeError(f"{self._path}: the video could not be written: {error}")


def _encode(command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_ENCODED_WITHIN_S
    )
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip()[-300:] or f"ffmpeg ended with {done.returncode}")
