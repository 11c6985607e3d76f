"""An episode as a video file, every now and then: RUN/video/<minutes>-return-<return>.mp4.

The first as soon as there are weights, then one a minute; after ten minutes each comes when the run has become a tenth
longer, so that a night gives dozens and not hundreds. At most the first 20 seconds of an episode are filmed; the return
is of all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from spreeze.errors import SpreezeError
from spreeze.watching.film import Film, stride_of

FOLDER = "video"  # in the run folder
EVERY_S, EVERY_SHARE = 60.0, 0.1
LONGEST_S = 20.0
HZ = 30.0
UNFINISHED = "clip"


class Clips:
    """`wall_s`: seconds since the run's command; `warn` is told what was not written; `ready`: there are weights."""

    def __init__(
        self,
        run_dir: Path,
        step_s: float,
        wall_s: Callable[[], float],
        warn: Callable[[str], None],
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self._step_s, self._wall_s, self._warn = run_dir / FOLDER, step_s, wall_s, warn
        self._ready = ready
        self._due_s = 0.0
        self._began_s = 0.0
        self._film: Film | None = None
        self._stride = stride_of(step_s, HZ)
        for left in self._folder.glob(f".{UNFINISHED}.*"):  # by one who was killed
            left.unlink(missing_ok=True)

    def due(self) -> bool:
        return self._wall_s() >= self._due_s and self._ready()

    def begin(self) -> bool:
        """An episode begins. True: it becomes a clip."""
        self.drop()
        if not self.due():
            return False
        self._began_s = self._wall_s()
        self._due_s = self._began_s + max(EVERY_S, EVERY_SHARE * self._began_s)
        self._try(self._open)
        return self._film is not None

    def wants(self, step: int) -> bool:
        return self._film is not None and step % self._stride == 0 and step * self._step_s <= LONGEST_S

    def take(self, picture: np.ndarray) -> None:
        film = self._film
        assert film is not None, "wants() said False"
        self._try(lambda: film.take(picture))

    def end(self, episode_return: float) -> None:
        film, self._film = self._film, None
        if film is not None:
            path = self._folder / f"{self._began_s / 60:06.1f}-return-{episode_return:.0f}.mp4"
            self._try(lambda: film.finish(path))

    def drop(self) -> None:
        film, self._film = self._film, None
        if film is not None:
            film.drop()

    def _open(self) -> None:
        self._folder.mkdir(exist_ok=True)  # and not the run's folder, should that be away
        self._film = Film(self._folder / f"{UNFINISHED}.mp4", self._step_s, HZ)

    def _try(self, write: Callable[[], object]) -> None:
        """A disk that is full costs a clip."""
        try:
            write()
        except (SpreezeError, OSError) as error:
            self._warn(str(error))
            self.drop()
