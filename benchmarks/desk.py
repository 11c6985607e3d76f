"""The figures of docs/measuring.md for a machine without a GPU: runs each command, keeps what it printed, and writes
the tables.

    python benchmarks/desk.py run RESULTS      about 12 minutes on two cores, 25 with --long; goes on where it was
    python benchmarks/desk.py show RESULTS     the tables, as Markdown

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

SEEDS = (0, 1, 2, 3, 4)
BENCHES = {
    "sampling-cheetah": "bench sampling HalfCheetah-v5",
    "sampling-hopper": "bench sampling Hopper-v5",
    "sampling-bullet": "bench sampling HalfCheetahBulletEnv-v0",
    "transfer": "bench transfer",
    "weights": "bench weights",
    "learner": "bench learner --batch-size 64,256,8192 --precision float32,bfloat16",
    "run": "bench run HalfCheetah-v5 --batch-size 256",
}
PENDULUM = "train Pendulum-v1 --until-return -200 --seed {}"
MEMORY = "train HalfCheetah-v5 --seconds 15"
BULLET = "train HalfCheetahBulletEnv-v0 --until-return 1500 --seconds 900"


def run(folder: Path, with_long: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in BENCHES.items():
        keep(folder / f"{name}.json", lambda words=words: bench(words))
    for seed in SEEDS:
        keep(folder / f"pendulum-{seed}.json", lambda seed=seed: train(PENDULUM.format(seed), folder))
    keep(folder / "memory.json", lambda: sampler_memory(folder))
    if with_long:
        keep(folder / "bullet.json", lambda: train(BULLET, folder))


def keep(path: Path, measure: Callable[[], dict[str, Any]]) -> None:
    if path.exists():
        return
    began = time.monotonic()
    path.write_text(json.dumps(measure(), indent=1) + "\n")
    print(f"{path.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def bench(words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "spreeze", *words.split(), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def train(words: str, folder: Path) -> dict[str, Any]:
    """-> summary.json"""
    run_dir = folder / f"run-{time.time_ns()}"
    command = [sys.executable, "-m", "spreeze", *words.split(), "--quiet", "--run-dir", str(run_dir)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads((run_dir / "summary.json").read_text())


def sampler_memory(folder: Path) -> dict[str, Any]:
    """Bytes that are a sampler's own, once it acts with published weights."""
    run_dir = folder / f"run-{time.time_ns()}"
    command = [sys.executable, "-m", "spreeze", *MEMORY.split(), "--quiet", "--run-dir", str(run_dir)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    most = 0
    while run.poll() is None:
        time.sleep(0.5)
        most = max([most, *(own_bytes(pid) for pid in sampler_pids(run_dir))])
    if run.returncode:
        raise SystemExit(f"spreeze {MEMORY} ended with {run.returncode}")
    return {"sampler_own_bytes": most}


def sampler_pids(run_dir: Path) -> list[int]:
    path = run_dir / "events.jsonl"
    events = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []
    return [event["pid"] for event in events if event["kind"] == "start" and event["role"].startswith("sampler-")]


def own_bytes(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_full_info().uss
    except psutil.Error:  # it has ended
        return 0


def show(folder: Path) -> None:
    for name, words in BENCHES.items():
        path = folder / f"{name}.json"
        if path.exists():
            print(f"\n`spreeze {words}`\n")
            print(bench_table(json.loads(path.read_text())))
    solved = [json.loads(path.read_text()) for path in sorted(folder.glob("pendulum-*.json"))]
    if solved:
        print(f"\n`spreeze {PENDULUM.format('S')}`, S from 0 to {len(solved) - 1}\n")
        print(solved_table(solved))
    if (folder / "memory.json").exists():
        own = json.loads((folder / "memory.json").read_text())["sampler_own_bytes"]
        print(f"\n`spreeze {MEMORY}`: at most {own / 1e6:.0f} MB are a sampler's own.")
    if (folder / "bullet.json").exists():
        print(f"\n`spreeze {BULLET}`\n")
        print(solved_table([json.loads((folder / "bullet.json").read_text())]))


def bench_table(document: dict[str, Any]) -> str:
    """A row for each row of the bench: what differs between them, then every figure with its spread."""
    rows = document["rows"]
    figures = list(dict.fromkeys(name for row in rows for name in row["spread"]))
    settings = [
        name for name in rows[0]
        if name not in (*figures, "spread", "windows") and len({json.dumps(row.get(name)) for row in rows}) > 1
    ]  # fmt: skip
    if len(rows) == 1:
        lines = [[name, with_spread(rows[0], name)] for name in figures]
        return markdown(["figure", "median (lowest to highest)"], lines)
    lines = [[str(row.get(n, "")) for n in settings] + [with_spread(row, name) for name in figures] for row in rows]
    return markdown([*settings, *figures], lines)


def with_spread(row: dict[str, Any], name: str) -> str:
    if row.get(name) is None:
        return ""
    low, high = row["spread"][name]
    return f"{amount(row[name])} ({amount(low)} to {amount(high)})"


def amount(value: float) -> str:
    for scale, unit in ((1e9, " G"), (1e6, " M")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def solved_table(summaries: list[dict[str, Any]]) -> str:
    columns = (
        "seed",
        "solved_at_s",
        "first_step_s",
        "first_update_s",
        "updates",
        "env_steps",
        "update_hz",
        "sample_hz",
    )
    lines = [["" if one[name] is None else amount(one[name]) for name in columns] for one in summaries]
    times = [one["solved_at_s"] for one in summaries if one["solved_at_s"] is not None]
    table = markdown(list(columns), lines)
    return f"{table}\n\nMedian {median(times):.1f} s, {len(times)} of {len(summaries)} solved." if times else table


def markdown(header: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("run", "show"):
        sys.exit(__doc__)
    if sys.argv[1] == "run":
        run(Path(sys.argv[2]), with_long="--long" in sys.argv)
    else:
        show(Path(sys.argv[2]))
