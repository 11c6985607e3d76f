"""Every way of experience under the name of its flag, as the contract suite and its writer processes open it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from spreeze.experience.ring import RingReceiver, RingSender, RingShape, make_ring_block, ring_shape
from spreeze.memory import SharedBlock


class Channel(Protocol):
    """One way with its writers, held by the process that reads."""

    def sender(self, writer: int) -> Any: ...  # in this process
    def receiver(self) -> Any: ...
    def wiring(self, writer: int) -> dict[str, Any]: ...  # JSON, for open_sender in a child that inherits...
    def descriptors(self, writer: int) -> list[int]: ...  # ...these


@dataclass(frozen=True)
class RingChannel:
    blocks: list[SharedBlock]
    shape: RingShape

    @staticmethod
    def make(writers: int, row_size: int, block_rows: int, row_capacity: int) -> RingChannel:
        shape = ring_shape(row_size, block_rows, row_capacity)
        return RingChannel([make_ring_block(f"test-{writer}", shape) for writer in range(writers)], shape)

    def sender(self, writer: int) -> RingSender:
        return RingSender(self.blocks[writer], self.shape)

    def receiver(self) -> RingReceiver:
        return RingReceiver(self.blocks, self.shape)

    def wiring(self, writer: int) -> dict[str, Any]:
        return {"fd": self.blocks[writer].fd, "size_bytes": self.blocks[writer].size_bytes, "shape": list(self.shape)}

    def descriptors(self, writer: int) -> list[int]:
        return [self.blocks[writer].fd]

    @staticmethod
    def open_sender(wiring: dict[str, Any]) -> RingSender:
        return RingSender(SharedBlock(wiring["fd"], wiring["size_bytes"]), RingShape(*wiring["shape"]))


WAYS: dict[str, Any] = {"ring": RingChannel}
