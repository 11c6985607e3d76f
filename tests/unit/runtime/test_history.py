"""A run that goes on tells no moment twice, and forgets none that it told."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from spreeze.runtime.history import UNDONE, count_lines, cut_back, last_wall_s

COUNTERS = {"updates": 50, "env_steps": 500}


def write(path: Path, *records: dict[str, Any], end: bytes = b"") -> None:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records) + end)


def line(updates: int, env_steps: int) -> dict[str, Any]:
    return {"wall_s": updates / 10, "updates": updates, "env_steps": env_steps}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_lines_behind_the_checkpoint_are_taken_out_and_kept(tmp_path: Path) -> None:
    metrics, evaluations = tmp_path / "metrics.jsonl", tmp_path / "eval.jsonl"
    write(metrics, line(0, 0), line(50, 500), line(50, 501), line(60, 600), end=b'{"wall_s": 9')
    write(evaluations, line(40, 450), line(55, 550))
    write(tmp_path / "events.jsonl", {"wall_s": 7.5, "kind": "end"}, end=b'{"wall')
    assert last_wall_s(tmp_path) == 7.5
    assert cut_back(tmp_path, COUNTERS) == 3
    assert read(metrics) == [line(0, 0), line(50, 500)]
    assert read(evaluations) == [line(40, 450)]
    assert read(tmp_path / UNDONE) == [
        {"file": "metrics.jsonl", **line(50, 501)},
        {"file": "metrics.jsonl", **line(60, 600)},
        {"file": "eval.jsonl", **line(55, 550)},
    ]
    assert read(tmp_path / "events.jsonl") == [{"wall_s": 7.5, "kind": "end"}]
    assert cut_back(tmp_path, COUNTERS) == 0
    assert count_lines(metrics) == 2


def test_what_a_power_cut_leaves(tmp_path: Path) -> None:
    """Zeros in place of the last lines, one of them with its end."""
    metrics = tmp_path / "metrics.jsonl"
    write(metrics, line(40, 400), end=bytes(30) + b"\n" + bytes(10))
    assert last_wall_s(tmp_path) == 4.0
    cut_back(tmp_path, COUNTERS)
    assert read(metrics) == [line(40, 400)]
    assert not (tmp_path / UNDONE).exists()


def test_no_lines_at_all_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    os.mkfifo(tmp_path / "eval.jsonl")  # a stranger's folder must not hold us
    assert last_wall_s(tmp_path) == 0.0
    assert cut_back(tmp_path, COUNTERS) == 0
