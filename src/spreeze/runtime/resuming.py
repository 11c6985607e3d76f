"""What `spreeze resume` needs to know before a process starts: where the run stands, and what it goes on with."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.config import KEPT_SETTINGS, RunConfig, flag_of, load_config_file
from spreeze.documents import read_document
from spreeze.envs.kept import find_source
from spreeze.envs.source import EnvSource
from spreeze.errors import CheckpointError, ConfigError, SpreezeError
from spreeze.learner.checkpoint import Checkpoint, find_checkpoint, put_away_newer
from spreeze.roles.job import Origin
from spreeze.run_folder import CONFIG_FILE
from spreeze.runtime.history import cut_back, last_wall_s
from spreeze.spec import EnvSpec
from spreeze.weights.policy_file import POLICY_FILE, load_policy

COUNTERS = {"updates", "update_frames", "env_steps", "weights_version", "sampler_lives"}


@dataclass(frozen=True)
class Resumption:
    """A run that goes on."""

    run_dir: Path
    config: RunConfig  # as the user asks for it: 'auto' is chosen anew
    checkpoint: Checkpoint
    damages: list[str]  # of newer checkpoints that cannot be used
    resumes: int  # how often the run has been resumed, this time included
    wall_s: float  # of the run so far
    spec: dict[str, Any]  # of its environment, as its config.json has it

    @property
    def origin(self) -> Origin:
        counters = self.checkpoint.counters
        return Origin(self.checkpoint.path, counters["env_steps"], counters["updates"])

    def words(self) -> str:
        counters = self.checkpoint.counters
        rows = self.checkpoint.end_row - self.checkpoint.first_row
        return (
            f"from checkpoint {self.checkpoint.number}: {counters['env_steps']:,} env steps, "
            f"{counters['updates']:,} updates, {rows:,} rows of replay"
        )


def find_resumption(run_dir: Path, settings: Mapping[str, Any]) -> Resumption:
    """Reads and checks, and changes nothing. Raises ConfigError."""
    path = run_dir / CONFIG_FILE
    for name in settings:
        if name in KEPT_SETTINGS:
            raise ConfigError(f"{flag_of(name)} is part of what was saved and cannot change when a run goes on")
    try:
        checkpoint, damages = find_checkpoint(run_dir)
    except CheckpointError as error:
        raise ConfigError(f"{error}; start anew with: spreeze train ENV --config {path}") from None
    if missing := COUNTERS - checkpoint.counters.keys():
        raise ConfigError(
            f"{checkpoint.path}: not a checkpoint of a run, its counters lack {', '.join(sorted(missing))}"
        )
    document = read_document(path, "the config.json of a run")
    config = RunConfig.of({**_settings_of(path, document), **settings})
    resumes = document.get("resumes", 0)
    spec = document.get("spec")
    if not isinstance(resumes, int) or not isinstance(spec, dict):
        raise ConfigError(f"{path}: not the config.json of a run (no environment's description under 'spec')")
    wall_s = last_wall_s(run_dir)
    _check_limits(config, checkpoint, wall_s)
    if config.experience == "pool":
        raise ConfigError("--experience pool: samplers alone fill a pool, so it cannot be loaded; go on with ring")
    return Resumption(run_dir, config, checkpoint, damages, resumes + 1, wall_s, spec)


def _settings_of(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """As the user asked for them; as they were resolved where the run is to be the same bit for bit."""
    asked = load_config_file(path)
    if document.get("deterministic") is True:
        return {name: document[name] for name in asked if name in document}
    return asked


def find_env(run_dir: Path, env: str | Callable[[], Any] | None, trust: bool) -> EnvSource:
    if env is not None:
        return EnvSource.of(env)
    try:
        return find_source(run_dir, trust)
    except ConfigError as error:
        if "Python callable" in str(error):
            raise ConfigError(
                f"{run_dir}: its environment is not registered here. One that was given as a Python callable is not "
                "kept with a run: go on from Python with spreeze.resume(run, env=...)"
            ) from None
        raise


def check_env(resumption: Resumption, spec: EnvSpec) -> None:
    """The environment of today has the spaces that the networks and rows have."""
    had = tuple(resumption.spec.get(name) for name in ("obs_size", "action_size"))
    if had != (spec.obs_size, spec.action_size):
        raise ConfigError(
            f"{resumption.run_dir}: trained on an environment with {had[0]} numbers in an observation and {had[1]} in "
            f"an action; {spec.env_id} has {spec.obs_size} and {spec.action_size}"
        )


def make_way(resumption: Resumption) -> int:
    """Changes the folder so that the run can go on in it. -> lines that told of what is done again"""
    run_dir = resumption.run_dir
    put_away_newer(run_dir, resumption.checkpoint)
    (run_dir / "summary.json").unlink(missing_ok=True)  # of a run that has ended
    for path in (run_dir / "errors").glob("*.txt"):
        if ".before-" not in path.name:
            os.replace(path, path.with_name(f"{path.stem}.before-{resumption.resumes}.txt"))
    return cut_back(run_dir, resumption.checkpoint.counters)


def _check_limits(config: RunConfig, checkpoint: Checkpoint, wall_s: float) -> None:
    env_steps = checkpoint.counters["env_steps"]
    if config.steps is not None and env_steps >= config.steps:
        raise ConfigError(
            f"the run has reached its {config.steps:,} env steps; limits count the whole run: go on with --steps above "
            f"{env_steps}"
        )
    if config.seconds is not None and wall_s >= config.seconds:
        raise ConfigError(
            f"the run has reached its {config.seconds:g} seconds; limits count the whole run: go on with --seconds "
            f"above {wall_s:.0f}"
        )


def kept_return(run_dir: Path) -> float:
    """Of the best policy so far; where there is none, or its file is not whole, any other is better."""
    with contextlib.suppress(SpreezeError):
        value = load_policy(run_dir / POLICY_FILE).about.get("return_mean")
        if isinstance(value, (int, float)):
            return float(value)
    return -math.inf
