"""What was found on this machine, kept for the next run of the same task: one small file for each machine, task,
algorithm and network, in the user's cache.

    $XDG_CACHE_HOME (or ~/.cache)/spreeze/tuned/<hash of the key>.json

It is a hint and no more: a file that is broken, of something else, or beyond what the run can do is ignored and said.
Files are put in place by rename, so runs that find something at the same time do not mix.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from spreeze import __version__
from spreeze.config import RunConfig
from spreeze.documents import read_document
from spreeze.errors import ConfigError
from spreeze.spec import EnvSpec
from spreeze.tuning.hardware import Machine
from spreeze.tuning.search import Setting, Space

_MOST_BYTES = 1 << 16
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SETTINGS = (
    "algo", "hidden", "device", "learner_threads", "samplers", "envs_per_sampler", "env_backend", "replay_ratio",
    "precision", "compile", "experience",
)  # fmt: skip


def cache_dir() -> Path:
    """Of the user; by the rule of the XDG base directories a relative path there means nothing."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".cache") / "spreeze"


class Remembered:
    """Of one kind of run, `config` resolved."""

    def __init__(
        self, config: RunConfig, spec: EnvSpec, machine: Machine, space: Space, folder: Path | None = None
    ) -> None:
        settings = config.as_json()
        self._space = space
        self._key = {
            "spreeze": __version__,
            "torch": machine.versions.get("torch"),
            "cpu": machine.cpu_model,
            "cores": machine.cores,
            "gpus": [gpu.name for gpu in machine.gpus],
            "env": [spec.env_id, spec.obs_size, spec.action_size],
            "ladder": list(space.batch_sizes),
            **{name: settings[name] for name in _SETTINGS},
        }
        digest = hashlib.sha256(json.dumps(self._key, sort_keys=True).encode()).hexdigest()
        self._path = (folder or cache_dir() / "tuned") / f"{digest[:24]}.json"

    def recall(self) -> tuple[Setting, str] | None:
        """What was found, and when; None where nothing was. Raises ConfigError with the reason to ignore it."""
        if not os.path.lexists(self._path):
            return None
        document = read_document(self._path, "what an earlier run found", _MOST_BYTES)
        if document.get("key") != self._key:
            raise ConfigError(f"{self._path}: found for another kind of run")
        samplers = _whole(document.get("samplers"), range(1, self._space.samplers + 1), self._path)
        batch_size = _whole(document.get("batch_size"), self._space.batch_sizes, self._path)
        day = str(document.get("day"))
        when = f"on {day}" if _DAY.fullmatch(day) else "earlier"
        return Setting(samplers, batch_size), f"found here {when} (--retune looks again)"

    def keep(self, setting: Setting) -> None:
        """Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "key": self._key,
            "samplers": setting.samplers,
            "batch_size": setting.batch_size,
            "day": time.strftime("%Y-%m-%d"),
        }
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            os.replace(beside, self._path)
        finally:
            beside.unlink(missing_ok=True)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _whole(value: Any, allowed: range | tuple[int, ...], path: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in allowed:
        raise ConfigError(f"{path}: {str(value)[:40]!r} is not one of {allowed}")
    return value
