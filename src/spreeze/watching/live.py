"""The live picture of a run: two files in the run folder, for a page in the browser and for whoever else looks.

    live/frame.jpg    the picture shown last
    live/state.json   what it shows, and who draws it

Both are replaced by rename for every picture, frame.jpg first: a reader sees a whole picture and a whole document, and
a picture that is never older than its document. The files of a picture that is over stay; `state` says so, and where
its process was killed, `heartbeat_s` does. state.json:

| key | meaning |
|---|---|
| state, reason | playing; ended or failed, and why |
| heartbeat_s | when this was written, in seconds since 1970 |
| pid, started_by | the process that draws; run (a role of the run) or watch (a command beside it) |
| env, policy | the environment; live (the newest weights) or best (the best policy of a run that is over) |
| weights_version, updates | of the weights that act; null for a policy that has no version |
| episode, step | episodes begun by this process, from 1; env steps in this one, from 0 |
| episode_s | how long the episode has lasted, in the time of the environment |
| episode_return, last_return | of this episode so far; of the one before it, null in the first |
| frame, frames_hz | pictures shown by this process, from 1; pictures a second lately |
| speed | 1: the episode goes at the speed of life; less where drawing it takes too long |
| width, height | of the picture |
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spreeze.metrics.lines import finite

FRAME, STATE = "live/frame.jpg", "live/state.json"  # in the run folder
ALIVE_S = 5.0  # without a heartbeat for so long, nobody draws any more


class LiveFiles:
    """The writing end; one process at a time (see `drawn_by`)."""

    def __init__(self, run_dir: Path) -> None:
        self._frame, self._state = run_dir / FRAME, run_dir / STATE
        self._frame.parent.mkdir(exist_ok=True)

    def write(self, jpeg: bytes, state: Mapping[str, Any]) -> None:
        _replace(self._frame, jpeg)
        self.write_state(state)

    def write_state(self, state: Mapping[str, Any]) -> None:
        document = {**state, "heartbeat_s": round(time.time(), 3), "pid": os.getpid()}
        _replace(self._state, json.dumps(finite(document), allow_nan=False).encode())


def read_state(run_dir: Path) -> dict[str, Any] | None:
    """None where there never was a picture, or where what is there is not its document."""
    try:
        state = json.loads((run_dir / STATE).read_bytes())
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def drawn_by(run_dir: Path, now_s: float | None = None) -> dict[str, Any] | None:
    """The state, where a process draws this run's picture now."""
    state = read_state(run_dir)
    if state is None or state.get("state") != "playing" or not isinstance(state.get("heartbeat_s"), (int, float)):
        return None
    age_s = (time.time() if now_s is None else now_s) - state["heartbeat_s"]
    return state if age_s < ALIVE_S else None


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    os.replace(beside, path)
