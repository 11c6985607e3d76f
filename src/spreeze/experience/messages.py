"""Blocks as messages through the kernel, for the ways that have no shared memory.

A message is a block's announcement and its rows, as they lie in memory: no pickle, no copy but the kernel's own two.
The socket is of the kind that keeps messages whole (SOCK_SEQPACKET): one is there entirely or not at all, also when
its writer is killed in the middle of it, which a plain pipe (and so a multiprocessing Pipe or Queue) cannot promise.

    | rows, time, version, updates, published | rows x row_size float32 |        one message, one system call each side

What waits is in the kernel's buffer. It is as large as a ring where the system allows that (net.core.wmem_max, often
only 208 KiB), and how many rows it holds depends on the size of the messages: the kernel's books take room as well.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import NamedTuple

import numpy as np

from spreeze.errors import ConfigError, ExperienceError
from spreeze.experience.link import Demand, Drained, Stamp, refused_block

_KERNEL_BYTES = 4096  # of a message's room in the buffer goes to the kernel's own books
_HEADER = 5 * 8
_MOST_MESSAGES = 256  # of one socket in one drain: a writer that never rests must not hold the reader


class MessageShape(NamedTuple):
    row_size: int  # floats
    row_capacity: int  # the most of a block


def make_pair(demand: Demand, way: str, sharing: int = 1) -> tuple[socket.socket, socket.socket]:
    """-> the reading end, the writing end, which `sharing` samplers use. Raises ConfigError where a block cannot be a
    message."""
    if sys.platform != "linux":
        raise ConfigError(f"--experience {way} needs sockets that keep messages whole, which only Linux has; use ring")
    reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (reading, writing):
        end.setblocking(False)
    needed = _HEADER + 4 * demand.row_size * demand.block_rows
    wanted = max(4 * needed, 4 * demand.row_size * demand.row_capacity)  # as much as a ring; the system may give less
    writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, min(wanted * sharing, 1 << 30))
    most = writing.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) - _KERNEL_BYTES
    if needed > most:
        reading.close()
        writing.close()
        raise ConfigError(
            f"--experience {way}: a block of {demand.block_rows} rows has {needed:,} bytes and a message here at most "
            f"{most:,} (net.core.wmem_max); lower --envs-per-sampler, or use --experience ring"
        )
    return reading, writing


def shape_of(demand: Demand) -> MessageShape:
    return MessageShape(demand.row_size, max(demand.row_capacity, demand.block_rows))


def opened(fd: int) -> socket.socket:
    """An inherited end."""
    end = socket.socket(fileno=fd)
    end.setblocking(False)
    return end


class MessageSender:
    def __init__(self, end: socket.socket, shape: MessageShape) -> None:
        self._end = end
        self._most_rows = shape.row_capacity
        self._header = np.zeros(5, np.int64)
        self._header_bytes = self._header.data.cast("B")

    def send(self, rows: np.ndarray, stamp: Stamp, stepped_ns: int) -> bool:
        count = len(rows)
        if not 0 < count <= self._most_rows:
            raise refused_block(count, self._most_rows, "channel")
        self._header[:] = (count, stepped_ns, *stamp)
        try:
            self._end.sendmsg((self._header_bytes, np.ascontiguousarray(rows, np.float32).data))
        except BlockingIOError:
            return False
        except OSError as error:
            raise ExperienceError(
                f"a block of {count} rows could not be sent: {os.strerror(error.errno or 0)}"
            ) from error
        return True


class MessageReader:
    """The reading end of one socket."""

    def __init__(self, end: socket.socket, shape: MessageShape) -> None:
        self._end = end
        self._row_bytes = 4 * shape.row_size
        self._most_rows = shape.row_capacity
        self._header = np.zeros(5, np.int64)
        self._header_bytes = self._header.data.cast("B")

    def drain(self, into: np.ndarray) -> Drained | None:
        """Straight into `into`, message after message."""
        room, filled = into.data.cast("B") if len(into) else memoryview(b""), 0
        told: list[np.ndarray] = []
        with contextlib.suppress(BlockingIOError):
            while len(told) < _MOST_MESSAGES and self._fits(len(into) - filled):
                got = self._end.recvmsg_into((self._header_bytes, room[filled * self._row_bytes :]))[0]
                if got == 0:
                    break  # no writer has its end any more
                count = self._header.item(0)
                if got != _HEADER + count * self._row_bytes or count < 1:
                    raise ExperienceError(f"a message of {got} bytes says that it has {count} rows")
                told.append(self._header.copy())
                filled += count
        return Drained(filled, np.stack(told)) if told else None

    def _fits(self, rows: int) -> bool:
        """Where any block fits the next one is not looked at first."""
        if rows >= self._most_rows:
            return True
        if rows == 0:
            return False
        self._end.recvmsg_into((self._header_bytes,), 0, socket.MSG_PEEK)
        return self._header.item(0) <= rows
