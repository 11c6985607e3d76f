"""Figures over windows: what a row of a bench is made of."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import median
from typing import Any

from spreeze.tuning.hardware import find_machine

LEAST_WINDOWS = 5  # fewer say nothing about the spread


class Windows:
    """One value a window for each figure; the windows of a row follow one another in one run."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def add(self, **figures: float) -> None:
        for name, value in figures.items():
            self._values[name].append(value)

    def row(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings, each figure's median under its own name, and under `spread` its lowest and highest window."""
        return {
            **settings,
            **{name: shown(median(values)) for name, values in self._values.items()},
            "windows": max(map(len, self._values.values()), default=0),
            "spread": {name: [shown(min(values)), shown(max(values))] for name, values in self._values.items()},
        }


def shown(value: float) -> float | None:
    """Six significant digits are more than any of these measurements has."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def document(what: str, settings: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"what": what, "machine": find_machine().as_json(), "settings": settings, "rows": rows}
