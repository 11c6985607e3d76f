"""A study's table as Markdown, and its plots."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spreeze.bench.study.rows import Row

_COLUMNS = (
    ("solved_at_s", "time to solve, s", "{:.1f}"),
    ("best_return", "best return", "{:,.0f}"),
    ("sample_hz", "env steps/s", "{:,.0f}"),
    ("update_hz", "updates/s", "{:,.0f}"),
    ("update_frames_hz", "update frames/s", "{:,.0f}"),
    ("transfer_hz", "drains/s", "{:,.0f}"),
    ("transfer_age_ms_p50", "age of rows, ms", "{:.3g}"),
    ("weights_age_ms_p50", "age of weights, ms", "{:.3g}"),
    ("cpu_pct", "CPU, %", "{:.0f}"),
    ("gpu_pct", "GPU, %", "{:.0f}"),
    ("cpu_s", "CPU time, s", "{:.0f}"),
    ("peak_bytes", "peak memory, MB", "{:,.0f}"),
)
_PLOTS = ("solved_at_s", "best_return", "sample_hz", "update_frames_hz", "transfer_age_ms_p50", "peak_bytes")
_BLUE, _GREY = "#0072B2", "#888888"


def write_pages(folder: Path, title: str, words: Sequence[str], rows: Sequence[Row], notes: Sequence[str]) -> None:
    machine = json.loads((folder / "study.json").read_text(encoding="utf-8"))["machine"]
    plots = draw(folder, rows)
    lines = [
        f"# {title}", "",
        f"`spreeze bench {shlex.join(words)}` on {machine['cpu_model']}, {machine['cores']} cores"
        + "".join(f", {gpu['name']}" for gpu in machine["gpus"]) + ".",
        "Medians over seeds, in brackets the lowest and the highest; a rate's are its slowest and fastest second. Time "
        "to solve includes the start-up; a dash: not within the time that a run had. Raw data: runs.jsonl and runs/.",
        "",
        *notes, *([""] if notes else []),
    ]  # fmt: skip
    for (env, what), part in _parts(rows).items():
        lines += [f"## {env}: {what}", "", *markdown_table(part), ""]
    lines += [f"![{name}]({name})" for name in plots]
    (folder / "table.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _parts(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    parts: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        parts.setdefault((row["env"], row["what"]), []).append(row)
    return parts


def markdown_table(rows: Sequence[Row]) -> list[str]:
    told = [column for column in _COLUMNS if any(row.get(column[0]) is not None for row in rows)]
    head = ["", "seeds", "solved", *(name for _, name, _ in told), ""]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        cells = [_cell(row, name, form) for name, _, form in told]
        lines.append([row["variant"], str(row["seeds"]), str(row.get("solved", "")), *cells, row.get("why", "")])
    return ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines]


def _cell(row: Row, name: str, form: str) -> str:
    value = row.get(name)
    if value is None:
        return "-" if row["seeds"] else ""
    ends = row["spread"].get(name, (value, value))
    shown, lowest, highest = (form.format(_scaled(name, number)) for number in (value, *ends))
    return shown if lowest == highest else f"{shown} ({lowest} to {highest})"


def _scaled(name: str, value: float) -> float:
    return value / 1e6 if name == "peak_bytes" else value


def draw(folder: Path, rows: Sequence[Row]) -> list[str]:
    """-> names of the files; none without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return []
    made = []
    titles = {name: title for name, title, _ in _COLUMNS}
    for name in _PLOTS:
        parts = {key: part for key, part in _parts(rows).items() if any(row.get(name) is not None for row in part)}
        if not parts:
            continue
        heights = [0.9 + 0.3 * len(part) for part in parts.values()]
        figure = Figure(figsize=(7.0, sum(heights) + 0.3), layout="constrained")
        axes = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, ((env, what), part) in zip(axes, parts.items(), strict=True):
            _draw_part(axis, part, name)
            axis.set_title(f"{env}: {what}", loc="left", fontsize=9, parse_math=False)
        axes[-1].set_xlabel(titles[name])
        figure.savefig(folder / f"{name}.png", dpi=160)
        made.append(f"{name}.png")
    return made


def _draw_part(axis: Any, rows: Sequence[Row], name: str) -> None:
    """A bar a variant, from nought to the median, with a line from the lowest to the highest; the first one blue."""
    for place, row in enumerate(rows):
        value = row.get(name)
        if value is None:
            words = " not solved" if name == "solved_at_s" and row["seeds"] else " -"
            axis.text(0, place, words, va="center", fontsize=8)
            continue
        lowest, highest = (_scaled(name, end) for end in row["spread"].get(name, (value, value)))
        axis.barh(place, _scaled(name, value), color=_BLUE if place == 0 else _GREY, height=0.6)
        axis.plot((lowest, highest), (place, place), color="black", linewidth=1)
    axis.set_yticks(range(len(rows)), [row["variant"] for row in rows], fontsize=8, parse_math=False)
    axis.tick_params(axis="x", labelsize=8)
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.axvline(0, color="black", linewidth=0.5)
