"""What an update in two places learns, beside one place: Pendulum-v1 over modes and seeds.

    python benchmarks/two_devices_learning.py [--json FILE] [--seeds 0,1,2] [--env Pendulum-v1] [--steps 15000]

Each run holds an exact ratio of updates to env steps, so what it learns does not depend on how fast the machine is or
on what else runs there; both places are the CPU. A return is that of the last weights: a mean of 20 episodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

MODES = {
    "one place": ["--device", "cpu"],
    "two, exact": ["--actor-device", "cpu", "--critic-device", "cpu", "--split-mode", "exact"],
    "two, pipelined": ["--actor-device", "cpu", "--critic-device", "cpu", "--split-mode", "pipelined"],
}
BATCH_SIZE, STEPS_AN_UPDATE = 64, 2
EPISODES = 20


def train(mode: str, seed: int, env: str, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [
            sys.executable, "-m", "spreeze", "train", env, "--quiet", "--run-dir", str(run_dir), "--seed", str(seed),
            "--steps", str(steps), "--replay-ratio", str(BATCH_SIZE / STEPS_AN_UPDATE), "--batch-size", str(BATCH_SIZE),
            "--samplers", "1", "--envs-per-sampler", "4", "--learning-starts", "1000", "--eval-episodes", str(EPISODES),
            *MODES[mode],
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        last = json.loads((run_dir / "eval.jsonl").read_text().splitlines()[-1])
        updates = json.loads((run_dir / "summary.json").read_text())["updates"]
    assert last["updates"] == updates, "the last weights were not evaluated: the machine is too busy"
    return {"mode": mode, "seed": seed, "updates": updates, "return": last["return_mean"]}


def table(rows: list[dict[str, Any]]) -> str:
    seeds = sorted({row["seed"] for row in rows})
    lines = ["| | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |", "|---" * (len(seeds) + 2) + "|"]
    for mode in MODES:
        returns = [row["return"] for row in rows if row["mode"] == mode]
        lines.append(f"| {mode} | " + " | ".join(f"{value:.0f}" for value in [*returns, mean(returns)]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--env", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=15_000)
    options = parser.parse_args()
    rows = []
    for mode in MODES:
        for seed in map(int, options.seeds.split(",")):
            rows.append(train(mode, seed, options.env, options.steps))
            print(rows[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps({"env": options.env, "steps": options.steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
