"""Checkpoints beside the updates.

    learner's loop                                                        saver (a thread)
    begin: networks copied, end = rows in replay by now
    now and then: the next 1 MiB of rows, copied        --- queue --->    appended to a file, checksum
    before rows come in: those that they overwrite first
    the last row is copied                              --- queue --->    synced, renamed, older ones removed

What is saved is one moment of the run, although it is copied over seconds. The networks are copied at once, in the
order of the updates. Replay's rows of that moment are the numbers first to end; a row never changes until it is
overwritten, and it is overwritten only by `extend`, which the same thread calls right after `protect`. `protect` copies
every row of the moment that the next rows would overwrite and that was not copied yet. So each row is copied before it
is overwritten, by the thread that overwrites it: none is torn, none is of a later moment, and there is nothing to lock.
On a GPU copies and placings are queued in the same stream, the updates', in that order, and the queue to the saver is
handed what has arrived.

Updates go on meanwhile. Copying is held to COPY_BYTES_PER_S, so that it takes a few hundredths of the learner's time,
unless rows come in faster; then it keeps up with them. When the disk is slower than the rows, copies wait in memory, no
more of them than replay has rows, for which the memory plan leaves room.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from spreeze.errors import CheckpointError, NotFiniteError
from spreeze.learner.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    clear_remains,
    first_missing_row,
    next_number,
    remove_old,
)
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.pool_replay import PoolReplay
from spreeze.learner.restoring import REPLAY
from spreeze.replay import Replay

COPY_BYTES_PER_S = 32 << 20
PIECE_BYTES = 1 << 20
TRY_AGAIN_AFTER_S = 30.0  # where the disk refused
_WAITING_PIECES = 8  # copied without need while the disk is slow
_NICENESS = 10  # of the saver: the learner's own thread goes first where they share a core
_LOOK_S = 0.002

Say = Callable[..., None]  # (kind, reason, **fields): an event of the run
Counters = Callable[[], Mapping[str, int]]


class Stateful(Protocol):
    def state(self) -> Mapping[str, Tensor]: ...


class Saving:
    """`tend` after updates, `protect` before rows come in, `close` at the end of the run."""

    def __init__(
        self,
        run_dir: Path,
        algorithm: Stateful,
        replay: Replay | PairedReplay,
        counters: Counters,
        every_s: float | None,
        asked: Callable[[], int],
        say: Say,
        before: Checkpoint | None = None,
    ) -> None:
        """`counters`: what goes on besides tensors, updates and env_steps among it. `every_s`: None saves when it is
        asked and at the end. `asked`: how often others have asked for a checkpoint. `before`: the one that the run goes
        on from."""
        self._run_dir = run_dir
        self._algorithm, self._replay, self._counters = algorithm, replay, counters
        self._every_s = every_s
        self._asked, self._answered = asked, asked()
        self._say = say
        self._before = before
        self._saved = None if before is None else _moment(before.counters)
        self._due = time.monotonic() + every_s if every_s is not None else float("inf")
        self._current: _Current | None = None
        self._saver: _Saver | None = None
        self._refused = "not tried"  # why the latest that failed was not written
        clear_remains(run_dir)

    def tend(self) -> None:
        """Begins a checkpoint when one is due, and takes the one that has begun a little further."""
        if self._current is not None:
            self._go_on(self._current)
        elif self._asked() != self._answered or time.monotonic() >= self._due:
            self.begin()

    @property
    def idle(self) -> bool:
        return self._current is None

    def protect(self, rows: int) -> None:
        """So many rows are about to come in."""
        current = self._current
        if current is None:
            return
        overwritten = self._first_number() + self._replay.total + rows - self._replay.capacity
        while current.copied < min(overwritten, current.end):
            self._copy_piece(current, most=overwritten - current.copied)

    def close(self, beat: Callable[[], object]) -> None:
        """Saves what is newest, unless it is saved already. Raises CheckpointError where the disk refused: a run whose
        end was not saved must not end as if it were."""
        self._finish(beat)
        if self._saved != _moment(self._counters()):
            self.begin()
            self._finish(beat)
        if self._saver is not None:
            self._saver.close()
        if self._saved != _moment(self._counters()):
            raise CheckpointError(f"the end of the run could not be saved ({self._refused})")

    def _finish(self, beat: Callable[[], object]) -> None:
        while (current := self._current) is not None:
            beat()
            while current.copied < current.end and self._saver_of_now().waiting < _WAITING_PIECES:
                self._copy_piece(current)
            self._go_on(current)
            time.sleep(_LOOK_S)

    def begin(self) -> None:
        """A checkpoint of this moment, while none is being made."""
        self._answered = self._asked()
        replay, counters = self._replay, dict(self._counters())
        end = counters["env_steps"]
        first = end - replay.size
        # samplers write a pool's rows whenever they like, and in an order of their own: all are copied, at once
        pool = replay if isinstance(replay, PoolReplay) else None
        before = None if pool else self._before
        state = {**self._algorithm.state(), **{REPLAY + name: value for name, value in replay.draws().items()}}
        current = _Current(counters, end, first_missing_row(first, before), time.monotonic())
        current.copies.append(_Copy.of_state(state))
        if pool:
            current.copies.append(_Copy({"": pool.held()}, []))
            current.copied = end
        self._current = current
        run_dir, number, row_size = self._run_dir, next_number(self._run_dir), replay.layout.row_size
        self._saver_of_now().begin(lambda: CheckpointWriter(run_dir, number, row_size, first, end, before))

    def _go_on(self, current: _Current) -> None:
        saver = self._saver_of_now()
        now = time.monotonic()
        if current.copied < current.end and now >= current.next_copy_at and saver.waiting < _WAITING_PIECES:
            copied_bytes = self._copy_piece(current)
            current.next_copy_at = now + copied_bytes / COPY_BYTES_PER_S
        while current.copies and current.copies[0].arrived():
            saver.put(current.copies.popleft())
        if current.copied < current.end or current.copies:
            return
        if not current.handed_over:
            current.handed_over = True
            saver.end(current.counters)
        elif (outcome := saver.outcome()) is not None:
            self._current = None
            self._take(current, outcome)

    def _take(self, current: _Current, outcome: Checkpoint | Exception) -> None:
        took_s = time.monotonic() - current.began_at
        if isinstance(outcome, Checkpoint):
            self._before, self._saved = outcome, _moment(current.counters)
            self._due = time.monotonic() + self._every_s if self._every_s is not None else float("inf")
            written = self._saver_of_now().bytes_written
            self._say(
                "checkpoint",
                f"{outcome.number}: {outcome.end_row - outcome.first_row:,} rows of replay, {written:,} bytes written "
                f"in {took_s:.1f} s",
                number=outcome.number, updates=current.counters["updates"], env_steps=outcome.end_row,
                bytes=written, seconds=round(took_s, 3),
            )  # fmt: skip
        elif isinstance(outcome, OSError):
            if self._every_s is not None:
                self._due = time.monotonic() + min(TRY_AGAIN_AFTER_S, self._every_s)
            stands = "none is complete yet" if self._before is None else f"{self._before.number} stands"
            needed = current.rows_to_write * self._replay.layout.row_bytes
            self._refused = f"a checkpoint of {needed:,} bytes was not written: {outcome.strerror or outcome}; {stands}"
            self._say("warning", self._refused, bytes_needed=needed)
        else:
            raise outcome

    def _copy_piece(self, current: _Current, most: int | None = None) -> int:
        """-> bytes"""
        rows = max(1, PIECE_BYTES // self._replay.layout.row_bytes)
        wanted = min(current.end - current.copied, rows if most is None else most)
        piece = self._replay.view(current.copied - self._first_number(), wanted)
        current.copies.append(_Copy.of_rows(piece))
        current.copied += len(piece)
        return len(piece) * self._replay.layout.row_bytes

    def _first_number(self) -> int:
        """Of the row that replay counts as its row 0: rows of the whole run count on, replay may have begun anew."""
        return self._counters()["env_steps"] - self._replay.total

    def _saver_of_now(self) -> _Saver:
        if self._saver is None:
            self._saver = _Saver(self._run_dir)
        return self._saver


@dataclass
class _Copy:
    """Tensors on their way to the host."""

    tensors: dict[str, Tensor]
    marks: list[torch.cuda.Event]

    @staticmethod
    def of_state(state: Mapping[str, Tensor]) -> _Copy:
        copies = {name: _to_host(tensor) for name, tensor in state.items()}
        return _Copy(copies, _marks_of(state.values()))

    @staticmethod
    def of_rows(rows: Tensor) -> _Copy:
        return _Copy({"": _to_host(rows)}, _marks_of([rows]))

    def arrived(self) -> bool:
        return all(mark.query() for mark in self.marks)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in self.tensors.items()}


class _Current:
    """The checkpoint that is being made."""

    def __init__(self, counters: Mapping[str, int], end: int, copied: int, began_at: float) -> None:
        self.counters = counters
        self.end = end
        self.rows_to_write = end - copied
        self.copied = copied  # rows before this number are on the disk, or on their way
        self.began_at = began_at
        self.next_copy_at = 0.0
        self.copies: deque[_Copy] = deque()
        self.handed_over = False


class _Saver:
    """The thread, and what goes to and fro."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Checkpoint | Exception] = queue.SimpleQueue()
        self.bytes_written = 0
        self._thread = threading.Thread(target=self._run, name="saver", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._jobs.qsize()

    def begin(self, make_writer: Callable[[], CheckpointWriter]) -> None:
        self._jobs.put(make_writer)

    def put(self, copy: _Copy) -> None:
        self._jobs.put(copy)

    def end(self, counters: Mapping[str, int]) -> None:
        self._jobs.put(dict(counters))

    def outcome(self) -> Checkpoint | Exception | None:
        try:
            return self._outcomes.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        if hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):  # Linux takes a thread's number here
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while (make_writer := self._jobs.get()) is not None:
            self._outcomes.put(self._save(make_writer))

    def _save(self, make_writer: Callable[[], CheckpointWriter]) -> Checkpoint | Exception:
        jobs = self._until_end()
        writer: CheckpointWriter | None = None
        try:
            writer = make_writer()
            for job in jobs:
                if isinstance(job, dict):
                    checkpoint = writer.finish(job)
                    self.bytes_written = writer.bytes_written
                    remove_old(self._run_dir, checkpoint)
                    return checkpoint
                _write(writer, job)
            raise AssertionError("the queue ends with the counters")
        except Exception as error:
            if writer is not None:
                writer.abandon()
            for _ in jobs:  # the rest of a checkpoint that came to nothing
                pass
            return error

    def _until_end(self) -> Iterator[Any]:
        while True:
            job = self._jobs.get()
            yield job
            if isinstance(job, dict):
                return


def _moment(counters: Mapping[str, int]) -> tuple[int, int]:
    return counters["updates"], counters["env_steps"]


def _write(writer: CheckpointWriter, copy: _Copy) -> None:
    arrays = copy.arrays()
    if "" in arrays:
        writer.add_rows(arrays[""])
    else:
        wrong = [name for name, value in arrays.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
        if wrong:
            raise NotFiniteError(f"{', '.join(wrong)} not finite; the checkpoint was not written.")
        writer.add_state(arrays)


def _to_host(tensor: Tensor) -> Tensor:
    if not tensor.is_cuda:
        return tensor.detach().clone()
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor.detach(), non_blocking=True)


def _marks_of(tensors: Any) -> list[torch.cuda.Event]:
    """Of the GPUs' streams, behind the copies that were just queued there."""
    marks = []
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        mark = torch.cuda.Event()
        mark.record(torch.cuda.current_stream(device))
        marks.append(mark)
    return marks
