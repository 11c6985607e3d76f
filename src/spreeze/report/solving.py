"""When a run reached a return, and what a group of runs came to. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

import numpy as np

from spreeze.report.groups import Group
from spreeze.report.runs import Run


def threshold_of(group: Group, given: Mapping[str, float]) -> float | None:
    """What was given, else the return at which the runs themselves were to stop, where they agree on one."""
    if group.env in given:
        return given[group.env]
    asked = {run.until_return for run in group.runs}
    return asked.pop() if len(asked) == 1 else None


def solved_at_s(run: Run, threshold: float) -> float | None:
    """When the first evaluation that reached the threshold had ended, on the clock that started with the command."""
    reached = np.flatnonzero(run.evaluations["return_mean"] >= threshold)
    return float(run.evaluations["ended_s"][reached[0]]) if len(reached) else None


def middle_and_ends(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Median, lowest, highest of what is known."""
    known = [value for value in values if value is not None]
    return (statistics.median(known), min(known), max(known)) if known else None
