"""When a run reached a return, and what a group of runs came to. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from spreeze.errors import ConfigError, nearest
from spreeze.report.groups import Group
from spreeze.report.runs import Run


def parse_thresholds(words: Sequence[str], envs: Iterable[str]) -> dict[str, float]:
    """['-200'] for all environments, ['Pendulum-v1=-200', 'Hopper-v5=2500'] for one each."""
    known = list(dict.fromkeys(envs))
    thresholds: dict[str, float] = {}
    for text in words:
        env, _, value = text.rpartition("=")
        if env and env not in known:
            raise ConfigError(f"--threshold {text}: none of these runs is of {env!r}.{nearest(env, known)}")
        try:
            level = float(value)
        except ValueError:
            level = float("nan")
        if not np.isfinite(level):
            raise ConfigError(f"--threshold {text}: expected a return such as -200, or ENV=RETURN")
        thresholds |= {env: level} if env else dict.fromkeys(known, level)
    return thresholds


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
