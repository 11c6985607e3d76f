"""A curve from block characters. Pure: points and a size in, lines of text out."""

from __future__ import annotations

import math
from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
_LEVELS = len(BLOCKS) - 1


def draw_curve(
    points: Sequence[tuple[float, float]], width: int, height: int, end: float, low: float, high: float
) -> list[str]:
    """`height` lines, the upper first, of `width` columns from 0 to `end`; `low` stands on one eighth of a line."""
    shown = [point for point in points if point[0] <= end]
    levels = [level_of(value, height, low, high) for value in hold_by_column(shown, width, end)]
    return ["".join(_block(level - row * _LEVELS) for level in levels) for row in reversed(range(height))]


def _block(eighths: int) -> str:
    return BLOCKS[min(max(eighths, 0), _LEVELS)]


def hold_by_column(points: Sequence[tuple[float, float]], width: int, end: float) -> list[float | None]:
    """The latest value at the end of each column; None before the first point."""
    columns: list[float | None] = [None] * width
    for x, value in points:
        columns[min(int(x / end * width), width - 1) if end > 0 else 0] = value
    held: float | None = None
    for index, value_here in enumerate(columns):
        held = held if value_here is None else value_here
        columns[index] = held
    return columns


def level_of(value: float | None, height: int, low: float, high: float) -> int:
    """Filled eighths of a line, 1 at `low` and all at `high`; 0 where there is no value."""
    if value is None:
        return 0
    share = (value - low) / (high - low) if high > low else 0.5
    return 1 + math.floor(min(max(share, 0.0), 1.0) * (height * _LEVELS - 1) + 0.5)
