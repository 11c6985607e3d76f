"""Everything that the page shows of one run, read from its folder as it grows.

What a folder says is a stranger's word: figures are numbers or nothing, texts are cut to a length, and nothing here
raises because of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from typing import Any

from spreeze.errors import ConfigError
from spreeze.metrics.lines import finite
from spreeze.requests import FOLDER, ask
from spreeze.run_folder import CONFIG_FILE
from spreeze.watching.live import ALIVE_S
from spreeze.web.folder import Place, name_id, shown
from spreeze.web.history import EVALUATION_POINTS, EVALUATIONS, METRICS, Curves, Events
from spreeze.web.thinning import is_number

SILENT_AFTER_S = 15.0  # metrics come once a second; a saving learner does not hold them up
STARTING_WITHIN_S = 60.0
TAIL_BYTES = 64 << 10  # holds the last line of metrics.jsonl, about 1 KB
MOST_FRAME_BYTES = 16 << 20
VIDEO_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
LONGEST_TEXT = 2_000
MOST_ITEMS, DEEPEST = 500, 8  # of a document that is handed to the page
ENDS = ("solved", "finished", "stopped", "failed")
STEADY_FIGURES = ("sample_hz", "update_hz", "update_frames_hz", "replay_ratio")
BRIEF_FIGURES = ("wall_s", "env_steps", "updates", "sample_hz", "update_hz", "update_frames_hz", "episode_return_mean")


class RunView:
    """Of one run folder. Reading is shared by all pages that look at it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._metrics = Curves(place, "metrics.jsonl", METRICS)
        self._evaluations = Curves(place, "eval.jsonl", EVALUATIONS, capacity=EVALUATION_POINTS)
        self._events = Events(place)
        self._last_line: dict[str, Any] = {}
        self._last_line_stamp: tuple[int, int, int] | None = None
        self._documents: dict[str, tuple[tuple[int, int, int], dict[str, Any] | None]] = {}

    def brief(self) -> dict[str, Any]:
        """A line in the list of runs: costs some stats and small reads, whatever the run's length."""
        with self._lock:
            config, summary = self._document(CONFIG_FILE) or {}, self._document("summary.json") or {}
            record = self._last_metrics()
            state, reason = self._state(summary)
        figures = {key: record.get(key) for key in BRIEF_FIGURES if is_number(record.get(key))}
        return tidy({
            "id": self.place.id,
            "name": self.place.name,
            "env": text_or(config.get("env"), "unknown"),
            "algo": text_or(config.get("algo"), "unknown"),
            "seed": config.get("seed"),
            "device": config.get("device"),
            "batch_size": config.get("batch_size"),
            "readable": bool(config),
            "state": state,
            "reason": reason,
            "started_s": self._started_s(),
            "target": config.get("until_return"),
            "figures": figures,
            "steady": {key: summary[key] for key in STEADY_FIGURES if state in ENDS and is_number(summary.get(key))},
            "best_return": summary.get("best_return"),
            "final_return": summary.get("final_return"),
            "picture": self._picture()["drawn"],
        })  # fmt: skip

    def returns(self, cursor: str | None, deadline: float) -> dict[str, Any]:
        """The evaluations behind a cursor."""
        with self._lock:
            complete = self._evaluations.read_until(deadline)
            return {"id": self.place.id, "complete": complete, **self._evaluations.points.since(cursor)}

    def detail(self, cursors: dict[str, str], deadline: float) -> dict[str, Any]:
        """What changed since the cursors (`metrics`, `evaluations`: texts; `events`: a number)."""
        with self._lock:
            complete = self._events.read_until(deadline, tidy) and self._evaluations.read_until(deadline)
            complete = self._metrics.read_until(deadline) and complete
            seen = cursors.get("events", "")
            record = self._metrics.latest or {}
            latest_evaluation = self._evaluations.latest
            answer = {
                "complete": complete,
                "metrics": self._metrics.points.since(cursors.get("metrics")),
                "evaluations": self._evaluations.points.since(cursors.get("evaluations")),
                "events": self._events.since(int(seen) if seen.isdigit() and len(seen) < 9 else 0),
                "lines_broken": self._metrics.lines_broken + self._evaluations.lines_broken,
            }
            roles = self._roles(record)
        return {
            **answer,
            "run": self.brief(),
            "latest": tidy({key: value for key, value in record.items() if is_number(value)}),
            "evaluation": tidy(latest_evaluation),
            "evaluations_count": self._evaluations.lines,
            "best_return": self._evaluations.best,
            "roles": tidy(roles),
            "live": self._picture(),
            "videos": self.videos(),
        }

    def documents(self) -> dict[str, Any]:
        """What does not change while a run goes on."""
        with self._lock:
            names = {"config": CONFIG_FILE, "machine": "machine.json", "summary": "summary.json"}
            return {key: tidy(self._document(name)) for key, name in names.items()}

    def frame(self) -> bytes | None:
        return self.place.read("live", "frame.jpg", most_bytes=MOST_FRAME_BYTES)

    def frame_stamp(self) -> int:
        """Changes with every picture; 0 where there is none."""
        status = self.place.status("live", "frame.jpg")
        return 0 if status is None else (status.st_mtime_ns * 31 + status.st_ino) & ((1 << 52) - 1)

    def videos(self) -> list[dict[str, Any]]:
        """Newest first."""
        found: list[tuple[float, dict[str, Any]]] = []
        for name in self.place.files("video"):
            kind = kind_of_video(name)
            status = self.place.status("video", name) if kind else None
            if status is not None:
                video = {"id": name_id(name), "name": shown(name), "bytes": status.st_size, "at_s": status.st_mtime}
                found.append((-status.st_mtime, {**video, "kind": kind}))
        return [video for _, video in sorted(found, key=lambda one: one[0])[:MOST_ITEMS]]

    def open_video(self, video_id: str) -> tuple[int, str] | None:
        """-> (descriptor, media type)"""
        for name in self.place.files("video"):
            kind = kind_of_video(name)
            if kind and name_id(name) == video_id:
                with contextlib.suppress(OSError):
                    return self.place.open("video", name), kind
        return None

    def ask(self, what: str) -> None:
        """Raises ConfigError for what no run knows, OSError where the folder takes no request."""
        folder = self.place.path / FOLDER
        if os.path.lexists(folder) and not self.place.has_real_folder(FOLDER):
            raise ConfigError(f"{FOLDER} in this run's folder is not a folder")
        ask(self.place.path, what, "the dashboard")

    def _document(self, name: str) -> dict[str, Any] | None:
        """Read again when it has changed."""
        status = self.place.status(name)
        if status is None:
            return None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        kept = self._documents.get(name)
        if kept is None or kept[0] != stamp:
            kept = self._documents[name] = stamp, self.place.read_document(name)
        return kept[1]

    def _last_metrics(self) -> dict[str, Any]:
        """The newest line, without what lies before it: nobody may be following the curves."""
        status = self.place.status("metrics.jsonl")
        stamp = None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp != self._last_line_stamp:
            self._last_line_stamp, self._last_line = stamp, self._read_last_metrics()
        return self._last_line

    def _read_last_metrics(self) -> dict[str, Any]:
        try:
            with open(self.place.open("metrics.jsonl"), "rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - TAIL_BYTES))
                lines = file.read(TAIL_BYTES).split(b"\n")[:-1]
        except OSError:
            return {}
        for line in reversed(lines):
            record = parse_line(line)
            if record is not None:
                return record
        return {}

    def _state(self, summary: dict[str, Any]) -> tuple[str, str]:
        """-> (starting, running, silent, or one of ENDS; why)"""
        now = time.time()
        metrics, ended = self.place.status("metrics.jsonl"), self.place.status("summary.json")
        written_s = metrics.st_mtime if metrics else 0.0
        over = ended is not None and ended.st_mtime > written_s - 2.0  # else it was resumed after that end
        if over and summary.get("status") in ENDS:
            return str(summary["status"]), text_or(summary.get("reason"), "")
        if now - written_s < SILENT_AFTER_S:
            return "running", ""
        if metrics is None and now - self._started_s() < STARTING_WITHIN_S:
            return "starting", ""
        return "silent", "no figures for a while: it was killed, is stopped, or its disk takes no lines"

    def _started_s(self) -> float:
        """machine.json is written once, when the command starts; config.json is its neighbour in older runs."""
        status = self.place.status("machine.json") or self.place.status(CONFIG_FILE)
        return status.st_mtime if status else 0.0

    def _picture(self) -> dict[str, Any]:
        state = self.place.read_document("live", "state.json") or {}
        beat = state.get("heartbeat_s")
        drawn = state.get("state") == "playing" and is_number(beat) and abs(time.time() - beat) < ALIVE_S
        return tidy({"drawn": drawn, "stamp": self.frame_stamp(), "state": state})

    def _roles(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        states, restarts = dict_or_empty(record.get("roles")), dict_or_empty(record.get("restarts"))
        names = list(dict.fromkeys([*states, *restarts]))
        return [
            {
                "name": name,
                "state": states.get(name),
                "restarts": restarts.get(name),
                "event": self._events.last_of_role.get(name),
            }
            for name in names[:MOST_ITEMS]
        ]


def parse_line(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def kind_of_video(name: str) -> str | None:
    """None for what is no video, or is still being written (play.record_run)."""
    if name.startswith(".") or ".writing." in name:
        return None
    return VIDEO_TYPES.get(os.path.splitext(name)[1].lower())


def dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def text_or(value: Any, otherwise: str) -> str:
    return value[:LONGEST_TEXT] if isinstance(value, str) else otherwise


def tidy(value: Any, depth: int = 0) -> Any:
    """The same, as JSON that a page can hold: no NaN, no endless text, no endless list, no bottomless nesting."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
    if isinstance(value, (dict, list, tuple)) and depth >= DEEPEST:
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:MOST_ITEMS]
        return {str(key)[:LONGEST_TEXT]: tidy(item, depth + 1) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [tidy(item, depth + 1) for item in value[:MOST_ITEMS]]
    if isinstance(value, int) and not isinstance(value, bool) and not is_number(value):
        return "…"  # more digits than a page counts with
    return finite(value)
