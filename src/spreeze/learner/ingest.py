"""Rows from the samplers' rings into replay, between updates.

    ring --copy 2--> staging (pinned for a GPU) --copy 3--> replay, on both sides where actor and critics have their own
                                                  on a GPU: to the device on its own stream while updates run, then put
                                                  in place in the order of the updates' stream

Because placing happens in the updates' own order, no update ever draws a row that is being overwritten. Draining runs
in the learner's loop and not in a thread of its own: on a GPU it fills the time in which the host waits anyway, on a
CPU it costs some ten microseconds between updates, and there is no lock to wait for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.ma  # np.percentile imports it when it is first called, and descriptors may be used up by then
import torch

from spreeze.board import Section
from spreeze.experience.link import PUBLISHED_NS, STEPPED_NS, UPDATES, VERSION, Drained, Receiver
from spreeze.learner.paired_replay import PairedReplay
from spreeze.replay import Replay, Side

STAGING_BYTES = 8 << 20
_BUFFERS = 3  # one being filled, one being copied, one being placed
_MS = 1e-6  # nanoseconds to milliseconds


class Intake:
    """`poll` lets waiting rows into replay, and counts them."""

    def __init__(self, env_steps: int = 0) -> None:
        """`env_steps`: those of earlier commands of the run."""
        self.ages = Ages()
        self.env_steps = env_steps
        self.drains = 0

    def poll(self, updates: int) -> int:
        """Rows that entered replay."""
        drained = self._bring()
        if drained is None or drained.rows == 0:
            return 0
        self.ages.note(drained, updates, time.monotonic_ns())
        self.env_steps += drained.rows
        self.drains += 1
        return drained.rows

    def _bring(self) -> Drained | None:
        raise NotImplementedError


class Ingest(Intake):
    """Moves what is waiting, up to one staging buffer."""

    def __init__(
        self,
        receiver: Receiver,
        replay: Replay | PairedReplay,
        block_rows: int,
        before_rows: Callable[[int], None],
        env_steps: int = 0,
    ) -> None:
        """`before_rows` is told how many rows are about to be put in place."""
        super().__init__(env_steps)
        self._receiver = receiver
        self._before_rows = before_rows
        rows = max(4 * block_rows, STAGING_BYTES // replay.layout.row_bytes)
        self._staging = _Staging(rows, replay.layout.row_size, replay.sides)

    def _bring(self) -> Drained | None:
        buffer = self._staging.free_buffer()
        if buffer is None:
            return None
        drained = self._receiver.drain(buffer)
        if drained.rows:
            self._before_rows(drained.rows)
            self._staging.place(drained.rows)
        return drained


class _Staging:
    """Host buffers in turn; one is free again when its rows are in place on every side. A GPU's side copies while the
    next buffer is filled; without one a buffer is free as soon as it is placed."""

    def __init__(self, rows: int, row_size: int, sides: Sequence[Side]) -> None:
        on_gpu = any(side.device.type == "cuda" for side in sides)
        self._host = [torch.zeros(rows, row_size, pin_memory=on_gpu) for _ in range(_BUFFERS if on_gpu else 1)]
        self._arrays = [buffer.numpy() for buffer in self._host]
        self._ways = [_GpuWay(rows, row_size, side) if side.device.type == "cuda" else _CpuWay(side) for side in sides]
        self._turn = 0

    def free_buffer(self) -> np.ndarray | None:
        return self._arrays[self._turn] if all(way.placed(self._turn) for way in self._ways) else None

    def place(self, count: int) -> None:
        for way in self._ways:
            way.place(self._host[self._turn][:count], self._turn)
        self._turn = (self._turn + 1) % len(self._host)


class _CpuWay:
    def __init__(self, side: Side) -> None:
        self._side = side

    def placed(self, turn: int) -> bool:
        return True

    def place(self, rows: torch.Tensor, turn: int) -> None:
        self._side.extend(rows)


class _GpuWay:
    """To the device on a stream of its own, then put in place in the order of the updates' stream."""

    def __init__(self, rows: int, row_size: int, side: Side) -> None:
        self._side = side
        self._stream = torch.cuda.Stream(side.device)
        self._device = [torch.zeros(rows, row_size, device=side.device) for _ in range(_BUFFERS)]
        self._copied = [torch.cuda.Event() for _ in range(_BUFFERS)]
        self._placed = [torch.cuda.Event() for _ in range(_BUFFERS)]
        torch.cuda.current_stream(side.device).synchronize()

    def placed(self, turn: int) -> bool:
        return self._placed[turn].query()

    def place(self, rows: torch.Tensor, turn: int) -> None:
        landed, updates_stream = self._device[turn][: len(rows)], torch.cuda.current_stream(self._side.device)
        with torch.cuda.stream(self._stream):
            landed.copy_(rows, non_blocking=True)
            self._copied[turn].record(self._stream)
        with torch.cuda.stream(updates_stream):  # its device becomes the current one, too
            updates_stream.wait_event(self._copied[turn])
            self._side.extend(landed)
            self._placed[turn].record(updates_stream)


class Ages:
    """How old rows and the weights behind them were when they came, over a window."""

    def __init__(self) -> None:
        self._row_ages: list[np.ndarray] = []
        self._weights_ages: list[np.ndarray] = []
        self._staleness: list[np.ndarray] = []

    def note(self, drained: Drained, updates: int, now_ns: int) -> None:
        told = drained.announcements
        self._row_ages.append(now_ns - told[:, STEPPED_NS])
        acted = told[told[:, VERSION] > 0]
        if len(acted):
            self._weights_ages.append(acted[:, STEPPED_NS] - acted[:, PUBLISHED_NS])
            self._staleness.append(updates - acted[:, UPDATES])

    def report(self, cells: Section) -> None:
        """Puts the window's percentiles on the board and begins a new one."""
        for name, parts, scale in (
            ("transfer_age_ms", self._row_ages, _MS),
            ("weights_age_ms", self._weights_ages, _MS),
            ("staleness_updates", self._staleness, 1.0),
        ):
            if parts:
                p50, p95 = np.percentile(np.concatenate(parts), (50, 95)) * scale
                cells.set_float(f"{name}_p50", p50)
                cells.set_float(f"{name}_p95", p95)
                parts.clear()
