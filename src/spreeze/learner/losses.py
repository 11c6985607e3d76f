"""What the updates say of themselves (losses, values, temperature), for the reports.

The figures stay on the device, written in place by every update. A report fetches them with one asynchronous copy and
puts what the copy before it brought on the board: the hot loop never waits for the device.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch

from spreeze.algos.algorithm import Algorithm, Metrics
from spreeze.board import LOSS_CELLS, Section
from spreeze.errors import NotFiniteError


class Losses:
    """Of the halves of an update; what two of them name is the sum of both."""

    def __init__(self, halves: Sequence[Metrics], cells: Section) -> None:
        self._fetches = [_Fetch(half) for half in halves]
        self._cells = cells
        for name in LOSS_CELLS:  # what an algorithm does not have is not a number
            cells.set_float(name, math.nan)

    def forget(self) -> None:
        """What is on its way is of updates that were taken back."""
        for fetch in self._fetches:
            fetch.forget()

    def report(self) -> None:
        if all(fetch.arrived() for fetch in self._fetches):
            sums: dict[str, float] = defaultdict(float)
            for fetch in self._fetches:
                for name, value in fetch.values().items():
                    sums[name] += value
            if not all(map(math.isfinite, sums.values())):
                wrong = ", ".join(name for name, value in sums.items() if not math.isfinite(value))
                raise NotFiniteError(f"{wrong} not finite. A lower --lr is the first thing to try.")
            for name, value in sums.items():
                self._cells.set_float(name, value)
        for fetch in self._fetches:
            fetch.begin()


def halves_of(algorithm: Algorithm) -> Sequence[Metrics]:
    """One where both halves are in one place."""
    if algorithm.critic_metrics is algorithm.metrics:
        return [algorithm.metrics]
    return [algorithm.metrics, algorithm.critic_metrics]


class _Fetch:
    """One vector's way from its device."""

    def __init__(self, metrics: Metrics) -> None:
        self._names = list(metrics)
        self._vector = metrics.values_vector
        self._host = torch.zeros(self._vector.shape, pin_memory=self._vector.is_cuda)
        self._copied = torch.cuda.Event() if self._vector.is_cuda else None
        self._begun = False

    def begin(self) -> None:
        self._host.copy_(self._vector, non_blocking=True)
        if self._copied is not None:
            self._copied.record(torch.cuda.current_stream(self._vector.device))
        self._begun = True

    def forget(self) -> None:
        self._begun = False

    def arrived(self) -> bool:
        return self._begun and (self._copied is None or self._copied.query())

    def values(self) -> dict[str, float]:
        return dict(zip(self._names, self._host.tolist(), strict=True))
