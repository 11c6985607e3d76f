"""Weights through shared memory: two slots, written in turn, read without a lock.

    | newest | ...64 B... | slot 0: begun, ended, version, updates, published_ns | slot 1 | data 0 | data 1 |

`newest` is 2 x version + slot. The writer fills the other slot: `begun` first, then stamp and data, then `ended`, then
`newest`. A reader copies the newest slot and takes it only if `ended` before and `begun` after name its version: with
a second slot a writer must publish twice during one copy to disturb it, so readers do not starve.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spreeze.errors import WeightsError
from spreeze.memory import SharedBlock, fence
from spreeze.weights.link import WeightsStamp

_BEGUN, _ENDED, _STAMP = 0, 1, 2
_SLOT_CELLS = 8  # one cache line
_HEADER_BYTES = 3 * 64
_MOST_TRIES = 1000


def make_weights_block(weight_count: int) -> SharedBlock:
    block = SharedBlock.create("weights", _HEADER_BYTES + 2 * 4 * weight_count)
    block.array(np.int64, (_HEADER_BYTES // 8,))[:] = 0
    return block


class _Slots:
    def __init__(self, block: SharedBlock, weight_count: int) -> None:
        self.newest = block.array(np.int64, (1,))
        self.header = block.array(np.int64, (2, _SLOT_CELLS), 64)
        self.data = block.array(np.float32, (2, weight_count), _HEADER_BYTES)


class MemoryPublisher:
    """`announce` tells the version to those who only count."""

    def __init__(self, block: SharedBlock, weight_count: int, announce: Callable[[int], None]) -> None:
        self._slots = _Slots(block, weight_count)
        self._announce = announce

    def publish(self, flat: np.ndarray, stamp: WeightsStamp) -> None:
        slots = self._slots
        place = 1 - int(slots.newest[0]) % 2
        header = slots.header[place]
        header[_BEGUN] = stamp.version
        fence()
        slots.data[place] = flat
        header[_STAMP : _STAMP + 3] = stamp
        fence()
        header[_ENDED] = stamp.version
        fence()
        slots.newest[0] = 2 * stamp.version + place
        self._announce(stamp.version)


class MemoryFollower:
    def __init__(self, block: SharedBlock, weight_count: int) -> None:
        self._slots = _Slots(block, weight_count)

    def version(self) -> int:
        return int(self._slots.newest[0]) // 2

    def load(self, into: np.ndarray) -> WeightsStamp:
        slots = self._slots
        if len(into) != slots.data.shape[1]:
            raise WeightsError(f"the shared weights are {slots.data.shape[1]}, this policy has {len(into)}")
        for _ in range(_MOST_TRIES):
            version, place = divmod(int(slots.newest[0]), 2)
            if version == 0:
                raise WeightsError("no weights have been published yet")
            header = slots.header[place]
            if header[_ENDED] != version:
                continue
            fence()
            stamp = WeightsStamp(*(int(cell) for cell in header[_STAMP : _STAMP + 3]))
            into[:] = slots.data[place]
            fence()
            if header[_BEGUN] == version:
                return stamp
        raise WeightsError(f"the shared weights changed during each of {_MOST_TRIES} copies")
