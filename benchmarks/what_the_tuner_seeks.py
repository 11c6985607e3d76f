"""Updates until Pendulum-v1 is solved, over the batch size and over the env steps between updates.

    python benchmarks/what_the_tuner_seeks.py run DATA.json        about 10 minutes on two cores
    python benchmarks/what_the_tuner_seeks.py plot DATA.json PLOT.png

Each run holds an exact ratio of updates to env steps, so the number of updates that it needs hardly depends on how fast
the machine is or on what else runs there. `run` goes on where DATA.json ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ENV, TARGET = "Pendulum-v1", -200.0
BATCH_SIZES, STEPS_AN_UPDATE = (16, 32, 64, 128, 256), (0.5, 1, 2, 5, 20, 60)
USUAL_BATCH_SIZE, USUAL_STEPS = 64, 20
SEEDS = (0, 1, 2)
AT_MOST_S = 150
# docs/decisions/0006-updates-as-triton-kernels.md: spreeze bench learner --device cuda:0 --batch-size B
UPDATE_HZ_H200 = {
    "Triton kernels": {256: 17006, 1024: 14278, 8192: 6489, 32768: 1943, 131072: 562},
    "torch operations, captured": {256: 2689, 1024: 2386, 8192: 1521, 32768: 779},
}


def runs() -> list[tuple[int, float, int]]:
    """(batch size, env steps an update, seed): two cuts that cross at the usual values."""
    cuts = [(batch, float(USUAL_STEPS)) for batch in BATCH_SIZES]
    cuts += [(USUAL_BATCH_SIZE, float(steps)) for steps in STEPS_AN_UPDATE if steps != USUAL_STEPS]
    return [(batch, steps, seed) for seed in SEEDS for batch, steps in cuts]


def train(batch: int, steps: float, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [
            sys.executable, "-m", "spreeze", "train", ENV, "--quiet", "--run-dir", str(run_dir), "--seed", str(seed),
            "--batch-size", str(batch), "--replay-ratio", str(batch / steps), "--samplers", "1", "--device", "cpu",
            "--learning-starts", "1000", "--eval-every", "0.1", "--until-return", str(TARGET),
            "--seconds", str(AT_MOST_S),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((run_dir / "summary.json").read_text())
        solving = [json.loads(line) for line in (run_dir / "eval.jsonl").read_text().splitlines()][-1]
    return {
        "batch_size": batch, "steps_an_update": steps, "seed": seed, "status": summary["status"],
        "updates": solving["updates"], "env_steps": solving["env_steps"], "wall_s": summary["wall_s"],
        "update_hz": summary["update_hz"],
    }  # fmt: skip


def run(data: Path) -> None:
    done = json.loads(data.read_text()) if data.exists() else []
    known = {(row["batch_size"], row["steps_an_update"], row["seed"]) for row in done}
    for batch, steps, seed in runs():
        if (batch, steps, seed) not in known:
            done.append(train(batch, steps, seed))
            print(done[-1], file=sys.stderr, flush=True)
            data.write_text(json.dumps(done, indent=1) + "\n")


def plot(data: Path, picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = json.loads(data.read_text())
    figure, (over_batch, over_steps, cost) = pyplot.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    cuts = (
        (over_batch, "batch_size", "batch size", [row for row in rows if row["steps_an_update"] == USUAL_STEPS]),
        (
            over_steps,
            "steps_an_update",
            "env steps an update",
            [r for r in rows if r["batch_size"] == USUAL_BATCH_SIZE],
        ),
    )
    for axes, key, label, of_cut in cuts:
        places = sorted({row[key] for row in of_cut})
        middles = [median(row["updates"] for row in of_cut if row[key] == place) for place in places]
        axes.plot([row[key] for row in of_cut], [row["updates"] for row in of_cut], ".", color="0.6")
        axes.plot(places, middles, "o-", color="tab:blue")
        axes.set_ylim(0, 1.15 * max(row["updates"] for row in rows))
        axes.set_title(f"{ENV}: updates until solved", fontsize=10)
        axes.set_xlabel(label)
    for name, update_hz in UPDATE_HZ_H200.items():
        batch_sizes, rates = list(update_hz), list(update_hz.values())
        cost.plot(batch_sizes, [rate / rates[0] for rate in rates], "o-", label=name)
    cost.axhline(1 / 3, color="0.5", linestyle="--", label="a third: what the tuner seeks")
    cost.set_title("H200: updates/s, as a share of those at 256", fontsize=10)
    cost.set_xlabel("batch size")
    cost.legend(fontsize=8)
    for axes in (over_batch, over_steps, cost):
        axes.set_xscale("log", base=2)
    figure.savefig(picture, dpi=80)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(Path(sys.argv[2]))
    else:
        plot(Path(sys.argv[2]), Path(sys.argv[3]))
