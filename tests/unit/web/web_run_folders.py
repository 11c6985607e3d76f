"""Run folders as a training run would leave them, made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def make_run(folder: Path, env: str = "Pendulum-v1", algo: str = "sac", lines: int = 5, **config: Any) -> Path:
    folder.mkdir(parents=True)
    write(folder / "config.json", {"env": env, "algo": algo, "seed": 0, "device": "cpu", "auto": {}, **config})
    append(folder / "metrics.jsonl", *[metrics_line(second) for second in range(1, lines + 1)])
    append(folder / "eval.jsonl", *[evaluation_line(second) for second in range(1, lines + 1)])
    return folder


def metrics_line(second: int) -> dict[str, Any]:
    return {
        "wall_s": float(second),
        "env_steps": 100 * second,
        "updates": 10 * second,
        "sample_hz": 100.0 + second,
        "roles": {"learner": "ok", "sampler-0": "silent"},
        "restarts": {"learner": 0, "sampler-0": 2},
    }


def evaluation_line(second: int) -> dict[str, Any]:
    return {"wall_s": second + 0.5, "env_steps": 100 * second, "return_mean": -1000.0 + second, "return_std": 2.0}


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def append(path: Path, *records: Any) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
