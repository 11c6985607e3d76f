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
from typing import Any

ENV, TARGET = "Pendulum-v1", -200.0
BATCH_SIZES, STEPS_AN_UPDATE = (16, 32, 64, 128, 256), (0.5, 1, 2, 5, 20, 60)
USUAL_BATCH_SIZE, USUAL_STEPS = 64, 20
SEEDS = (0, 1, 2)
AT_MOST_S = 150


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


if __name__ == "__main__":
    run(Path(sys.argv[2]))
