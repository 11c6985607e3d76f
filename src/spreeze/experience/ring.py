"""One sampler's way to the learner: a ring in shared memory with one writer and one reader, no lock, no pickle.

    | block_head | ...64 B... | block_tail, row_tail | ...64 B... | announcements | rows (capacity x row) |
      writer's line             reader's line                       slots x 5 int64:   float32
                                                                    row_end, time, version, updates, published

The writer copies a block's rows, fills the block's announcement, and only then moves `block_head`. The reader sees the
new head, copies the rows out, and only then moves its tails. So a row is either announced and whole, or it does not
exist: a writer that is killed half-way never moved the head, and its successor writes over the remains. A full ring
makes `send` return False; nothing is ever overwritten unread.

Why no lock is needed: head and tails are aligned 8-byte cells with one writer each, and a fence stands between the
data and the cell, so whoever sees a moved head sees the rows behind it. On x86-64 the fence costs nothing.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from spreeze.errors import ExperienceError
from spreeze.experience.link import ROW_END, Demand, Drained, InTurn, Stamp, Wiring, refused_block
from spreeze.memory import SharedBlock, fence
from spreeze.spec import Layout

RING_BYTES = 4 << 20  # a sampler's ring: large enough for the learner's start-up and its longest update,
RING_ROWS = 16_384  # small enough that a full one does not hold old rows
_LINE = 64  # bytes of a cache line: head and tails never share one
_HEAD, _BLOCK_TAIL, _ROW_TAIL = 0, _LINE // 8, _LINE // 8 + 1  # int64 cells
_ANNOUNCEMENTS_AT = 2 * _LINE
_ANNOUNCEMENT = struct.Struct("=5q")


class RingShape(NamedTuple):
    row_size: int  # floats
    row_capacity: int
    slots: int  # blocks that may wait unread

    @property
    def rows_at(self) -> int:
        return _ANNOUNCEMENTS_AT + self.slots * _ANNOUNCEMENT.size

    @property
    def size_bytes(self) -> int:
        return self.rows_at + self.row_capacity * self.row_size * 4


def make_ring_block(label: str, shape: RingShape, with_rows: bool = True) -> SharedBlock:
    block = SharedBlock.create(label, shape.size_bytes if with_rows else shape.rows_at)
    block.array(np.int64, (_ANNOUNCEMENTS_AT // 8,))[:] = 0  # poison everywhere but in the counters
    return block


def _rows_in(block: SharedBlock, shape: RingShape) -> np.ndarray:
    return block.array(np.float32, (shape.row_capacity, shape.row_size), shape.rows_at)


class RingSender:
    """The writing end. Only one process at a time holds it; a successor goes on behind the last announced block."""

    def __init__(
        self, block: SharedBlock, shape: RingShape, rows: np.ndarray | None = None, room: int | None = None
    ) -> None:
        """`rows`: where they lie, if not in the block; `room`: rows that may wait unread, if not as many as it has."""
        self._shape = shape
        self._cells = block.array(np.int64, (_ANNOUNCEMENTS_AT // 8,)).data
        self._announcements = block.array(np.uint8, (shape.slots * _ANNOUNCEMENT.size,), _ANNOUNCEMENTS_AT).data
        self._rows = _rows_in(block, shape) if rows is None else rows
        self._room = shape.row_capacity if room is None else room
        self._block_head: int = self._cells[_HEAD]
        self._row_head = 0
        if self._block_head:
            last = (self._block_head - 1) % shape.slots
            self._row_head = _ANNOUNCEMENT.unpack_from(self._announcements, last * _ANNOUNCEMENT.size)[ROW_END]

    def send(self, rows: np.ndarray, stamp: Stamp, stepped_ns: int) -> bool:
        """Copies rows (count, row_size) into the ring and announces them; False, and nothing done, when full."""
        count, capacity = len(rows), self._shape.row_capacity
        if not 0 < count <= self._room:
            raise refused_block(count, self._room, "ring")
        cells = self._cells
        row_end = self._row_head + count
        if row_end - cells[_ROW_TAIL] > self._room or self._block_head - cells[_BLOCK_TAIL] >= self._shape.slots:
            return False
        start = self._row_head % capacity
        until_wrap = capacity - start
        if count <= until_wrap:
            self._rows[start : start + count] = rows
        else:
            self._rows[start:] = rows[:until_wrap]
            self._rows[: count - until_wrap] = rows[until_wrap:]
        slot = self._block_head % self._shape.slots
        _ANNOUNCEMENT.pack_into(self._announcements, slot * _ANNOUNCEMENT.size, row_end, stepped_ns, *stamp)
        fence()
        self._block_head += 1
        self._row_head = row_end
        cells[_HEAD] = self._block_head
        return True


class RingReader:
    """The reading end of one ring."""

    def __init__(self, block: SharedBlock, shape: RingShape, rows: np.ndarray | None = None) -> None:
        self._shape = shape
        self._cells = block.array(np.int64, (_ANNOUNCEMENTS_AT // 8,)).data
        self._announcements = block.array(np.int64, (shape.slots, 5), _ANNOUNCEMENTS_AT)
        self._rows = _rows_in(block, shape) if rows is None else rows
        self._block_tail: int = self._cells[_BLOCK_TAIL]
        self._row_tail: int = self._cells[_ROW_TAIL]

    def drain(self, into: np.ndarray) -> Drained | None:
        """Copies as many whole blocks as are announced and fit; None when there is nothing to copy."""
        drained = self.look(len(into))
        if drained is not None:
            self.copy(drained.rows, into)
            self.release(drained)
        return drained

    def look(self, most_rows: int) -> Drained | None:
        """The announced blocks that fit into `most_rows`. They stay where they are until they are released."""
        waiting = self._cells[_HEAD] - self._block_tail
        if waiting == 0:
            return None
        fence()
        announcements = self._announced(waiting)
        row_ends = announcements[:, ROW_END]
        blocks, row_end = waiting, row_ends.item(-1)
        if row_end - self._row_tail > most_rows:
            blocks = int(row_ends.searchsorted(self._row_tail + most_rows, side="right"))
            if blocks == 0:
                return None
            announcements = announcements[:blocks]
            row_end = row_ends.item(blocks - 1)
        count = row_end - self._row_tail
        if not 0 < count <= self._shape.row_capacity:
            raise ExperienceError(
                f"a ring announces {count} rows in {blocks} blocks, it holds {self._shape.row_capacity}: "
                "its memory was written by somebody else"
            )
        if blocks > 1:
            announcements[1:, ROW_END] -= announcements[:-1, ROW_END].copy()
        announcements[0, ROW_END] -= self._row_tail
        return Drained(count, announcements)

    def release(self, drained: Drained) -> None:
        """From here on the writer may write over what was looked at."""
        fence()
        self._row_tail += drained.rows
        self._block_tail += len(drained.announcements)
        self._cells[_ROW_TAIL] = self._row_tail
        self._cells[_BLOCK_TAIL] = self._block_tail

    @property
    def rows_released(self) -> int:
        """Since the ring was made."""
        return self._row_tail

    def _announced(self, waiting: int) -> np.ndarray:
        """A copy of the unread announcements, oldest first."""
        start = self._block_tail % self._shape.slots
        until_wrap = self._shape.slots - start
        if waiting <= until_wrap:
            return self._announcements[start : start + waiting].copy()
        return np.concatenate((self._announcements[start:], self._announcements[: waiting - until_wrap]))

    def copy(self, count: int, into: np.ndarray) -> None:
        """The oldest unreleased rows."""
        start = self._row_tail % self._shape.row_capacity
        until_wrap = self._shape.row_capacity - start
        if count <= until_wrap:
            into[:count] = self._rows[start : start + count]
        else:
            into[:until_wrap] = self._rows[start:]
            into[until_wrap:count] = self._rows[: count - until_wrap]


class RingReceiver(InTurn):
    """All samplers' rings at their reading end."""

    def __init__(self, blocks: list[SharedBlock], shape: RingShape) -> None:
        super().__init__([RingReader(block, shape) for block in blocks])


class RingChannel:
    """A ring for every sampler."""

    def __init__(self, blocks: list[SharedBlock], shape: RingShape) -> None:
        self.blocks = blocks
        self.shape = shape

    def sender(self, sampler: int) -> RingSender:
        return RingSender(self.blocks[sampler], self.shape)

    def receiver(self) -> RingReceiver:
        return RingReceiver(self.blocks, self.shape)

    def sender_wiring(self, sampler: int) -> Wiring:
        return self._wiring([self.blocks[sampler]])

    def receiver_wiring(self) -> Wiring:
        return self._wiring(self.blocks)

    def _wiring(self, blocks: list[SharedBlock]) -> Wiring:
        return {"fds": [block.fd for block in blocks], "shape": list(self.shape)}

    def close(self) -> None:
        for block in self.blocks:
            block.close_fd()


def make_channel(demand: Demand) -> RingChannel:
    shape = ring_shape(demand.row_size, demand.block_rows, demand.row_capacity)
    return RingChannel([make_ring_block(f"ring-{k}", shape) for k in range(demand.samplers)], shape)


def open_sender(wiring: Wiring) -> RingSender:
    shape = RingShape(*wiring["shape"])
    return RingSender(SharedBlock(wiring["fds"][0], shape.size_bytes), shape)


def open_receiver(wiring: Wiring) -> RingReceiver:
    shape = RingShape(*wiring["shape"])
    return RingReceiver([SharedBlock(fd, shape.size_bytes) for fd in wiring["fds"]], shape)


def ring_shape(row_size: int, block_rows: int, row_capacity: int) -> RingShape:
    """A ring that holds `row_capacity` rows, and no fewer than four blocks; an announcement for the smallest block of
    an engine that resets some of its environments is kept as well."""
    capacity = max(row_capacity, 4 * block_rows)
    return RingShape(row_size, capacity, slots=max(64, 4 * capacity // max(1, block_rows)))


def waiting_rows(layout: Layout, block_rows: int) -> int:
    """Rows of one sampler of a run that may wait."""
    return min(RING_ROWS, max(RING_BYTES // layout.row_bytes, 8 * block_rows))


def sampler_ring_shape(layout: Layout, block_rows: int) -> RingShape:
    """Of each sampler of a run."""
    return ring_shape(layout.row_size, block_rows, waiting_rows(layout, block_rows))
