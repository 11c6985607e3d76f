"""A run's .jsonl files as they grow: each line is read once, and kept thinned."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from spreeze.metrics.lines import LineTail
from spreeze.web.folder import Place
from spreeze.web.thinning import Join, Thinned, is_number, last, mean

EVENTS_KEPT = 400
PIECE_BYTES = 1 << 18  # 5 ms of reading: how exactly a deadline is kept
METRICS: Mapping[str, Join] = {
    "wall_s": last,
    "env_steps": last,
    "updates": last,
    "sample_hz": mean,
    "raw_hz": mean,
    "update_hz": mean,
    "update_frames_hz": mean,
    "replay_ratio": mean,
    "transfer_age_ms_p50": mean,
    "transfer_age_ms_p95": max,
    "weights_age_ms_p50": mean,
    "weights_age_ms_p95": max,
    "staleness_updates_p50": mean,
    "staleness_updates_p95": max,
    "ring_full_s": last,
    "batch_size": last,
    "samplers": last,
    "cpu_pct": mean,
    "gpu_pct": mean,
    "rss_bytes": max,
    "gpu_bytes": max,
    "episode_return_mean": mean,
    "critic_loss": mean,
    "actor_loss": mean,
    "q_mean": mean,
    "temperature": mean,
    "entropy": mean,
}
EVALUATIONS: Mapping[str, Join] = {
    "wall_s": last,
    "env_steps": last,
    "updates": last,
    "return_mean": mean,
    "return_std": mean,
    "return_min": min,
    "return_max": max,
}
EVALUATION_POINTS = 500


class Curves:
    """One file of figures. `latest`: its newest line."""

    def __init__(self, place: Place, name: str, columns: Mapping[str, Join], **thinned: int) -> None:
        self._tail = LineTail(place.path / name, lambda path: place.open(path.name))
        self._restarts = 0
        self._wall = MonotoneWall()
        self.points = Thinned(columns, **thinned)
        self.latest: dict[str, Any] | None = None
        self.lines = 0
        self.best: float | None = None  # of return_mean, where lines have it

    @property
    def lines_broken(self) -> int:
        return self._tail.lines_broken

    def read_until(self, deadline: float) -> bool:
        """False where time.monotonic() passed the deadline before the end of the file."""
        for records in self._tail.read_pieces(PIECE_BYTES):
            if self._tail.times_restarted != self._restarts:
                self._begin_anew()
            for record in records:
                self._take(record)
            if time.monotonic() > deadline:
                return False
        return True

    def _take(self, record: dict[str, Any]) -> None:
        self.lines += 1
        self.latest = record = self._wall.corrected(record)
        self.points.add(record)
        value = record.get("return_mean")
        if is_number(value) and (self.best is None or value > self.best):
            self.best = value

    def _begin_anew(self) -> None:
        self._restarts = self._tail.times_restarted
        self._wall = MonotoneWall()
        self.points.clear()
        self.latest, self.lines, self.best = None, 0, None


class MonotoneWall:
    """A run that was resumed may count its seconds from 0 again; on a curve they go on."""

    def __init__(self) -> None:
        self._before, self._end = 0.0, 0.0

    def corrected(self, record: dict[str, Any]) -> dict[str, Any]:
        wall_s = record.get("wall_s")
        if not is_number(wall_s):
            return record
        if wall_s + self._before < self._end / 2:
            self._before = self._end
        self._end = max(self._end, wall_s + self._before)
        return {**record, "wall_s": wall_s + self._before} if self._before else record


class Events:
    """The latest events, numbered, and the last one of each role."""

    def __init__(self, place: Place) -> None:
        self._tail = LineTail(place.path / "events.jsonl", lambda path: place.open(path.name))
        self._kept: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self._restarts = 0
        self.count = 0
        self.last_of_role: dict[str, dict[str, Any]] = {}

    def read_until(self, deadline: float, shorten: Callable[[Any], Any]) -> bool:
        for records in self._tail.read_pieces(PIECE_BYTES):
            if self._tail.times_restarted != self._restarts:
                self._restarts = self._tail.times_restarted
                self._kept.clear()
                self.last_of_role.clear()
            for record in records:
                self._take(shorten(record))
            if time.monotonic() > deadline:
                return False
        return True

    def since(self, number: int) -> list[dict[str, Any]]:
        """Those after event `number`, as many as are kept."""
        return [event for event in self._kept if event["number"] > number]

    def _take(self, event: dict[str, Any]) -> None:
        self.count += 1
        self._kept.append({**event, "number": self.count})
        role = event.get("role")
        if isinstance(role, str) and (role in self.last_of_role or len(self.last_of_role) < EVENTS_KEPT):
            self.last_of_role[role] = event
