"""Every way of experience under the name of its flag, as the contract suite and its writer processes open it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spreeze.experience.link import Channel, Demand
from spreeze.experience.ways import WAYS, make_channel, open_sender

BOUNDED_IN_ROWS = ("pool", "ring")  # the others are full when the kernel's buffer is
COPIED_IN_PARTS = ("pool", "ring")  # the others hand a block over in one system call


@dataclass(frozen=True)
class Opened:
    """One way with its writers, held by the process that reads."""

    way: str
    channel: Channel

    @staticmethod
    def make(way: str, writers: int, row_size: int, block_rows: int, row_capacity: int) -> Opened:
        kept_rows = writers * (row_capacity + 3)  # a pool wraps around after rows that are no multiple of a block
        return Opened(way, make_channel(way, Demand(row_size, writers, block_rows, row_capacity, kept_rows)))

    def sender(self, writer: int) -> Any:
        return self.channel.sender(writer)

    def receiver(self) -> Any:
        return self.channel.receiver()

    def wiring(self, writer: int) -> dict[str, Any]:
        return self.channel.sender_wiring(writer)

    def descriptors(self, writer: int) -> list[int]:
        return self.channel.sender_wiring(writer)["fds"]


__all__ = ["BOUNDED_IN_ROWS", "COPIED_IN_PARTS", "WAYS", "Opened", "open_sender"]
