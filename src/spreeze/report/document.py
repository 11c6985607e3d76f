"""A report: a folder with report.md, report.json and its plots."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spreeze import __version__
from spreeze.errors import ConfigError, SpreezeError
from spreeze.metrics.figures import STEADY_KEYS
from spreeze.report.groups import Group, group_runs
from spreeze.report.page import TITLES, render_page
from spreeze.report.plots import Plots, load_matplotlib
from spreeze.report.runs import Run, read_run
from spreeze.report.solving import middle_and_ends, solved_at_s, threshold_of
from spreeze.thresholds import parse_thresholds

REPORTS = Path("reports")
_MOST_NAMES = 1000


def write_report(
    runs: Sequence[str], out: str | None, title: str | None, thresholds: Sequence[str], plots: bool
) -> dict[str, Any]:
    """Reads first, and makes the folder only then: a mistake leaves nothing behind. -> what report.json holds"""
    if plots:
        load_matplotlib()
    read = list({run.path: run for run in map(read_run, runs)}.values())  # a run that was named twice counts once
    groups = group_runs(read)
    goals = parse_thresholds(thresholds, (run.env for run in read))
    document = _document(groups, goals, title or _title_of(groups))
    folder = _make_folder(out)
    captions = _draw(Plots(folder, groups, goals)) if plots else {}
    document |= {
        "folder": str(folder),
        "page": str(folder / "report.md"),
        "plots": [f"{name}.png" for name in captions],
    }
    _write(folder / "report.md", render_page(document, captions))
    _write(folder / "report.json", json.dumps(document, indent=2) + "\n")
    return document


def _draw(plots: Plots) -> dict[str, str]:
    """Name of each plot that there are figures for, and its caption."""
    drawn = ((name, getattr(plots, name)()) for name in TITLES)
    return {name: caption for name, caption in drawn if caption is not None}


def _document(groups: Sequence[Group], goals: Mapping[str, float], title: str) -> dict[str, Any]:
    return {
        "title": title,
        "spreeze": __version__,
        "made_at": time.strftime("%Y-%m-%d %H:%M"),
        "groups": [_group_figures(group, threshold_of(group, goals)) for group in groups],
        "runs": [_run_figures(run, group, threshold_of(group, goals)) for group in groups for run in group.runs],
    }


def _group_figures(group: Group, goal: float | None) -> dict[str, Any]:
    times = [] if goal is None else [solved_at_s(run, goal) for run in group.runs]
    first = group.runs[0]
    return {
        "env": group.env,
        "label": group.label,
        "runs": [run.name for run in group.runs],
        "threshold": goal,
        "solved": sum(at_s is not None for at_s in times),
        "time_to_solve_s": middle_and_ends(times),  # here and below: median, lowest, highest
        "best_return": middle_and_ends(run.best_return for run in group.runs),
        "final_return": middle_and_ends(run.final_return for run in group.runs),
        **{key: middle_and_ends(run.steady[key] for run in group.runs) for key in STEADY_KEYS},
        "machines": list(dict.fromkeys((run.machine, run.versions) for run in group.runs)),
        "settings": dict(first.settings),
    }


def _run_figures(run: Run, group: Group, goal: float | None) -> dict[str, Any]:
    return {
        "name": run.name,
        "path": str(run.path),
        "env": run.env,
        "group": group.label,
        "seed": run.seed,
        "status": run.status,
        "wall_s": run.wall_s,
        "env_steps": run.env_steps,
        "updates": run.updates,
        "evaluations": len(run.evaluations["return_mean"]),
        "solved_at_s": None if goal is None else solved_at_s(run, goal),
        "best_return": run.best_return,
        "final_return": run.final_return,
        **run.steady,
        "restarts": run.restarts,
        "lost_rows": run.lost_rows,
    }


def _title_of(groups: Sequence[Group]) -> str:
    return ", ".join(dict.fromkeys(group.env for group in groups))


def _make_folder(out: str | None) -> Path:
    """The one that was named, made or used again; else a new one."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        if out is not None:
            folder = Path(out).expanduser()
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        for attempt in range(1, _MOST_NAMES):
            folder = REPORTS / (stamp if attempt == 1 else f"{stamp}-{attempt}")
            folder.parent.mkdir(exist_ok=True)
            if not folder.exists():
                folder.mkdir()
                return folder
    except OSError as error:
        raise ConfigError(
            f"--out {out or REPORTS}: cannot be made ({error.strerror}); name a folder with --out"
        ) from None
    raise ConfigError(f"{REPORTS}: {_MOST_NAMES} reports of this second exist; name a folder with --out")


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.writing")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise SpreezeError(f"{path}: could not be written ({error.strerror})") from error
