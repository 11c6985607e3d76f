"""Several runs' curves as one: their median, and how far they lie apart. Pure NumPy.

Runs are evaluated at moments of their own, so each curve is first brought onto a common grid: the mean of the points
in a cell, and between such means a straight line. Nothing is smoothed beyond the width of a cell. No curve begins
before its first point; after its last it ends, or, where `hold` is asked for, it keeps that value: a run that stopped
because it had solved the task would otherwise pull the median of the others down by leaving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CELLS = 150
QUARTILES_FROM = 5  # runs; the quartiles of fewer tell less than their lowest and highest
Curve = tuple[np.ndarray, np.ndarray]  # x, rising; y


@dataclass(frozen=True)
class Spread:
    """On the grid, NaN where no run has a value."""

    x: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray
    runs: np.ndarray  # that had begun and not ended there


def spread_of(curves: Sequence[Curve], quartiles: bool, hold: bool, cells: int = CELLS) -> Spread | None:
    """None where no curve has a point. `quartiles`: low and high are those, else the lowest and the highest run."""
    told = [curve for curve in curves if len(curve[0])]
    if not told:
        return None
    end = max(float(x[-1]) for x, _ in told)
    centers = (np.arange(cells) + 0.5) * (end / cells if end > 0 else 1.0)
    values = np.array([on_grid(curve, centers) for curve in told])
    going_on = ~np.isnan(values)
    if hold:
        values = np.array([_held(row) for row in values])
    spread = np.full((3, cells), np.nan)
    some = ~np.isnan(values).all(axis=0)
    spread[:, some] = np.nanquantile(values[:, some], (0.5, 0.25, 0.75) if quartiles else (0.5, 0.0, 1.0), axis=0)
    median, low, high = spread
    return Spread(centers, median, low, high, going_on.sum(axis=0))


def on_grid(curve: Curve, centers: np.ndarray) -> np.ndarray:
    """The curve's values at the centers of cells of one width; NaN where it has none."""
    x, y = curve
    width = centers[1] - centers[0] if len(centers) > 1 else 2 * centers[0]
    cell = np.clip((x / width).astype(np.int64), 0, len(centers) - 1)
    points = np.bincount(cell, minlength=len(centers))
    filled = points > 0
    means = np.bincount(cell, weights=y, minlength=len(centers))[filled] / points[filled]
    between = np.interp(centers, centers[filled], means)
    return np.where((centers >= centers[filled][0]) & (centers <= centers[filled][-1]), between, np.nan)


def _held(row: np.ndarray) -> np.ndarray:
    last = np.flatnonzero(~np.isnan(row))[-1]
    return np.where(np.arange(len(row)) > last, row[last], row)


def band_name(quartiles: bool) -> str:
    return "25th to 75th percentile" if quartiles else "lowest to highest run"
