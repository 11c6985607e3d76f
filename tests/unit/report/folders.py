"""Run folders with figures that are known, as a run leaves them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = {
    "spreeze": "0.1.0", "env": "Pendulum-v1", "algo": "sac", "seed": 0, "until_return": -200.0, "batch_size": 64,
    "gamma": 0.99, "hidden": [256, 256], "replay_ratio": "free",
    "auto": {"batch_size": {"value": 64, "reason": "so"}}, "adjusted": {},
}  # fmt: skip
MACHINE = {"cpu_model": "AMD EPYC", "cores": 2, "gpus": [], "versions": {"spreeze": "0.1.0", "torch": "2.13.0"}}
RETURNS = (-1200.0, -700.0, -150.0)


def make_run(
    folder: Path,
    returns: Sequence[float] = RETURNS,
    summary: dict[str, Any] | None = None,
    seconds: int = 8,
    **settings: Any,
) -> Path:
    """An evaluation every 2 s, each of 0.5 s; 100 env steps and 10 updates a second from the first on."""
    folder.mkdir(parents=True)
    write(folder / "config.json", {**SETTINGS, **settings})
    write(folder / "machine.json", MACHINE)
    evals = [
        {"wall_s": 2.0 * n, "ended_s": 2.0 * n + 0.5, "env_steps": 200 * n, "return_mean": value}
        for n, value in enumerate(returns, start=1)
    ]
    lines = [
        {
            "wall_s": float(n), "env_steps": 100 * n, "updates": 10 * n, "sample_hz": 100.0, "update_hz": 10.0,
            "update_frames_hz": 640.0, "replay_ratio": 6.4, "staleness_updates_p50": 2.0, "transfer_age_ms_p50": 5.0,
            "lost_rows": 0,
        }
        for n in range(1, seconds + 1)
    ]  # fmt: skip
    for name, records in (("eval.jsonl", evals), ("metrics.jsonl", lines)):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    if summary is not None:
        write(folder / "summary.json", summary)
    return folder


def write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
