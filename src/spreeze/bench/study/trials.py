"""Which runs a study is made of, in which order, and how long each may take. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spreeze.bench.study.questions import RATIO_OF_THE_FIRST, Question
from spreeze.errors import ConfigError

LEAST_TRIAL_S = 10.0  # below it a run is all start-up
_STOPPING_S = 5.0  # of a trial's time: ending a run, saving, and reading what it left


class Trial(NamedTuple):
    """One run. `variant`: of Spreeze, or the name of a peer."""

    env: str
    what: str
    variant: str
    seed: int
    flags: dict[str, Any]

    @property
    def key(self) -> str:
        """Names its folder, and the record of it that a later start finds. Other flags are another trial."""
        words = "-".join(
            re.sub(r"[^a-z0-9.]+", "_", str(word).lower()).strip("_")
            for word in (self.env, self.what, self.variant, f"seed{self.seed}")
        )
        return f"{words}-{hashlib.sha256(json.dumps(self.flags, sort_keys=True).encode()).hexdigest()[:6]}"


def trials_of(
    envs: Sequence[str],
    questions: Mapping[str, Question],
    seeds: Iterable[int],
    flags: Mapping[str, Any],
    env_flags: Mapping[str, Mapping[str, Any]],
) -> list[Trial]:
    """Seed by seed, so that a budget that ends too early has all variants equally often."""
    return [
        Trial(env, what, variant.name, seed, {**flags, **env_flags.get(env, {}), **variant.flags})
        for seed in seeds
        for env in envs
        for what, question in questions.items()
        for variant in question.variants
    ]


def seconds_for_each(budget_s: float, count: int) -> float:
    """-> --seconds of every run. Raises ConfigError where the budget is too small for all of them."""
    share = budget_s / count
    if share < LEAST_TRIAL_S + _STOPPING_S:
        needed = count * (LEAST_TRIAL_S + _STOPPING_S)
        raise ConfigError(
            f"--budget {budget_s:g}: {count} runs of {share:.1f} s each say nothing, expected at least "
            f"{LEAST_TRIAL_S + _STOPPING_S:g} s a run; give {needed:g}, fewer --seeds, or another --what"
        )
    return round(share - _STOPPING_S, 1)


def with_measured_ratio(trial: Trial, first: Mapping[str, Any] | None) -> Trial | None:
    """`first`: the record of the first variant's run with the same seed. None: without it, this one cannot be made."""
    if trial.flags.get("replay_ratio") != RATIO_OF_THE_FIRST:
        return trial
    ratio = None if first is None else first.get("replay_ratio")
    return trial._replace(flags={**trial.flags, "replay_ratio": ratio}) if ratio else None
