"""What every way of experience promises: what `send` took comes out of `drain` whole, once and in order; nothing else
comes out, whoever is killed at whatever moment.

A way is one file of this folder with `make_channel`, `open_sender` and `open_receiver`; ways.py names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from spreeze.errors import ExperienceError

ROW_END, STEPPED_NS, VERSION, UPDATES, PUBLISHED_NS = range(5)  # columns of an announcement
NO_ANNOUNCEMENTS = np.zeros((0, 5), np.int64)
Wiring = dict[str, Any]  # JSON, with the inherited descriptors under "fds"


class Stamp(NamedTuple):
    """Under which weights a block's rows were acted."""

    version: int  # 0: random actions, before any weights
    updates: int  # updates that these weights had seen
    published_ns: int  # monotonic clock, the same in all processes of a machine


class Drained(NamedTuple):
    rows: int
    announcements: np.ndarray  # (blocks, 5) int64, columns as above; row_end is the block's count of rows here


class Demand(NamedTuple):
    """What a channel is made for."""

    row_size: int  # floats
    samplers: int
    block_rows: int  # the most that one `send` hands over
    row_capacity: int  # rows of one sampler that may wait
    kept_rows: int = 0  # rows that updates draw from, of all samplers together; only a pool holds them itself


class Sender(Protocol):
    """The writing end of one sampler. Only one process at a time holds it."""

    # rows (count, row_size) -> False, and nothing done, when full; it never waits
    def send(self, rows: np.ndarray, stamp: Stamp, stepped_ns: int) -> bool: ...


class Receiver(Protocol):
    """The reading end of all samplers."""

    # whole blocks, as many as have come and fit -> into[: drained.rows]
    def drain(self, into: np.ndarray) -> Drained: ...


class Channel(Protocol):
    """All ends of one way, held by the process that made it. Children inherit descriptors and open theirs."""

    def sender(self, sampler: int) -> Sender: ...  # in this process
    def receiver(self) -> Receiver: ...  # in this process
    def sender_wiring(self, sampler: int) -> Wiring: ...
    def receiver_wiring(self) -> Wiring: ...
    def close(self) -> None: ...


def refused_block(count: int, most: int, what: str) -> ExperienceError:
    return ExperienceError(f"a block of {count} rows was sent; this {what} takes 1 to {most}")


class Reader(Protocol):
    """The reading end of one sampler; None when nothing came that fits."""

    def drain(self, into: np.ndarray) -> Drained | None: ...


class InTurn:
    """A receiver over several readers, each getting its turn at being first."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers
        self._next = 0

    def start_over(self) -> None:
        """The next drain begins with the first of them."""
        self._next = 0

    def drain(self, into: np.ndarray) -> Drained:
        """Copies whole blocks of all of them into rows (up to len(into), row_size)."""
        filled, parts, count = 0, [], len(self._readers)
        for turn in range(count):
            drained = self._readers[(self._next + turn) % count].drain(into[filled:])
            if drained is not None:
                filled += drained.rows
                parts.append(drained.announcements)
        self._next = (self._next + 1) % count
        return Drained(filled, together(parts))


def together(parts: list[np.ndarray]) -> np.ndarray:
    """The announcements of one drain."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else NO_ANNOUNCEMENTS
