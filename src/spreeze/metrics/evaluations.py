"""The evaluations of one run, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CURVE_POINTS = 2000  # more than a terminal has columns; an hour at one a second


class Evaluations:
    """The best, the last, how many, and a curve: of a long one every second point is dropped, again and again."""

    def __init__(self, curve_points: int = CURVE_POINTS) -> None:
        self._curve_points = curve_points
        self.count = 0
        self.best_return: float | None = None
        self.final_return: float | None = None
        self.curve: list[dict[str, Any]] = []  # wall_s and return_mean of lines of eval.jsonl

    def add(self, record: Mapping[str, Any]) -> None:
        mean = record["return_mean"]
        self.count += 1
        self.final_return = mean
        if mean is not None and (self.best_return is None or mean > self.best_return):
            self.best_return = mean
        self.curve.append({"wall_s": record["wall_s"], "return_mean": mean})
        if len(self.curve) > self._curve_points:
            del self.curve[-2::-2]  # from the end: the newest stays
