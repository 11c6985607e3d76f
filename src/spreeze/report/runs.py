"""A run's folder as a report needs it: what was asked, what came of it, and its curves.

The folder is data that others may have written, and the run may have failed, been cut half-way through a line, or be
training still. What is missing is None or an empty curve; what is no document of a run is refused with one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.documents import read_document
from spreeze.errors import ConfigError
from spreeze.metrics.figures import STEADY_KEYS, WARM_UP_S
from spreeze.metrics.lines import LineTail
from spreeze.metrics.readable import one_line
from spreeze.run_folder import CONFIG_FILE, find_run

MOST_BYTES = 1 << 30  # of one file of lines; 10 hours are about 30 MB
RATE_KEYS = (*STEADY_KEYS, "staleness_updates_p50", "transfer_age_ms_p50")
NOT_ENDED = "not ended"
_LARGEST = 1e30  # of any figure; what is larger is noise that no axis can show
_LONGEST_WORD = 60
# of config.json, what does not make another experiment: the seed, the limits, and what is done beside the training
_SAME_EXPERIMENT = {
    "spreeze", "env", "spec", "auto", "adjusted", "replay_bytes", "plan", "algo", "seed", "run_dir", "steps", "seconds",
    "until_return", "visualize", "checkpoint_every", "wandb", "hang_after", "restarts_per_minute", "sampler_memory",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    path: Path
    env: str
    algo: str
    seed: str
    settings: Mapping[str, str]  # as they were asked for: 'auto' where the choice was left open
    machine: str
    versions: str
    status: str
    until_return: float | None
    evaluations: Mapping[str, np.ndarray]  # wall_s, ended_s, env_steps, return_mean: as long as one another
    rates: Mapping[str, np.ndarray]  # wall_s and RATE_KEYS, NaN where not known
    steady: Mapping[str, float | None]
    wall_s: float | None
    env_steps: float | None
    updates: float | None
    restarts: float | None
    lost_rows: float | None

    @property
    def name(self) -> str:
        return word(self.path.name)

    @property
    def best_return(self) -> float | None:
        returns = self.evaluations["return_mean"]
        return float(returns.max()) if len(returns) else None

    @property
    def final_return(self) -> float | None:
        returns = self.evaluations["return_mean"]
        return float(returns[-1]) if len(returns) else None


def read_run(given: str) -> Run:
    path = find_run(given).resolve()
    config = read_document(path / CONFIG_FILE, "the config.json of a run")
    summary = _document_or_nothing(path / "summary.json", "the summary.json of a run")
    machine = _document_or_nothing(path / "machine.json", "the machine.json of a run")
    evaluations = _read_columns(path / "eval.jsonl", ("wall_s", "env_steps", "return_mean"), also=("ended_s",))
    lines = _read_columns(path / "metrics.jsonl", ("wall_s",), also=("env_steps", "updates", "lost_rows", *RATE_KEYS))
    ended_s = evaluations["ended_s"]
    evaluations["ended_s"] = np.where(np.isnan(ended_s), evaluations["wall_s"], ended_s)
    return Run(
        path=path,
        env=word(config.get("env", "unknown")),
        algo=word(config.get("algo", "unknown")),
        seed=word(config.get("seed", "unknown")),
        settings=_settings_asked(config),
        machine=_machine_words(machine),
        versions=_version_words(machine),
        status=word(summary.get("status", NOT_ENDED)),
        until_return=number(config.get("until_return")),
        evaluations=evaluations,
        rates=lines,
        steady={key: number(summary.get(key)) if summary else _steady_of(lines, key) for key in STEADY_KEYS},
        wall_s=_total(summary, lines, "wall_s"),
        env_steps=_total(summary, lines, "env_steps"),
        updates=_total(summary, lines, "updates"),
        restarts=_sum_of(summary.get("restarts")),
        lost_rows=_total(summary, lines, "lost_rows"),
    )


def number(value: Any) -> float | None:
    """A finite number, or None for whatever else stands there."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _LARGEST else None  # NaN is not


def word(value: Any) -> str:
    """What a file names, as it may be shown: one line, not too long."""
    text = one_line(str(value)).strip() or "unknown"
    return text if len(text) <= _LONGEST_WORD else f"{text[: _LONGEST_WORD - 3]}..."


def _document_or_nothing(path: Path, what: str) -> dict[str, Any]:
    return read_document(path, what) if path.exists() else {}


def _read_columns(path: Path, needed: Sequence[str], also: Sequence[str]) -> dict[str, np.ndarray]:
    """Lines as columns, in the order of wall_s. A line without one of `needed` is left out; in `also` it has NaN."""
    if path.exists() and path.stat().st_size > MOST_BYTES:
        raise ConfigError(f"{path}: {path.stat().st_size:,} bytes; a report reads at most {MOST_BYTES:,}")
    rows = [
        [math.nan if value is None else value for value in values]
        for records in LineTail(path).read_pieces()
        for record in records
        if None not in (values := [number(record.get(key)) for key in (*needed, *also)])[: len(needed)]
    ]
    table = np.array(rows, np.float64).reshape(len(rows), len(needed) + len(also))
    table = table[np.argsort(table[:, 0], kind="stable")]
    return {key: table[:, place] for place, key in enumerate((*needed, *also))}


def _settings_asked(config: Mapping[str, Any]) -> dict[str, str]:
    auto, adjusted = config.get("auto"), config.get("adjusted")
    asked = {key: value for key, value in config.items() if key not in _SAME_EXPERIMENT}
    for key in auto if isinstance(auto, dict) else ():
        if key in asked:
            asked[key] = "auto"
    for key, change in adjusted.items() if isinstance(adjusted, dict) else ():
        if key in asked and isinstance(change, dict):
            asked[key] = change.get("asked")
    return {word(key): _setting_words(value) for key, value in asked.items()}


def _setting_words(value: Any) -> str:
    if isinstance(value, list):
        return word(",".join(map(str, value[:16])))
    return "off" if value is None or value is False else "on" if value is True else word(value)


def _machine_words(machine: Mapping[str, Any]) -> str:
    """'AMD EPYC, 2 cores' or 'NVIDIA H200, Intel Xeon, 16 cores'."""
    gpus = machine.get("gpus")
    first = gpus[0] if isinstance(gpus, list) and gpus else None
    gpu = first.get("name") if isinstance(first, dict) else first
    parts = [gpu, machine.get("cpu_model"), machine.get("cores") and f"{machine['cores']} cores"]
    return word(", ".join(str(part) for part in parts if part) or "unknown")


def _version_words(machine: Mapping[str, Any]) -> str:
    versions = machine.get("versions")
    known = versions if isinstance(versions, dict) else {}
    return ", ".join(f"{name} {word(known[name])}" for name in ("spreeze", "torch", "gymnasium") if known.get(name))


def _steady_of(lines: Mapping[str, np.ndarray], key: str) -> float | None:
    """For a run without a summary: the median of its lines, as metrics/figures.py takes it of its windows."""
    busy = lines["wall_s"][lines["updates"] > 0]
    if not len(busy):
        return None
    known = ~np.isnan(lines[key])
    for from_s in (busy[0] + WARM_UP_S, busy[0]):
        values = lines[key][known & (lines["wall_s"] > from_s)]
        if len(values):
            return float(np.median(values))
    return None


def _total(summary: Mapping[str, Any], lines: Mapping[str, np.ndarray], key: str) -> float | None:
    if (told := number(summary.get(key))) is not None:
        return told
    known = lines[key][~np.isnan(lines[key])]
    return float(known[-1]) if len(known) else None


def _sum_of(counts: Any) -> float | None:
    if not isinstance(counts, dict):
        return None
    return sum(count for value in counts.values() if (count := number(value)) is not None)
