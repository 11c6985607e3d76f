"""`python -m spreeze.bench.weights_reader`: a follower in a process of its own, never resting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.bench.helper import Handler, serve
from spreeze.errors import WeightsError
from spreeze.runtime.topology import open_board, open_evaluator_links
from spreeze.weights.link import Follower


class Reader:
    """Loads every version that it sees announced, and looks whether it holds what was published under that version."""

    def __init__(self, follower: Follower, count: int) -> None:
        self._follower = follower
        self._into = np.zeros(count, np.float32)
        self._seen = 0

    def follow(self, last_version: int, give_up_s: float) -> list[tuple[int, int]]:
        """Until `last_version` is here: (version, monotonic nanoseconds when the whole vector was here)."""
        here = []
        deadline = time.monotonic() + give_up_s
        while self._seen < last_version and time.monotonic() < deadline:
            if self._follower.version() == self._seen:
                continue
            version = self._follower.load(self._into).version
            here_ns = time.monotonic_ns()
            if version == self._seen:
                continue
            if not (self._into == np.float32(version)).all():
                raise WeightsError(f"weights of version {version} hold something else")
            self._seen = version
            here.append((version, here_ns))
        return here


def prepare(setup: dict[str, Any]) -> Handler:
    board = open_board(setup["wiring"])
    links = open_evaluator_links(setup["wiring"], board, Path(setup["folder"]), setup["count"])
    reader = Reader(links.weights, setup["count"])
    return lambda request: {"here": reader.follow(request["until"], request["give_up_s"])}


if __name__ == "__main__":
    serve(prepare)
