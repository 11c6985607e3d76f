"""A table in plain text: the same in a terminal, a pipe and a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as their content; numbers to the right, words to the left."""
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    right = [bool(rows) and all(_is_number(row[place]) for row in rows) for place in range(len(columns))]
    return "\n".join(
        "  ".join(f"{text:>{width}}" if to_right else f"{text:<{width}}" for text, width, to_right in
                  zip(line, widths, right, strict=True)).rstrip()
        for line in cells
    )  # fmt: skip


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
