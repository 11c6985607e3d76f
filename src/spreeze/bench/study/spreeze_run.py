"""One run of `spreeze train` in a study, as any user would start it, and what its folder says about it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import spreeze
from spreeze.bench.run import FIGURES, WARM_UP_S
from spreeze.bench.study.programs import run_program
from spreeze.bench.study.results import Record
from spreeze.bench.study.trials import Trial
from spreeze.bench.windows import shown
from spreeze.config import flag_of

_BESIDE_S = 60.0  # beyond --seconds: then it hangs
_KEPT = ("config.json", "summary.json", "metrics.jsonl", "eval.jsonl", "events.jsonl", "log.txt", "errors")
_OF_SUMMARY = (
    "status", "reason", "wall_s", "first_update_s", "solved_at_s", "env_steps", "updates", "replay_ratio",
    "best_return", "final_return",
)  # fmt: skip
_OF_CONFIG = ("samplers", "envs_per_sampler", "batch_size", "device", "env_backend")


def run_spreeze(trial: Trial, run_dir: Path, seconds: float) -> Record:
    """-> the record of a run that may have failed or been refused."""
    shutil.rmtree(run_dir, ignore_errors=True)  # of a bench that was interrupted in it
    log = run_dir.with_name(run_dir.name + ".log")
    flags = {**trial.flags, "seed": trial.seed, "seconds": seconds, "run_dir": run_dir}
    words = [word for name, value in flags.items() for word in _words_of(name, value)]
    command = [sys.executable, "-P", "-m", "spreeze", "train", trial.env, "--quiet", *words]
    source = str(Path(spreeze.__file__).resolve().parent.parent)
    places = os.pathsep.join([source, *(place for place in sys.path if place)])
    ended = run_program(command, log, seconds + _BESIDE_S, {**os.environ, "PYTHONPATH": places})
    record: Record = {
        **trial._asdict(), "key": trial.key, "seconds": seconds, "exit_code": ended.exit_code,
        "took_s": round(ended.took_s, 2), "cpu_s": round(ended.cpu_s, 2), "peak_bytes": ended.peak_bytes,
    }  # fmt: skip
    if (run_dir / "summary.json").is_file():
        record |= read_run(run_dir)
        _keep_the_figures(run_dir)
        log.unlink(missing_ok=True)
        return record
    return {**record, "status": "refused" if ended.exit_code == 2 else "failed", "reason": _last_words(log)}


def _words_of(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [flag_of(name)]
    shown_value = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return [f"{flag_of(name)}={shown_value}"]  # one word: a value may begin with a minus


def read_run(run_dir: Path) -> Record:
    summary = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
    config = json.loads((run_dir / "config.json").read_text(encoding="utf-8"))
    with open(run_dir / "metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    steady = steady_part(lines, summary["first_update_s"])
    return {
        **{name: summary[name] for name in _OF_SUMMARY},
        "settings": {name: config[name] for name in _OF_CONFIG},
        "windows": len(steady),
        "figures": {name: values for name in FIGURES if (values := _spread_of(steady, name)) is not None},
    }


def steady_part(lines: list[dict[str, Any]], first_update_s: float | None) -> list[dict[str, Any]]:
    """Seconds after the warm-up; without the last one, in which the run was being stopped."""
    if first_update_s is None:
        return []
    since = first_update_s + WARM_UP_S
    return [line for line, before in zip(lines[1:-1], lines[:-2], strict=True) if before["wall_s"] >= since]


def _spread_of(lines: Sequence[Mapping[str, Any]], name: str) -> list[float | None] | None:
    """Lowest, median and highest second."""
    values = [line[name] for line in lines if line.get(name) is not None]
    return [shown(min(values)), shown(median(values)), shown(max(values))] if values else None


def _keep_the_figures(run_dir: Path) -> None:
    for path in run_dir.iterdir():
        if path.name not in _KEPT:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
    return lines[-1][-300:] if lines else "it left no message"
