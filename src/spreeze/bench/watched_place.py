"""When a place was at work: the beginning and the end of each piece, on one clock for all places.

On a GPU both are events in the place's stream, on a CPU the wall clock of the place's thread: there a piece that waits
for a busy core counts as at work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from spreeze.learner.places import Mark, Place, Work

Span = tuple[float, float]  # seconds


class WatchedPlace:
    """A place that notes its spans between `start` and `stop`, and else costs what it cost unwatched."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.name, self.device = place.name, place.device
        self._clock: Any = None
        self._marks: list[tuple[Any, Any]] = []

    def submit(self, work: Work, after: Sequence[Mark] = ()) -> Mark:
        clock = self._clock
        if clock is None:
            return self._place.submit(work, after)

        def timed() -> None:
            begin = clock.mark()
            work()
            self._marks.append((begin, clock.mark()))

        return self._place.submit(timed, after)

    def start(self) -> None:
        self._place.wait()
        self._marks.clear()
        self._clock = _CudaClock(self.device) if self.device.type == "cuda" else _CpuClock()

    def stop(self) -> list[Span]:
        self._place.wait()
        clock, self._clock = self._clock, None
        return [(clock.seconds(begin), clock.seconds(end)) for begin, end in self._marks]

    def begin(self) -> None:
        self._place.begin()

    def finish(self) -> Mark:
        return self._place.finish()

    def wait(self) -> None:
        self._place.wait()

    def close(self) -> None:
        self._place.close()

    def capture(self, work: Work, generators: Sequence[torch.Generator]) -> Work:
        return self._place.capture(work, generators)


class _CpuClock:
    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, mark: float) -> float:
        return mark


class _CudaClock:
    def __init__(self, device: torch.device) -> None:
        with torch.cuda.device(device):
            torch.cuda.synchronize()
            self._base = self.mark()
            torch.cuda.synchronize()
        self._base_s = time.perf_counter()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: torch.cuda.Event) -> float:
        return self._base_s + self._base.elapsed_time(mark) / 1e3


def time_of_both(left: Sequence[Span], right: Sequence[Span]) -> float:
    """Seconds that lie in a span of each; both in the order of time, without overlaps of their own."""
    total, i, j = 0.0, 0, 0
    while i < len(left) and j < len(right):
        total += max(0.0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return total


def overlap(left: Sequence[Span], right: Sequence[Span]) -> float:
    """The share of the time from the first beginning to the last end in which both were at work."""
    if not left or not right:
        return 0.0
    whole = max(left[-1][1], right[-1][1]) - min(left[0][0], right[0][0])
    return time_of_both(left, right) / whole
