"""Runs that differ in nothing but their seed are one group. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spreeze.report.runs import Run

UNSET = "not set"  # a setting that another version of Spreeze did not have


@dataclass(frozen=True)
class Group:
    """`label` says what sets the group apart from the other groups of its environment."""

    env: str
    label: str
    runs: tuple[Run, ...]


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """In the order in which their first runs were given."""
    grouped: dict[tuple[str, str], list[Run]] = {}
    differing = {env: _differing_settings([run for run in runs if run.env == env]) for env in {run.env for run in runs}}
    several_machines = {env: len({run.machine for run in runs if run.env == env}) > 1 for env in differing}
    for run in runs:
        words = [run.algo, *(f"{name} {run.settings.get(name, UNSET)}" for name in differing[run.env])]
        if several_machines[run.env]:
            words.append(run.machine)
        grouped.setdefault((run.env, ", ".join(words)), []).append(run)
    return [Group(env, label, tuple(members)) for (env, label), members in grouped.items()]


def _differing_settings(runs: Sequence[Run]) -> list[str]:
    """Names of the settings in which runs of one algorithm differ."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    algos = {run.algo for run in runs}
    return [name for name in names if any(len(_values(runs, algo, name)) > 1 for algo in algos)]


def _values(runs: Sequence[Run], algo: str, name: str) -> set[str]:
    return {run.settings.get(name, UNSET) for run in runs if run.algo == algo}
