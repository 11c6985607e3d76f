"""Returns at which a task counts as solved, as a command line names them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spreeze.errors import ConfigError, nearest


def parse_thresholds(words: Sequence[str], envs: Iterable[str]) -> dict[str, float]:
    """['-200'] for all environments, ['Pendulum-v1=-200', 'Hopper-v5=2500'] for one each."""
    known = list(dict.fromkeys(envs))
    thresholds: dict[str, float] = {}
    for text in words:
        env, _, value = text.rpartition("=")
        if env and env not in known:
            raise ConfigError(f"--threshold {text}: {env!r} is none of the environments here.{nearest(env, known)}")
        try:
            level = float(value)
        except ValueError:
            level = float("nan")
        if not math.isfinite(level):
            raise ConfigError(f"--threshold {text}: expected a return such as -200, or ENV=RETURN")
        thresholds |= {env: level} if env else dict.fromkeys(known, level)
    return thresholds
