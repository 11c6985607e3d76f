"""`spreeze bench ablation [ENV...] [flags of train]`: whole runs, each with one thing changed, side by side.

    --what       questions, several with commas (study/questions.py), or all
    --budget     seconds of wall-clock for all runs together; each gets the same time, and a solved one ends sooner
    --threshold  the return at which a task is solved: -200, or Pendulum-v1=-200,Hopper-v5=2500 for one each
    --out        the results folder: raw data, table, plots. Started again with the same words, it goes on where it was

Runs follow one another, seed by seed, so that an early end leaves all variants equally often.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.bench.options import fields_of, parse_options, several, split_words
from spreeze.bench.study.pages import write_pages
from spreeze.bench.study.questions import QUESTIONS
from spreeze.bench.study.results import Record, Results
from spreeze.bench.study.rows import rows_of
from spreeze.bench.study.spreeze_run import run_spreeze
from spreeze.bench.study.trials import Trial, seconds_for_each, trials_of, with_measured_ratio
from spreeze.bench.windows import document
from spreeze.config import RunConfig, one_of, or_none, positive, setting, text, whole
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource
from spreeze.thresholds import parse_thresholds

ALL = "all"
_LATE_SHARE = 1.02  # of the budget: beyond it no run is begun
RunTrial = Callable[[Trial, Path, float], Record]


@dataclass(frozen=True)
class AblationOptions:
    what: tuple[str, ...] = setting(("components",), several(one_of(*QUESTIONS, ALL)), "the questions, or all")
    seeds: int = setting(3, whole(1, 100), "runs of each variant, with seeds from 0 on")
    budget: float = setting(3600.0, positive(), "seconds for all runs together")
    threshold: str | None = setting(None, or_none(text), "the return at which a task is solved: R, or ENV=R,ENV=R")
    out: str = setting("runs/ablation", text, "the results folder")


def run(words: list[str]) -> dict[str, Any]:
    envs, options, flags = read_ablation(words)
    for env in envs:
        probe(EnvSource.of(env))  # a name that does not exist is refused before the first run
    return ablate(["ablation", *words], envs, options, flags, run_spreeze)


def read_ablation(words: list[str]) -> tuple[list[str], AblationOptions, dict[str, Any]]:
    """-> environments, flags of the bench, and those of train, which hold for all runs."""
    own = fields_of(AblationOptions)
    of_bench = ("seed", "seconds", "run_dir", "until_return")
    of_train = {name: field for name, field in fields_of(RunConfig).items() if name not in of_bench}
    envs, given = split_words("ablation", words, {**of_train, **own})
    flags = {name: value for name, value in given.items() if name in of_train}
    RunConfig.of(flags)  # refused here and not by every run
    options = parse_options(AblationOptions, {name: value for name, value in given.items() if name in own})
    return list(dict.fromkeys(envs)) or ["Pendulum-v1"], options, flags


def thresholds_of(told: str | None, envs: list[str]) -> dict[str, float]:
    return parse_thresholds(told.split(",") if told else (), envs)


def ablate(
    words: list[str], envs: list[str], options: AblationOptions, flags: dict[str, Any], run_trial: RunTrial
) -> dict[str, Any]:
    """`run_trial` makes one run. Ctrl-C between two runs, or within one, loses that one alone."""
    chosen = QUESTIONS if ALL in options.what else {name: QUESTIONS[name] for name in options.what}
    until = {env: {"until_return": level} for env, level in thresholds_of(options.threshold, envs).items()}
    trials = trials_of(envs, chosen, range(options.seeds), flags, until)
    seconds = seconds_for_each(options.budget, len(trials))
    settings = {"envs": envs, **dataclasses.asdict(options), "flags": flags}
    asked = {**settings, "seconds": seconds, "bench": "ablation"}
    del asked["out"]  # a folder may be moved
    results = Results(Path(options.out).expanduser(), asked)
    left_out = make_runs(trials, results, seconds, options.budget, run_trial)
    rows = rows_of([record for record in results.records if "env" in record])
    write_pages(results.folder, "Ablation", words, rows, notes_on(left_out))
    return document("ablation", {**settings, "seconds": seconds, "left_out": [t.key for t in left_out]}, rows)


def make_runs(
    trials: list[Trial], results: Results, seconds: float, budget_s: float, run_trial: RunTrial
) -> list[Trial]:
    """-> those for which no time was left."""
    left_out: list[Trial] = []
    first: dict[tuple[str, str, int], Record] = {}
    for number, trial in enumerate(trials, 1):
        record = results.find(trial.key)
        if record is None:
            if results.spent_s + seconds > budget_s * _LATE_SHARE:
                left_out.append(trial)
                continue
            print(f"{number} of {len(trials)}: {trial.env}, {trial.variant}, seed {trial.seed}", file=sys.stderr)
            ready = with_measured_ratio(trial, first.get((trial.env, trial.what, trial.seed)))
            if ready is None:
                record = _without_a_ratio(trial)
            else:  # under the name of what was planned, which is known before the ratio is
                record = {**run_trial(ready, results.run_dir(trial.key), seconds), "key": trial.key}
            results.add(record)
        first.setdefault((trial.env, trial.what, trial.seed), record)
    return left_out


def _without_a_ratio(trial: Trial) -> Record:
    reason = "the first variant's run came to no ratio that could be held"
    return {**trial._asdict(), "key": trial.key, "took_s": 0.0, "status": "failed", "reason": reason}


def notes_on(left_out: list[Trial]) -> list[str]:
    if not left_out:
        return []
    names = ", ".join(f"{trial.variant} (seed {trial.seed})" for trial in left_out)
    return [f"Left out, because the time was used up: {names}."]
