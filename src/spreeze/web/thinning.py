"""Hours of lines in at most CAPACITY points, that grow by increments.

A point stands for `stride` lines: 1 at first; when the points are full, neighbours are joined and the stride doubles.

    stride 1   | 0 | 1 | 2 | 3 | 4 | 5 |            full: joined, two by two
    stride 2   |  0,1  |  2,3  |  4,5  |            and then on with points of two lines each
                                       ^ the open point: its lines are still coming

A reader that has the points up to a cursor gets those behind it; when points were joined meanwhile it gets all.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

CAPACITY = 1000
Values = Sequence[float]
Join = Callable[[Values], float]


def mean(values: Values) -> float:
    return math.fsum(values) / len(values)


def last(values: Values) -> float:
    return values[-1]


class Thinned:
    """`columns`: name -> how the values of a point become one. What is no finite number is None, and left out."""

    def __init__(self, columns: Mapping[str, Join], capacity: int = CAPACITY) -> None:
        self._columns = dict(columns)
        self._capacity = capacity
        self.clear()

    def clear(self) -> None:
        self._points: dict[str, list[float | None]] = {name: [] for name in self._columns}
        self._open: list[Mapping[str, Any]] = []
        self._count = 0
        self._stride = 1
        self._generation = secrets.token_hex(6)  # of no other server either

    def add(self, record: Mapping[str, Any]) -> None:
        self._open.append(record)
        if len(self._open) < self._stride:
            return
        for name, value in self._open_point().items():
            self._points[name].append(value)
        self._open = []
        self._count += 1
        if self._count == self._capacity:
            self._join_neighbours()

    def since(self, cursor: str | None) -> dict[str, Any]:
        """The points behind `cursor`, the open one as the last of them.

        `keep`: how many of the points that the reader has stay in front of these; 0: he has all anew.
        `cursor`: where to go on.
        """
        keep = self._place_of(cursor)
        points = {name: values[keep:] for name, values in self._points.items()}
        if self._open:
            for name, value in self._open_point().items():
                points[name].append(value)
        return {"cursor": f"{self._generation}.{self._count}", "keep": keep, "points": points}

    def _place_of(self, cursor: str | None) -> int:
        generation, _, place = (cursor or "").partition(".")
        if generation != self._generation or not (place.isascii() and place.isdigit() and len(place) < 9):
            return 0
        return min(int(place), self._count)

    def _open_point(self) -> dict[str, float | None]:
        return {name: _joined(join, [line.get(name) for line in self._open]) for name, join in self._columns.items()}

    def _join_neighbours(self) -> None:
        for name, join in self._columns.items():
            values = self._points[name]
            pairs = (values[place : place + 2] for place in range(0, len(values), 2))
            self._points[name] = [_joined(join, pair) for pair in pairs]
        self._count = (self._count + 1) // 2
        self._stride *= 2
        self._generation = secrets.token_hex(6)


def _joined(join: Join, values: Sequence[Any]) -> float | None:
    numbers = [value for value in values if is_number(value)]
    return join(numbers) if numbers else None


def is_number(value: Any) -> TypeGuard[float]:
    """What a stranger's file holds under a figure's name may be anything."""
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and abs(value) < 1 << 63
