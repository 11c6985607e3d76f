"""From records of runs to rows: one for every environment and variant, over its seeds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from spreeze.bench.study.results import Record

Row = dict[str, Any]
_TIMES = ("solved_at_s", "best_return", "took_s", "cpu_s", "peak_bytes", "env_steps", "updates")


def rows_of(records: Sequence[Record]) -> list[Row]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["env"], record["what"], record["variant"]), []).append(record)
    return [_row(*named, group) for named, group in groups.items()]


def _row(env: str, what: str, variant: str, records: list[Record]) -> Row:
    """A figure's value is the median over seeds of a run's median, its spread the lowest and the highest second of
    all; a run that was not solved in its time counts as slower than all that were."""
    ran = [record for record in records if record["status"] not in ("refused", "failed")]
    row: Row = {"env": env, "what": what, "variant": variant, "seeds": len(ran)}
    spread: dict[str, list[Any]] = {}
    if not ran:
        return {**row, "why": records[-1]["reason"], "windows": 0, "spread": spread}
    solved = [record["solved_at_s"] for record in ran]
    row["solved"] = sum(at is not None for at in solved)
    for name in _TIMES:
        values = solved if name == "solved_at_s" else [record.get(name) for record in ran]
        row[name] = median_or_none(values)
        known = [value for value in values if value is not None]
        if known:
            spread[name] = [min(known), max(known)]
    for name in dict.fromkeys(name for record in ran for name in record.get("figures", {})):
        parts = [record["figures"][name] for record in ran if name in record["figures"]]
        row[name] = median(part[1] for part in parts)
        spread[name] = [min(part[0] for part in parts), max(part[2] for part in parts)]
    # a figure that no median stands behind has no spread either
    spread = {name: ends for name, ends in spread.items() if row[name] is not None}
    failed = [record for record in records if record not in ran]
    if failed:
        row["why"] = f"{len(failed)} more failed: {failed[-1]['reason']}"
    return {**row, "windows": sum(record.get("windows", 0) for record in ran), "spread": spread}


def median_or_none(values: Sequence[float | None]) -> float | None:
    """None stands for more than any number; so does the median, where it falls on one."""
    whole = sorted(float("inf") if value is None else value for value in values)
    middle = median(whole) if whole else float("inf")
    return None if middle == float("inf") else middle
