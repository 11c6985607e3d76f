"""`spreeze bench compare ENV --threshold R`: Spreeze beside its peers, on the same task, judged alike.

    --peers    names with commas, all that have an adapter (all), or none
    --seconds  that a run has at most, start-up included; a solved one ends sooner
    --cores    that each program may use: the same ones for all
    --out      the results folder; started again with the same words, it goes on where it was

Programs run one after the other, each with the machine to itself. A peer has an adapter and pinned requirements in
benchmarks/peers and an environment of its own that `make peers` makes in .peers; one that is not installed, or fails,
is a row that says why. How a peer is judged: benchmarks/peers/protocol.py. Evaluations are not counted in its time;
Spreeze has a process for them, and its time is that of the evaluation's end. A peer's clock begins before its program
does; Spreeze's is that of its summary.json, which counts the CPU time of its start.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from spreeze.bench.options import fields_of, parse_options, split_words, the_env
from spreeze.bench.study.pages import write_pages
from spreeze.bench.study.programs import run_program
from spreeze.bench.study.results import Record, Results
from spreeze.bench.study.rows import rows_of
from spreeze.bench.study.spreeze_run import run_spreeze
from spreeze.bench.study.trials import Trial
from spreeze.bench.windows import document
from spreeze.config import RunConfig, or_none, positive, real, setting, text, whole
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource
from spreeze.errors import ConfigError, nearest

ALL, NONE = "all", "none"
SPREEZE = "spreeze"
EPISODES = 10  # of an evaluation, for all
_BESIDE_S = 120.0  # beyond twice --seconds (evaluations are not counted, and take no more than training does)
RunTrial = Callable[[Trial, Path, float], Record]


@dataclass(frozen=True)
class CompareOptions:
    threshold: float | None = setting(None, or_none(real()), "the return of an evaluation at which the task is solved")
    seeds: int = setting(3, whole(1, 100), "runs of each, with seeds from 0 on")
    seconds: float = setting(300.0, positive(), "that a run has at most, start-up included")
    eval_every: float = setting(1.0, positive(), "seconds of training between evaluations")
    peers: str = setting(ALL, text, "names with commas, all, or none")
    cores: int | None = setting(None, or_none(whole(1, 4096)), "that each program may use (default: all)")
    peers_dir: str = setting("benchmarks/peers", text, "where adapters lie")
    venvs_dir: str = setting(".peers", text, "where their environments lie")
    out: str = setting("runs/compare", text, "the results folder")


def run(words: list[str]) -> dict[str, Any]:
    env, options, flags = read_compare(words)
    probe(EnvSource.of(env))
    with only_cores(options.cores):
        return compare(["compare", *words], env, options, flags, run_spreeze, PeerRuns(options))


def read_compare(words: list[str]) -> tuple[str, CompareOptions, dict[str, Any]]:
    """-> environment, flags of the bench, and those of train, which hold for Spreeze."""
    own = fields_of(CompareOptions)
    of_bench = ("seed", "seconds", "run_dir", "until_return", "eval_every", "eval_episodes")
    of_train = {name: field for name, field in fields_of(RunConfig).items() if name not in of_bench}
    positional, given = split_words("compare", words, {**of_train, **own})
    flags = {name: value for name, value in given.items() if name in of_train}
    RunConfig.of(flags)
    options = parse_options(CompareOptions, {name: value for name, value in given.items() if name in own})
    if options.threshold is None:
        raise ConfigError("bench compare: --threshold is missing: the return at which the task counts as solved")
    return the_env("compare", positional), options, flags


def peers_of(told: str, peers_dir: Path) -> list[str]:
    known = sorted(path.stem for path in peers_dir.glob("*.txt"))  # each has its pinned requirements
    if told == NONE:
        return []
    if told == ALL:
        return known
    for name in told.split(","):
        if name not in known:
            raise ConfigError(f"--peers {name}: there is no {peers_dir / name}.py.{nearest(name, known)}")
    return told.split(",")


def compare(
    words: list[str], env: str, options: CompareOptions, flags: dict[str, Any], ours: RunTrial, theirs: RunTrial
) -> dict[str, Any]:
    peers = peers_of(options.peers, Path(options.peers_dir))
    asked = {**dataclasses.asdict(options), "bench": "compare", "env": env, "flags": flags, "peers": peers}
    del asked["out"]
    results = Results(Path(options.out).expanduser(), asked)
    judged = {"until_return": options.threshold, "eval_every": options.eval_every, "eval_episodes": EPISODES}
    what = f"to a return of {options.threshold:g}"
    for seed in range(options.seeds):
        for name in (SPREEZE, *peers):
            trial = Trial(env, what, name, seed, {**flags, **judged} if name == SPREEZE else judged)
            if results.find(trial.key) is None:
                print(f"{env}, {name}, seed {seed}", file=sys.stderr)
                make = ours if name == SPREEZE else theirs
                results.add(make(trial, results.run_dir(trial.key), options.seconds))
    rows = rows_of(results.records)
    write_pages(results.folder, "Comparison", words, rows, [])
    return document("compare", asked, rows)


class PeerRuns:
    """Runs a peer's adapter with the Python of its own environment."""

    def __init__(self, options: CompareOptions) -> None:
        self._adapters, self._venvs = Path(options.peers_dir).absolute(), Path(options.venvs_dir).absolute()

    def __call__(self, trial: Trial, run_dir: Path, seconds: float) -> Record:
        record: Record = {**trial._asdict(), "key": trial.key, "seconds": seconds, "took_s": 0.0}
        python = self._venvs / trial.variant / "bin" / "python"
        if not python.is_file():
            return {**record, "status": "refused", "reason": f"not installed: make peers PEERS={trial.variant}"}
        told = {
            "env": trial.env, "seed": trial.seed, "seconds": seconds, "threshold": trial.flags["until_return"],
            "eval_every": trial.flags["eval_every"], "episodes": trial.flags["eval_episodes"],
        }  # fmt: skip
        lines = run_dir / "lines.jsonl"
        command = [str(python), str(self._adapters / f"{trial.variant}.py")]
        # an adapter must find its own packages, and not those of this program
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        told["started_s"] = time.time()
        ended = run_program([*command, json.dumps(told)], lines, 2 * seconds + _BESIDE_S, environment)
        record |= {
            "exit_code": ended.exit_code, "took_s": round(ended.took_s, 2), "cpu_s": round(ended.cpu_s, 2),
            "peak_bytes": ended.peak_bytes,
        }  # fmt: skip
        said = lines.read_text(encoding="utf-8", errors="replace").splitlines()
        return {**record, **read_peer(said, told, stopped=ended.exit_code is None)}


def read_peer(lines: Iterable[str], told: dict[str, Any], stopped: bool = False) -> Record:
    """What a peer's lines come to; whatever else a library prints between them is not looked at. `stopped`: it was
    still at work when its time was over, which does not make it a failure."""
    about: dict[str, Any] = {}
    evaluations: list[dict[str, Any]] = []
    ended, last_words = False, "it left no message"
    for line in lines:
        said = _parsed(line)
        if said is None:
            last_words = line.strip()[-300:] or last_words
        elif said["kind"] == "evaluation":
            evaluations.append(said)
        elif said["kind"] == "about":
            about = {name: value for name, value in said.items() if name != "kind"}
        ended = ended or (said is not None and said["kind"] == "end")
    if not evaluations or not (ended or stopped):
        return {"status": "failed", "reason": last_words, "about": about, "evaluations": evaluations}
    solved = next((said["training_s"] for said in evaluations if said["return_mean"] >= told["threshold"]), None)
    last = evaluations[-1]
    return {
        "status": "finished" if solved is None else "solved", "reason": "", "about": about, "solved_at_s": solved,
        "best_return": max(said["return_mean"] for said in evaluations), "final_return": last["return_mean"],
        "env_steps": last["env_steps"], "updates": last["updates"], "evaluations": evaluations,
        "windows": len(evaluations), "figures": _rates(evaluations),
    }  # fmt: skip


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and "kind" in said else None


def _rates(evaluations: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Of the stretches between evaluations in which updates were made: lowest, median, highest."""
    figures = {}
    for name, counted in (("sample_hz", "env_steps"), ("update_hz", "updates")):
        rates = [
            (now[counted] - before[counted]) / (now["training_s"] - before["training_s"])
            for before, now in pairwise(evaluations)
            if now["updates"] > before["updates"] and now["training_s"] > before["training_s"]
        ]
        if rates:
            figures[name] = [min(rates), median(rates), max(rates)]
    return figures


class only_cores:
    """Programs that are started meanwhile use so many cores, the same ones for all."""

    def __init__(self, cores: int | None) -> None:
        self._cores = cores

    def __enter__(self) -> None:
        if self._cores is None:
            return
        if not hasattr(os, "sched_setaffinity"):
            raise ConfigError("--cores: this system cannot hold programs to some cores; leave it out")
        self._before = os.sched_getaffinity(0)
        if self._cores > len(self._before):
            raise ConfigError(f"--cores {self._cores}: there are {len(self._before)}")
        os.sched_setaffinity(0, sorted(self._before)[: self._cores])

    def __exit__(self, *_: object) -> None:
        if self._cores is not None:
            os.sched_setaffinity(0, self._before)
