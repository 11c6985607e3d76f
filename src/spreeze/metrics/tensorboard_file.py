"""TensorBoard's event file, written by a thread of its own so that the supervisor neither waits nor imports for it.

Of tensorboard only its record format and messages are used: its own file writer goes through tensorboard.compat,
which imports all of TensorFlow where that is installed, and it stops for good at the first full disk.
"""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spreeze.metrics.lines import append_bytes
from spreeze.metrics.scalars import scalars_of

POINTS_KEPT = 3600  # an hour; the oldest are dropped where the disk refuses for longer
# Importing tensorboard's messages takes 0.25 s of a core (2-core machine), which the roles need while they start.
START_AFTER_S = 5.0
WRITE_EVERY_S = 2.0
CLOSE_WITHIN_S = 5.0


class _Point(NamedTuple):
    at: float  # seconds since 1970, as TensorBoard wants it
    step: int
    scalars: dict[str, float]


class Curves:
    """add() from any thread, then close(). Nothing here raises: what went wrong is in `trouble`, in words."""

    def __init__(self, folder: Path, start_after_s: float = START_AFTER_S) -> None:
        self._path = folder / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self._start_after_s = start_after_s
        self._points: deque[_Point] = deque(maxlen=POINTS_KEPT)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tensorboard", daemon=True)
        self.trouble: str | None = None
        self._thread.start()

    def add(self, record: Mapping[str, Any], step: int, prefix: str = "") -> None:
        self._points.append(_Point(time.time(), step, scalars_of(record, prefix)))

    def close(self) -> None:
        self._closing.set()
        self._thread.join(CLOSE_WITHIN_S)

    def _run(self) -> None:
        self._closing.wait(self._start_after_s)
        try:
            encode = self._import()
        except ImportError as error:
            self.trouble = f"no TensorBoard curves: {error}"
            return
        if encode is None:
            return
        waiting = encode.version()
        while not self._closing.is_set():
            waiting = self._write(waiting, encode)
            self._closing.wait(WRITE_EVERY_S)
        self._write(waiting, encode)

    def _import(self) -> _Encoder | None:
        """Tried again where no descriptor was left for it; None: the run ended before it succeeded."""
        while True:
            try:
                from tensorboard.compat.proto import event_pb2, summary_pb2
                from tensorboard.summary.writer.record_writer import RecordWriter

                return _Encoder(event_pb2, summary_pb2, RecordWriter)
            except OSError as error:
                self.trouble = f"TensorBoard curves wait in memory: {error.strerror}"
            if self._closing.wait(WRITE_EVERY_S):
                return None

    def _write(self, waiting: bytes, encode: _Encoder) -> bytes:
        """Returns what the disk did not take: the file's first record, which nothing may come before."""
        points = [self._points.popleft() for _ in range(len(self._points))]
        if not points:
            return waiting
        try:
            self._path.parent.mkdir(exist_ok=True)  # never the run folder: a disk may be unmounted for a while
            append_bytes(self._path, waiting + b"".join(map(encode.point, points)))
        except OSError as error:
            self._points.extendleft(reversed(points[-(POINTS_KEPT - len(self._points)) :]))
            self.trouble = f"TensorBoard curves wait in memory: {error.strerror}"
            return waiting
        self.trouble = None
        return b""


class _Encoder:
    """Points as TensorBoard's records."""

    def __init__(self, event_pb2: Any, summary_pb2: Any, record_writer: Any) -> None:
        self._event_pb2 = event_pb2
        self._summary_pb2 = summary_pb2
        self._record_writer = record_writer

    def version(self) -> bytes:
        return self._record(self._event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def point(self, point: _Point) -> bytes:
        value = self._summary_pb2.Summary.Value
        values = [value(tag=tag, simple_value=number) for tag, number in point.scalars.items()]
        summary = self._summary_pb2.Summary(value=values)
        return self._record(self._event_pb2.Event(wall_time=point.at, step=point.step, summary=summary))

    def _record(self, event: Any) -> bytes:
        buffer = io.BytesIO()
        self._record_writer(buffer).write(event.SerializeToString())
        return buffer.getvalue()
