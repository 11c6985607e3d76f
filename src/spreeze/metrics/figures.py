"""From the board's counters to the figures of metrics.jsonl: one record per window. Pure: the clock is given.

A window is the time between two readings. Rates are differences over the window; ages and staleness are what the
learner measured last; totals are totals since the command started. What is not known yet is None, and so is what is
not a finite number: a record is always valid JSON.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from spreeze.board import LOSS_CELLS, RETURNS_KEPT, Board, Section

EPISODES_AVERAGED = 100
WARM_UP_S = 3.0  # after the first update: graphs are captured, the batch size settles
STEADY_KEYS = ("sample_hz", "update_hz", "update_frames_hz", "replay_ratio")
USAGE_KEYS = ("cpu_pct", "gpu_pct", "rss_bytes", "gpu_bytes")
Record = dict[str, Any]


class _Totals(NamedTuple):
    """Counters at the beginning of a window."""

    at_s: float
    env_steps: int
    updates: int
    update_frames: int
    drains: int
    setting: tuple[int, int]  # batch size and samplers in force


class Figures:
    """Reads the board once a second on behalf of the supervisor, which also names what is not on the board."""

    def __init__(self, board: Board, started_s: float, began_s: float | None = None) -> None:
        """`started_s`: when the run started, on the clock of read() and of the board: time.monotonic(). `began_s`: when
        this command did, where the run is resumed; the first window begins there."""
        self._board = board
        self._learner = board.section("learner")
        self._samplers = board.sampler_sections()
        self._started_s = started_s
        self._last = self._totals(started_s if began_s is None else began_s)
        self._updates_before = self._last.updates  # by earlier commands of the run
        self._first_busy_s: float | None = None  # beginning of the first window that had updates before it
        self._episodes = [NewEpisodes(section) for section in self._samplers]
        self._raw_rates = [RawRate(section) for section in self._samplers]
        self._returns: deque[float] = deque(maxlen=EPISODES_AVERAGED)
        self._steady = {key: array("d") for key in STEADY_KEYS}  # windows after the warm-up
        self._early = {key: array("d") for key in STEADY_KEYS}  # windows after the first update, before that

    def read(
        self,
        now_s: float,
        envs_per_sampler: int,
        restarts: Mapping[str, int],
        usage: Mapping[str, float | int | None],
    ) -> Record:
        """Closes the window that began with the last reading."""
        before, now = self._last, self._totals(now_s)
        self._last = now
        rates = self._rates(before, now)
        self._keep_for_steady(before, now, rates)
        self._returns.extend(merge_fairly(episodes.collect() for episodes in self._episodes))
        return {
            "wall_s": round(now_s - self._started_s, 3),
            "env_steps": now.env_steps,
            "updates": now.updates,
            **{key: _figure(value) for key, value in rates.items()},
            "raw_hz": _figure(self._raw_hz()),
            **self._latencies(now),
            "ring_full_s": _figure(sum(section.get("ring_full_ns") for section in self._samplers) / 1e9),
            "batch_size": self._learner.get("batch_size") or None,
            "samplers": self._board.section("supervisor").get("active_samplers"),
            "envs_per_sampler": envs_per_sampler,
            **{key: _figure(usage.get(key)) for key in USAGE_KEYS},
            "episode_return_mean": _figure(float(np.mean(self._returns))) if self._returns else None,
            **{name: self._loss(name, now) for name in LOSS_CELLS},
            "restarts": dict(restarts),
            "lost_rows": self.lost_rows(),
        }

    def steady(self) -> dict[str, float | None]:
        """Medians for summary.json.

        Over the windows that began at least WARM_UP_S after the first one that found updates done, none of them
        touched by the stop, and after the latest change of batch size or samplers. A run too short for that takes the
        windows after its first update; one without updates has None. A window without env steps has no replay ratio
        and is left out of that median.
        """
        windows = self._steady if self._steady["update_hz"] else self._early
        return {key: _figure(float(np.median(values))) if values else None for key, values in windows.items()}

    def first_step_s(self) -> float | None:
        """From the command to the first env step of any sampler."""
        return self._since_start(section.get("first_step_ns") for section in self._samplers)

    def first_update_s(self) -> float | None:
        return self._since_start([self._learner.get("first_update_ns")])

    def lost_rows(self) -> int:
        return self._learner.get("lost_rows") + sum(section.get("lost_rows") for section in self._samplers)

    def _since_start(self, moments_ns: Iterable[int]) -> float | None:
        happened = [moment for moment in moments_ns if moment > 0]
        return round(min(happened) / 1e9 - self._started_s, 3) if happened else None

    def _totals(self, now_s: float) -> _Totals:
        learner = self._learner
        return _Totals(
            now_s,
            learner.get("env_steps"),
            learner.get("updates"),
            learner.get("update_frames"),
            learner.get("drains"),
            (learner.get("batch_size"), self._board.active_samplers()),
        )

    def _rates(self, before: _Totals, now: _Totals) -> dict[str, float | None]:
        """An env step counts when its row is in replay, so that sample_hz, totals and replay_ratio agree exactly."""
        span_s = now.at_s - before.at_s
        env_steps = now.env_steps - before.env_steps
        updates = now.updates - before.updates
        frames = now.update_frames - before.update_frames
        return {
            "sample_hz": _ratio(env_steps, span_s),
            "update_hz": _ratio(updates, span_s),
            "update_frames_hz": _ratio(frames, span_s),
            "replay_ratio": _ratio(frames, env_steps),
            "transfer_hz": _ratio(now.drains - before.drains, span_s),
        }

    def _raw_hz(self) -> float | None:
        """What the active samplers would give if they did nothing but step; None where none of them has stepped.

        One that was at work and had no step in this window (it waits for its turn, or its successor starts) counts with
        the rate that it had last: its environments became no slower. The time is that of the clock, so it is the limit
        beside whatever else has the cores.
        """
        stepped = [rate.read() for rate in self._raw_rates]
        active = self._board.active_samplers() or len(self._samplers)
        if not any(stepped[:active]):
            return None
        return sum(rate.hz for rate in self._raw_rates[:active] if rate.hz is not None)

    def _latencies(self, now: _Totals) -> Record:
        """The learner's own measurements; zero-filled cells say nothing before the first drain and publication."""
        version = self._learner.get("weights_version")
        transfer = self._percentiles("transfer_age_ms", known=now.drains > 0)
        weights = self._percentiles("weights_age_ms", known=version > 0)
        staleness = self._percentiles("staleness_updates", known=version > 0)
        return {**transfer, "weights_version": version, **weights, **staleness}

    def _loss(self, name: str, now: _Totals) -> float | None:
        """What the learner fetched last; None for what this algorithm does not have."""
        return _figure(self._learner.get_float(name)) if now.updates > 0 else None

    def _percentiles(self, name: str, known: bool) -> dict[str, float | None]:
        cells = (f"{name}_p50", f"{name}_p95")
        return {cell: _figure(self._learner.get_float(cell)) if known else None for cell in cells}

    def _keep_for_steady(self, before: _Totals, now: _Totals, rates: Mapping[str, float | None]) -> None:
        if before.updates == self._updates_before or self._board.stopping():
            return
        changed = before.setting != now.setting
        if self._first_busy_s is None:
            self._first_busy_s = before.at_s
        if changed:
            for values in self._steady.values():
                del values[:]
        warm = before.at_s >= self._first_busy_s + WARM_UP_S and not changed
        for key, values in (self._steady if warm else self._early).items():
            rate = rates[key]
            if rate is not None:
                values.append(rate)


class RawRate:
    """Follows one sampler: its env steps a second of the time that it is inside its environments. The cells go on
    counting when the sampler is replaced."""

    def __init__(self, section: Section) -> None:
        self._section = section
        self._counted = self._read_cells()
        self.hz: float | None = None  # of the latest window in which it stepped

    def read(self) -> bool:
        """True if it stepped since the last call."""
        before, now = self._counted, self._read_cells()
        self._counted = now
        env_steps, stepping_ns = now[0] - before[0], now[1] - before[1]
        if env_steps <= 0 or stepping_ns <= 0:
            return False
        self.hz = env_steps / (stepping_ns / 1e9)
        return True

    def _read_cells(self) -> tuple[int, int]:
        return self._section.get("env_steps"), self._section.get("stepping_ns")


class NewEpisodes:
    """Follows one sampler's circular array of returns, without a lock.

    The sampler writes entry n into place n % RETURNS_KEPT and then moves `episodes` on to n + 1. While we copy, it may
    go on: entries that it may have overwritten by the end of the copy are left out, never mixed in.
    """

    def __init__(self, section: Section) -> None:
        self._section = section
        self._seen = section.get("episodes")

    def collect(self) -> list[tuple[float, float]]:
        """(share of the window that had passed, return) of the episodes since the last call, oldest first."""
        first, end = self._seen, self._section.get("episodes")
        if end == first:
            return []
        kept = self._section.returns.copy()
        intact = self._section.get("episodes") - RETURNS_KEPT + 1  # the place before is being written right now
        self._seen = end
        episodes = ((n, float(kept[n % RETURNS_KEPT])) for n in range(max(first, intact), end))
        return [((n - first) / (end - first), value) for n, value in episodes if math.isfinite(value)]


def merge_fairly(samplers: Iterable[list[tuple[float, float]]]) -> list[float]:
    """One order for all samplers' new returns, by time within the window: the latest 100 are not one sampler's."""
    merged = sorted((episode for episodes in samplers for episode in episodes), key=lambda episode: episode[0])
    return [value for _, value in merged]


def _ratio(count: float, per: float) -> float | None:
    return count / per if per > 0 else None


def _figure(value: float | int | None) -> float | int | None:
    """Six significant digits are more than any of these measurements has; NaN and infinity are 'not known'."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None
