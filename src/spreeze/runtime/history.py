"""The lines that a run has written so far, when it goes on from a checkpoint.

What was written after that checkpoint tells of updates that are done again: these lines leave metrics.jsonl and
eval.jsonl, so that no moment is told twice, and are kept in undone.jsonl. Half a last line is cut off.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spreeze.documents import open_at_once
from spreeze.metrics.lines import LineTail, append_bytes, json_line, parse_line

UNDONE = "undone.jsonl"
Record = Mapping[str, Any]


def last_wall_s(run_dir: Path) -> float:
    """The last moment that the run has told of."""
    moments = [_last_moment(run_dir / name) for name in ("metrics.jsonl", "eval.jsonl", "events.jsonl")]
    return max(moments, default=0.0)


def cut_back(run_dir: Path, counters: Mapping[str, int]) -> int:
    """Takes out what lies behind the checkpoint with these counters. -> lines"""

    def before(record: Record) -> bool:
        return all(_number(record.get(name)) <= counters[name] for name in ("updates", "env_steps"))

    undone = [line for name in ("metrics.jsonl", "eval.jsonl") for line in _cut_file(run_dir / name, before)]
    _cut_file(run_dir / "events.jsonl", lambda event: True)
    return len(undone)


def count_lines(path: Path) -> int:
    """Those that a reader takes: half ones and broken ones do not count."""
    return len(LineTail(path).read_new())


def _cut_file(path: Path, keep: Callable[[Record], bool]) -> list[bytes]:
    """Ends the file behind its last line that is to be kept. -> the lines that were taken out"""
    data = _read(path)
    end = data.rfind(b"\n") + 1
    taken: list[bytes] = []
    while end:
        start = data.rfind(b"\n", 0, end - 1) + 1
        record = parse_line(data[start:end])
        if record is not None and keep(record):
            break
        taken.append(data[start:end])
        end = start
    records = [{"file": path.name, **record} for line in reversed(taken) if (record := parse_line(line)) is not None]
    if records:
        append_bytes(path.with_name(UNDONE), b"".join(map(json_line, records)))
    if end < len(data):
        os.truncate(path, end)
    return taken


def _last_moment(path: Path) -> float:
    for line in reversed(_read(path).splitlines()):
        if (record := parse_line(line)) is not None and "wall_s" in record:
            return _number(record["wall_s"])
    return 0.0


def _read(path: Path) -> bytes:
    """Nothing where there is no file, or something that is none: a pipe or a device has no end."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
