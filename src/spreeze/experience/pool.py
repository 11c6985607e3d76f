"""The paper's way: samplers write straight into the pool of experience that updates draw from. Learner on a CPU.

    rows of the pool, one region a sampler, each filled round and round by that sampler alone:

    | region 0                                   | region 1                                   | ...
    | drawable ...... | window      | drawable   |
                      ^ taken       ^ oldest drawable row
                        the sampler writes here and nowhere else

Each region is a ring (ring.py) whose rows stay where they are after they were taken: its writer may be ahead of what
was taken by `window` rows and no more, and an update draws from the region's other rows only. Both sides change when
the reader takes rows, which it does in the learner's loop, between two updates: so no row is ever drawn while it is
being written, and there is no lock. A sampler that is killed half-way leaves its remains in the window, where nobody
draws. A row is copied once, into the pool; beyond the drawable rows the pool has `window` rows a sampler.

Updates on a GPU draw from its own memory, which no sampler can write: there the pool is refused (resolve.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spreeze.experience.link import NO_ANNOUNCEMENTS, Demand, Drained, InTurn, Wiring, together
from spreeze.experience.ring import RingReader, RingSender, RingShape, make_ring_block, ring_shape
from spreeze.memory import SharedBlock


class PoolShape(NamedTuple):
    row_size: int  # floats
    regions: int
    region_rows: int
    window: int  # rows of a region that its sampler may be writing
    slots: int  # blocks of a sampler that may wait to be taken

    @property
    def ring(self) -> RingShape:
        """Of a region's counters and announcements."""
        return RingShape(self.row_size, self.region_rows, self.slots)

    @property
    def drawable(self) -> int:
        """The most, of one region."""
        return self.region_rows - self.window

    @property
    def rows_bytes(self) -> int:
        return 4 * self.regions * self.region_rows * self.row_size

    def regions_of(self, rows: SharedBlock) -> np.ndarray:
        return rows.array(np.float32, (self.regions, self.region_rows, self.row_size))


def pool_shape(demand: Demand) -> PoolShape:
    waiting = ring_shape(demand.row_size, demand.block_rows, demand.row_capacity)
    kept = max(1, -(-demand.kept_rows // demand.samplers))
    return PoolShape(demand.row_size, demand.samplers, kept + waiting.row_capacity, waiting.row_capacity, waiting.slots)


class PoolSender(RingSender):
    """Writes into its own region."""

    def __init__(self, counters: SharedBlock, rows: SharedBlock, shape: PoolShape, region: int) -> None:
        super().__init__(counters, shape.ring, shape.regions_of(rows)[region], shape.window)


class Spans(NamedTuple):
    """Of each region, which rows can be drawn: `count` from `start` on, round and round."""

    starts: np.ndarray  # (regions,) int64, within the region
    counts: np.ndarray  # (regions,) int64


class PoolReceiver(InTurn):
    """The side that draws. What it has taken can be drawn until the next `take`. A reader that keeps rows of its own
    drains instead, which takes rows and copies them out."""

    def __init__(self, counters: list[SharedBlock], rows: SharedBlock, shape: PoolShape) -> None:
        self.shape = shape
        regions = shape.regions_of(rows)
        self.rows = regions.reshape(-1, shape.row_size)  # (regions x region_rows, row_size), in place
        self._regions = [RingReader(block, shape.ring, regions[k]) for k, block in enumerate(counters)]
        super().__init__(self._regions)

    def take(self) -> Drained:
        """Makes all announced rows drawable, in place; as many of the oldest are given to their samplers."""
        parts = [self._take(reader, self.shape.window) for reader in self._regions]
        announcements = together([part for part in parts if len(part)])
        return Drained(int(announcements[:, 0].sum()), announcements)

    def _take(self, reader: RingReader, most_rows: int) -> np.ndarray:
        looked = reader.look(most_rows)
        if looked is None:
            return NO_ANNOUNCEMENTS
        reader.release(looked)
        return looked.announcements

    def spans(self) -> Spans:
        taken = np.array([reader.rows_released for reader in self._regions], np.int64)
        counts = np.minimum(taken, self.shape.drawable)
        return Spans((taken - counts) % self.shape.region_rows, counts)


class PoolChannel:
    def __init__(self, counters: list[SharedBlock], rows: SharedBlock, shape: PoolShape) -> None:
        self._counters = counters
        self._rows = rows
        self.shape = shape

    def sender(self, sampler: int) -> PoolSender:
        return PoolSender(self._counters[sampler], self._rows, self.shape, sampler)

    def receiver(self) -> PoolReceiver:
        return PoolReceiver(self._counters, self._rows, self.shape)

    def sender_wiring(self, sampler: int) -> Wiring:
        return {**self._wiring([self._counters[sampler]]), "region": sampler}

    def receiver_wiring(self) -> Wiring:
        return self._wiring(self._counters)

    def _wiring(self, counters: list[SharedBlock]) -> Wiring:
        return {"fds": [self._rows.fd, *(block.fd for block in counters)], "shape": list(self.shape)}

    def close(self) -> None:
        for block in (self._rows, *self._counters):
            block.close_fd()


def make_channel(demand: Demand) -> PoolChannel:
    shape = pool_shape(demand)
    counters = [make_ring_block(f"region-{k}", shape.ring, with_rows=False) for k in range(demand.samplers)]
    return PoolChannel(counters, SharedBlock.create("pool", shape.rows_bytes), shape)


def _open(wiring: Wiring) -> tuple[list[SharedBlock], SharedBlock, PoolShape]:
    shape = PoolShape(*wiring["shape"])
    rows, *counters = wiring["fds"]
    blocks = [SharedBlock(fd, shape.ring.rows_at) for fd in counters]
    return blocks, SharedBlock(rows, shape.rows_bytes), shape


def open_sender(wiring: Wiring) -> PoolSender:
    (counters,), rows, shape = _open(wiring)
    return PoolSender(counters, rows, shape, wiring["region"])


def open_receiver(wiring: Wiring) -> PoolReceiver:
    return PoolReceiver(*_open(wiring))
