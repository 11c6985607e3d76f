"""Every number of samplers with every batch size, and what the tuner does on the same machine, in one picture.

    python benchmarks/sweep_and_tuner.py run ENV DATA.json [flags of train]       on 16 cores and a GPU about 15 minutes
    python benchmarks/sweep_and_tuner.py plot DATA.json PLOT.png

Each fixed setting is a run of its own, long enough for steady rates. The last run is left to the tuner, with nothing
remembered. Colours are what the tuner seeks: updates a second with a row each, times batch^(2/3). With
`--until-return R` among the flags every run also says when it was solved. `run` goes on where DATA.json ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from spreeze.tuning.hardware import find_machine
from spreeze.tuning.search import Setting, Window, speed

SECONDS = 20
BATCH_SIZES = {True: (1024, 2048, 4096, 8192, 16384, 32768), False: (16, 32, 64, 128, 256)}  # with a GPU, without


def sampler_counts(cores: int) -> list[int]:
    return sorted({max(1, round(cores * share)) for share in (0.25, 0.5, 0.625, 0.75, 0.875, 1.0)})


def train(env: str, flags: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [sys.executable, "-m", "spreeze", "train", env, "--quiet", "--run-dir", str(run_dir), *flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads((run_dir / "summary.json").read_text())
        events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    keys = ("samplers", "batch_size", "sample_hz", "update_hz", "solved_at_s", "best_return")
    path = [event for event in events if event["kind"] == "adaptation"]
    return {**{key: summary[key] for key in keys}, "path": path, "env": env}


def run(env: str, data: Path, flags: list[str]) -> None:
    machine = find_machine()
    done = json.loads(data.read_text()) if data.exists() else []
    fixed = [(count, batch) for count in sampler_counts(machine.cores) for batch in BATCH_SIZES[bool(machine.gpus)]]
    limit = [] if "--until-return" in flags else ["--seconds", str(SECONDS)]
    for count, batch in fixed[len(done) :]:
        setting = ["--samplers", str(count), "--batch-size", str(batch), "--adapt", "off"]
        done.append(train(env, [*setting, *limit, *flags]))
        print(done[-1], file=sys.stderr, flush=True)
        data.write_text(json.dumps(done, indent=1) + "\n")
    if len(done) == len(fixed):
        done.append(train(env, ["--retune", *(limit and ["--seconds", str(2 * SECONDS)]), *flags]))
        data.write_text(json.dumps(done, indent=1) + "\n")


def plot(data: Path, picture: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    *sweep, tuned = json.loads(data.read_text())
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    found = [
        speed(Setting(row["samplers"], row["batch_size"]), Window(row["update_hz"] or 0.0, row["sample_hz"] or 0.0))
        for row in sweep
    ]
    places = [row["batch_size"] for row in sweep], [row["samplers"] for row in sweep]
    dots = axes.scatter(*places, c=[value / max(found) for value in found], s=260, cmap="viridis")
    for row in sweep:
        if row["solved_at_s"] is not None:
            axes.annotate(f"{row['solved_at_s']:.0f} s", (row["batch_size"], row["samplers"]), ha="center", fontsize=7)
    path = [(e["batch_size"], e["samplers"]) for e in tuned["path"] if "samplers" in e]
    axes.plot(*zip(*[*path, (tuned["batch_size"], tuned["samplers"])], strict=True), "r.-", label="the tuner's path")
    axes.plot(tuned["batch_size"], tuned["samplers"], "r*", markersize=15, label="what it found")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("batch size")
    axes.set_ylabel("samplers")
    axes.set_title(tuned["env"], fontsize=10)
    axes.legend(loc="lower left", fontsize=8)
    figure.colorbar(dots, label="share of the best of the sweep")
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    else:
        plot(Path(sys.argv[2]), Path(sys.argv[3]))
