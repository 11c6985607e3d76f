"""One queue for all samplers: a baseline to compare the ring with. All of them write into the same socket, one after
the other by the kernel's own lock, which no killed process can leave locked. What comes is in the order in which it
was sent, so a sampler that never rests takes the room from the others. What it keeps, and what it cannot: messages.py.
"""

from __future__ import annotations

import socket

import numpy as np

from spreeze.experience.link import NO_ANNOUNCEMENTS, Demand, Drained, Wiring
from spreeze.experience.messages import MessageReader, MessageSender, MessageShape, make_pair, opened, shape_of


class QueueReceiver:
    def __init__(self, end: socket.socket, shape: MessageShape) -> None:
        self._reader = MessageReader(end, shape)

    def drain(self, into: np.ndarray) -> Drained:
        return self._reader.drain(into) or Drained(0, NO_ANNOUNCEMENTS)


class QueueChannel:
    def __init__(self, reading: socket.socket, writing: socket.socket, shape: MessageShape) -> None:
        self._reading, self._writing = reading, writing
        self._shape = shape

    def sender(self, sampler: int) -> MessageSender:
        return MessageSender(self._writing, self._shape)

    def receiver(self) -> QueueReceiver:
        return QueueReceiver(self._reading, self._shape)

    def sender_wiring(self, sampler: int) -> Wiring:
        return {"fds": [self._writing.fileno()], "shape": list(self._shape)}

    def receiver_wiring(self) -> Wiring:
        return {"fds": [self._reading.fileno()], "shape": list(self._shape)}

    def close(self) -> None:
        self._reading.close()
        self._writing.close()


def make_channel(demand: Demand) -> QueueChannel:
    return QueueChannel(*make_pair(demand, "queue", demand.samplers), shape_of(demand))


def open_sender(wiring: Wiring) -> MessageSender:
    return MessageSender(opened(wiring["fds"][0]), MessageShape(*wiring["shape"]))


def open_receiver(wiring: Wiring) -> QueueReceiver:
    return QueueReceiver(opened(wiring["fds"][0]), MessageShape(*wiring["shape"]))
