"""The Markdown of a report. Pure: groups, figures and captions in, text out. Names from files show as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spreeze.metrics.readable import UNKNOWN, score, short, whole

TITLES = {
    "return_over_time": "Return over time",
    "return_over_steps": "Return over env steps",
    "time_to_solve": "Time to solve",
    "throughput": "Throughput",
    "rates_over_time": "Rates over time",
}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")


def render_page(document: Mapping[str, Any], captions: Mapping[str, str]) -> str:
    parts = [f"# {plain(document['title'])}", _about(document), "## Results", _groups_table(document["groups"])]
    parts.append(_results_words(document["groups"]))
    for name, caption in captions.items():
        parts += [f"## {TITLES[name]}", f"![{TITLES[name]}]({name}.png)", caption]
    parts += ["## Runs", _runs_table(document["runs"]), "## Machines and settings", _settings(document["groups"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    return _SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def _about(document: Mapping[str, Any]) -> str:
    runs = document["runs"]
    return f"{len(runs)} run{'s' * (len(runs) != 1)}; made by Spreeze {document['spreeze']} at {document['made_at']}."


def _groups_table(groups: Sequence[Mapping[str, Any]]) -> str:
    columns = (
        "environment", "group", "runs", "solved", "time to solve (s)", "best return", "final return", "env steps/s",
        "updates/s", "update frames/s", "replay ratio",
    )  # fmt: skip
    rows = [
        [
            plain(group["env"]),
            plain(group["label"]),
            str(len(group["runs"])),
            _solved_words(group),
            _span(group["time_to_solve_s"], seconds),
            _span(group["best_return"], score),
            _span(group["final_return"], score),
            *(_span(group[key], short) for key in ("sample_hz", "update_hz", "update_frames_hz", "replay_ratio")),
        ]
        for group in groups
    ]
    return table(columns, rows, words=2)


def _results_words(groups: Sequence[Mapping[str, Any]]) -> str:
    words = ["Runs that differ in nothing but their seed are one group."]
    if any(len(group["runs"]) > 1 for group in groups):
        words.append("Of several runs: the median, and (lowest to highest).")
    words.append(
        "Returns are means over the episodes of an evaluation, without exploration. Rates are a run's steady ones: "
        "medians over its seconds, from 3 s after the first updates. Update frames are updates x batch size; the "
        "replay ratio is update frames per env step."
    )
    if any(group["threshold"] is not None for group in groups):
        words.append(
            "Time to solve: from the command, start-up included, until the first evaluation with at least that return "
            "had ended; over the runs that solved it."
        )
    return " ".join(words)


def _runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    columns = (
        "run", "environment", "group", "seed", "status", "time (s)", "env steps", "updates", "best return",
        "final return", "restarts", "lost rows",
    )  # fmt: skip
    rows = [
        [
            *(plain(str(run[key])) for key in ("name", "env", "group", "seed", "status")),
            seconds(run["wall_s"]),
            whole(run["env_steps"]),
            whole(run["updates"]),
            score(run["best_return"]),
            score(run["final_return"]),
            whole(run["restarts"]),
            whole(run["lost_rows"]),
        ]
        for run in runs
    ]
    return table(columns, rows, words=5)


def _settings(groups: Sequence[Mapping[str, Any]]) -> str:
    """What all groups share once, and for each group what is its own."""
    first = groups[0]["settings"]
    shared = {name: value for name, value in first.items() if all(g["settings"].get(name) == value for g in groups)}
    lines = [f"- All: {_setting_words(shared)}"]
    for group in groups:
        own = {name: value for name, value in group["settings"].items() if name not in shared}
        machines = "; ".join(plain(", ".join(part for part in machine if part)) for machine in group["machines"])
        words = f". {_setting_words(own)}" if own else ""
        lines.append(f"- **{plain(group['env'])}: {plain(group['label'])}**, on {machines}{words}")
    return "\n".join(lines)


def _setting_words(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{plain(name)} {plain(value)}" for name, value in settings.items())


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A Markdown table; the first `words` columns stand left, figures right."""
    rule = ["---" if place < words else "---:" for place in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rule, *rows))


def _solved_words(group: Mapping[str, Any]) -> str:
    if group["threshold"] is None:
        return UNKNOWN
    return f"{group['solved']} of {len(group['runs'])} at {score(group['threshold'])}"


def _span(values: Sequence[float] | None, words: Callable[[float | None], str]) -> str:
    if values is None:
        return UNKNOWN
    middle, low, high = map(words, values)
    return middle if low == high else f"{middle} ({low} to {high})"


def seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}"
