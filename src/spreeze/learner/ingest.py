"""Rows from the samplers' rings into replay, between updates.

    ring --copy 2--> staging (pinned for a GPU) --copy 3--> replay
                                                  on a GPU: to the device on its own stream while updates run, then put
                                                  in place in the order of the updates' stream

Because placing happens in the updates' own order, no update ever draws a row that is being overwritten. Draining runs
in the learner's loop and not in a thread of its own: on a GPU it fills the time in which the host waits anyway, on a
CPU it costs some ten microseconds between updates, and there is no lock to wait for.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from spreeze.board import Section
from spreeze.experience.ring import PUBLISHED_NS, STEPPED_NS, UPDATES, VERSION, Drained, RingReceiver
from spreeze.replay import Replay

STAGING_BYTES = 8 << 20
_BUFFERS = 3  # one being filled, one being copied, one being placed
_MS = 1e-6  # nanoseconds to milliseconds


class Ingest:
    """`poll` moves what is waiting, up to one staging buffer."""

    def __init__(self, receiver: RingReceiver, replay: Replay, block_rows: int, device: torch.device) -> None:
        self._receiver = receiver
        self._replay = replay
        rows = max(4 * block_rows, STAGING_BYTES // replay.layout.row_bytes)
        make = _GpuStaging if device.type == "cuda" else _CpuStaging
        self._staging = make(rows, replay.layout.row_size, device)
        self.ages = Ages()
        self.env_steps = 0
        self.drains = 0

    def poll(self, updates: int) -> int:
        """Rows that entered replay."""
        buffer = self._staging.free_buffer()
        if buffer is None:
            return 0
        drained = self._receiver.drain(buffer)
        if drained.rows == 0:
            return 0
        self._staging.place(drained.rows, self._replay)
        self.ages.note(drained, updates, time.monotonic_ns())
        self.env_steps += drained.rows
        self.drains += 1
        return drained.rows


class _CpuStaging:
    def __init__(self, rows: int, row_size: int, device: torch.device) -> None:
        self._rows = torch.zeros(rows, row_size)
        self._array = self._rows.numpy()

    def free_buffer(self) -> np.ndarray:
        return self._array

    def place(self, count: int, replay: Replay) -> None:
        replay.extend(self._rows[:count])


class _GpuStaging:
    """Buffers in turn; one is free again when its rows are in place."""

    def __init__(self, rows: int, row_size: int, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._host = [torch.zeros(rows, row_size, pin_memory=True) for _ in range(_BUFFERS)]
        self._arrays = [rows_.numpy() for rows_ in self._host]
        self._device = [torch.zeros(rows, row_size, device=device) for _ in range(_BUFFERS)]
        self._copied = [torch.cuda.Event() for _ in range(_BUFFERS)]
        self._placed = [torch.cuda.Event() for _ in range(_BUFFERS)]
        self._turn = 0
        torch.cuda.current_stream(device).synchronize()

    def free_buffer(self) -> np.ndarray | None:
        return self._arrays[self._turn] if self._placed[self._turn].query() else None

    def place(self, count: int, replay: Replay) -> None:
        turn, updates_stream = self._turn, torch.cuda.current_stream()
        with torch.cuda.stream(self._stream):
            self._device[turn][:count].copy_(self._host[turn][:count], non_blocking=True)
            self._copied[turn].record()
        updates_stream.wait_event(self._copied[turn])
        replay.extend(self._device[turn][:count])
        self._placed[turn].record(updates_stream)
        self._turn = (turn + 1) % _BUFFERS


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
