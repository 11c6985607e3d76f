"""A bench's document for people: settings that all rows share in the heading, then a line a row; a single row is
shown from top to bottom."""

from __future__ import annotations

from typing import Any

from spreeze.tables import table

_BESIDE = ("windows", "spread")
_SCALES = ((1e9, " G"), (1e6, " M"))
Row = dict[str, Any]


def render_document(document: dict[str, Any]) -> str:
    rows = document["rows"]
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in _BESIDE]
    shared = [name for name in names if _is_shared(name, rows)]
    told = [name for name in names if name not in shared]
    body = _one_row(rows[0], told) if len(rows) == 1 else _many_rows(rows, told)
    settings = ", ".join(f"{name} {_setting(rows[0][name])}" for name in shared)
    return "\n".join((_heading(document), settings, "", body))


def _heading(document: dict[str, Any]) -> str:
    machine = document["machine"]
    gpus = "".join(f", {gpu['name']}" for gpu in machine["gpus"])
    counts = sorted({row["windows"] for row in document["rows"]})
    return (
        f"bench {document['what']} on {machine['cpu_model']}, {machine['cores']} cores{gpus}; "
        f"medians of {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} windows"
    )


def _is_shared(name: str, rows: list[Row]) -> bool:
    """A setting that is the same in all rows."""
    return all(name in row and name not in row["spread"] and row[name] == rows[0][name] for row in rows)


def _one_row(row: Row, names: list[str]) -> str:
    lines = [(name, _number(row[name]), *map(_number, row["spread"].get(name, (None, None)))) for name in names]
    return table(("", "median", "lowest", "highest"), lines)


def _many_rows(rows: list[Row], names: list[str]) -> str:
    return table(names, [[_cell(row, name) for name in names] for row in rows])


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return ""
    if name not in row["spread"]:
        return _setting(row[name])
    lowest, highest = row["spread"][name]
    return f"{_number(row[name])} ({_number(lowest)} to {_number(highest)})"


def _setting(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    for scale, unit in _SCALES:
        if abs(value) >= scale:
            return f"{value / scale:,.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
