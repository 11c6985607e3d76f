"""The files of a run folder that tell what happened: metrics.jsonl, events.jsonl, summary.json, log.txt, tensorboard/.

Training goes on when the disk is full: lines wait in memory (bounded) and are tried again with the next one, a single
event says so when it begins and another when it is over. Nothing here raises because of the disk.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spreeze.metrics.lines import LineFile, finite, json_line
from spreeze.metrics.readable import describe_event
from spreeze.metrics.scalars import EVALUATION_PREFIX, evaluation_curves
from spreeze.metrics.tensorboard_file import START_AFTER_S, Curves

ROUTINE = ("choice", "start")  # kinds that every run begins with; a display that showed them would tell nothing
Clock = Callable[[], float]


class Recorder:
    """Used by the supervisor alone; the evaluator writes eval.jsonl itself (lines.LineFile)."""

    def __init__(
        self,
        run_dir: Path,
        started_s: float,
        clock: Clock = time.monotonic,
        curves_after_s: float = START_AFTER_S,
    ) -> None:
        """`run_dir` exists. `started_s`: when the command started, on `clock`."""
        self._run_dir = run_dir
        self._started_s = started_s
        self._clock = clock
        self._metrics = LineFile(run_dir / "metrics.jsonl")
        self._events = LineFile(run_dir / "events.jsonl")
        self._log = LineFile(run_dir / "log.txt")
        self._curves = Curves(run_dir / "tensorboard", curves_after_s)
        self._disk_refuses = False
        self._curves_trouble: str | None = None
        self.last_event: dict[str, Any] | None = None  # worth a line on the display

    def metrics(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl, and the same figures as curves over env steps."""
        self._append(self._metrics, json_line(record))
        self._curves.add(record, step=record["env_steps"])
        self._watch_disk()

    def evaluation(self, record: Mapping[str, Any]) -> None:
        """The curves of a line that the evaluator wrote to eval.jsonl."""
        self._curves.add(evaluation_curves(record), step=record["env_steps"], prefix=EVALUATION_PREFIX)

    def event(self, kind: str, reason: str, **fields: Any) -> dict[str, Any]:
        """Something that happened to the run, and why. Also a line of the log."""
        event = {"wall_s": round(self._clock() - self._started_s, 3), "kind": kind, "reason": reason, **fields}
        if kind not in ROUTINE:
            self.last_event = event
        self._append(self._events, json_line(event))
        self.log(describe_event(event))
        return event

    def log(self, text: str) -> None:
        wall_s = self._clock() - self._started_s
        self._append(self._log, "".join(f"{wall_s:10.3f}  {line}\n" for line in text.splitlines()).encode())

    def write_summary(self, summary: Mapping[str, Any]) -> OSError | None:
        """summary.json appears complete or not at all; why not, where the disk refused."""
        path = self._run_dir / "summary.json"
        try:
            _replace(path, json.dumps(finite(summary), indent=2, allow_nan=False) + "\n")
        except OSError as error:
            self.event("warning", f"summary.json was not written: {error.strerror}", file=path.name)
            return error
        return None

    def close(self) -> None:
        """Tries what waits for a last time. Takes up to CLOSE_WITHIN_S while the curves are finished."""
        for file in self._files():
            file.flush()
        self._curves.close()

    def _files(self) -> tuple[LineFile, LineFile, LineFile]:
        return self._metrics, self._events, self._log

    def _append(self, file: LineFile, line: bytes) -> None:
        error = file.append(line)
        if error is not None and not self._disk_refuses:
            self._disk_refuses = True  # first: the event below is refused as well
            self.event(
                "warning",
                f"{file.path.name} needs {file.bytes_waiting:,} bytes and the system refused ({error.strerror}); "
                "training goes on, the lines wait in memory and are tried again",
                file=file.path.name,
                bytes_needed=file.bytes_waiting,
            )

    def _watch_disk(self) -> None:
        if self._disk_refuses and all(file.flush() is None for file in self._files()):
            self._disk_refuses = False
            dropped = sum(file.lines_dropped for file in self._files())
            self.event("recovery", "the disk takes lines again", lines_dropped=dropped)
        if self._curves.trouble != self._curves_trouble:
            self._curves_trouble = self._curves.trouble
            if self._curves_trouble is not None:
                self.event("warning", self._curves_trouble, file="tensorboard")


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
