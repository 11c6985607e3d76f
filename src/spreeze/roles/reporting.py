"""How a role other than the supervisor says that something happened: a line in events.jsonl, and in the log."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

from spreeze.metrics.lines import append_line
from spreeze.roles.job import Job


def seconds_since_start(job: Job, moment_ns: int | None = None) -> float:
    """Of the command, on the monotonic clock that all processes share."""
    return round(((moment_ns or time.monotonic_ns()) - job.started_ns) / 1e9, 3)


def report_event(job: Job, kind: str, reason: str, **fields: Any) -> None:
    wall_s = seconds_since_start(job)
    sys.stderr.write(f"{wall_s:10.3f}  {kind} {job.role}: {reason}\n")
    with contextlib.suppress(OSError):  # a full disk may be the very event; the line above goes where it can
        event = {"wall_s": wall_s, "kind": kind, "reason": reason, "role": job.role, **fields}
        append_line(job.run_dir / "events.jsonl", event)
