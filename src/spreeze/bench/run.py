"""`spreeze bench run ENV [flags of train]`: a whole training run, all roles alive, as its own metrics.jsonl tells it.

A window is a line of metrics.jsonl (one second), after the warm-up. With --alone the same settings are then measured
apart, each with the machine to itself: share_of_raw is sample_hz over the rate of raw stepping, share_of_learner is
update_hz over that of the lone learner. They come right after the run and not between its windows, so a machine whose
speed drifts shows in them.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.bench.folder import BENCH_DIR, bench_folder
from spreeze.bench.options import Fields, fields_of, parse_options, split_words, the_env
from spreeze.bench.windows import LEAST_WINDOWS, Windows, document, shown
from spreeze.config import RunConfig, setting, switch, text
from spreeze.errors import ConfigError, RunFailed
from spreeze.resolve import Resolved
from spreeze.spec import EnvSpec

FIGURES = (
    "sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "transfer_hz", "transfer_age_ms_p50",
    "transfer_age_ms_p95", "weights_age_ms_p50", "weights_age_ms_p95", "staleness_updates_p50", "staleness_updates_p95",
    "cpu_pct", "gpu_pct", "rss_bytes", "gpu_bytes",
)  # fmt: skip
_SETTINGS = (
    "algo", "samplers", "envs_per_sampler", "env_backend", "batch_size", "replay_ratio", "device", "learner_threads",
    "precision", "compile", "weights", "hidden",
)  # fmt: skip
ADAPTED = ("samplers", "batch_size")  # may change while a run goes on
WARM_UP_S = 3.0  # after the first update, as in summary.json
DEFAULT_SECONDS = 30.0
_ALONE_SECONDS = 1.0


@dataclass(frozen=True)
class RunOptions:
    alone: bool = setting(False, switch, "also measure raw stepping and the learner by themselves")
    dir: str = setting(BENCH_DIR, text, "where the run's folder lies meanwhile")


def run(words: list[str]) -> dict[str, Any]:
    env_id, config, options = read_run_options(words)
    with bench_folder(options.dir, "run") as folder:
        run_dir = folder / "run"
        _train(env_id, config.replace(run_dir=str(run_dir)))
        asked, lines = _read_json(run_dir / "config.json"), steady_lines(run_dir)
    windows = Windows()
    for line in lines:
        windows.add(**{name: line[name] for name in FIGURES if line[name] is not None})
    in_force = {name: lines[-1][name] for name in ADAPTED}
    row = windows.row({"env": env_id, **{name: asked[name] for name in _SETTINGS}, **in_force})
    if options.alone:
        row = with_shares_of_alone(env_id, asked, row)
    return document("run", {"env": env_id, **config.as_json(), **dataclasses.asdict(options)}, [row])


def read_run_options(words: list[str]) -> tuple[str, RunConfig, RunOptions]:
    """Flags of train and flags of this bench, in any order."""
    own, of_train = fields_of(RunOptions), _train_fields()
    positional, given = split_words("run", words, {**of_train, **own})
    options = parse_options(RunOptions, {name: value for name, value in given.items() if name in own})
    config = RunConfig.of({"seconds": DEFAULT_SECONDS, **{n: v for n, v in given.items() if n in of_train}})
    return the_env("run", positional), config, options


def _train_fields() -> Fields:
    return {name: field for name, field in fields_of(RunConfig).items() if name != "run_dir"}


def _train(env_id: str, config: RunConfig) -> None:
    from spreeze.runtime.supervisor import train

    result = train(env_id, config, quiet=True)
    if result.status == "stopped":
        raise KeyboardInterrupt
    if result.status == "failed":
        raise RunFailed(f"the run failed: {result.summary['reason']}")


def steady_lines(run_dir: Path) -> list[dict[str, Any]]:
    """Without the warm-up, without what came before the latest change of settings, and without the last line, in which
    the run was being stopped."""
    with open(run_dir / "metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    first_update_s = _read_json(run_dir / "summary.json")["first_update_s"]
    since = math.inf if first_update_s is None else first_update_s + WARM_UP_S
    # a line's window began a second before it was written
    steady: list[dict[str, Any]] = []
    for line, before in zip(lines[1:-1], lines[:-2], strict=True):
        if [line[name] for name in ADAPTED] != [before[name] for name in ADAPTED]:
            steady.clear()
        elif before["wall_s"] >= since:
            steady.append(line)
    if len(steady) < LEAST_WINDOWS:
        raise ConfigError(
            f"bench run: {len(steady)} steady seconds, expected at least {LEAST_WINDOWS}; the first update "
            f"came after {first_update_s} s and {WARM_UP_S:g} s more are warm-up: give a larger --seconds"
        )
    return steady


def with_shares_of_alone(env_id: str, resolved: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """`resolved`: the run's config.json. The shares' spread is that of the run's windows."""
    from spreeze.bench.learner import measure as measure_learner
    from spreeze.bench.sampling import measure_raw

    raw = measure_raw(
        env_id, resolved["env_backend"], resolved["samplers"], resolved["envs_per_sampler"], _ALONE_SECONDS
    )
    config = RunConfig.of({name: resolved[name] for name in fields_of(RunConfig)})
    lone = measure_learner(
        Resolved(config, EnvSpec.from_json(resolved["spec"]), auto={}), _ALONE_SECONDS, LEAST_WINDOWS
    )
    return {
        **row,
        "raw_hz": raw["raw_hz"],
        "share_of_raw": shown(row["sample_hz"] / raw["raw_hz"]),
        "lone_update_hz": lone["update_hz"],
        "share_of_learner": shown(row["update_hz"] / lone["update_hz"]),
        "spread": {
            **row["spread"],
            "raw_hz": raw["spread"]["raw_hz"],
            "share_of_raw": [shown(hz / raw["raw_hz"]) for hz in row["spread"]["sample_hz"]],
            "lone_update_hz": lone["spread"]["update_hz"],
            "share_of_learner": [shown(hz / lone["update_hz"]) for hz in row["spread"]["update_hz"]],
        },
    }


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
