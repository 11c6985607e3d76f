"""A pipe for every sampler: a baseline to compare the ring with. What it keeps, and what it cannot: messages.py."""

from __future__ import annotations

import socket

from spreeze.experience.link import Demand, InTurn, Wiring
from spreeze.experience.messages import MessageReader, MessageSender, MessageShape, make_pair, opened, shape_of


class PipeReceiver(InTurn):
    def __init__(self, ends: list[socket.socket], shape: MessageShape) -> None:
        super().__init__([MessageReader(end, shape) for end in ends])


class PipeChannel:
    def __init__(self, pairs: list[tuple[socket.socket, socket.socket]], shape: MessageShape) -> None:
        self._reading, self._writing = [list(ends) for ends in zip(*pairs, strict=True)]
        self._shape = shape

    def sender(self, sampler: int) -> MessageSender:
        return MessageSender(self._writing[sampler], self._shape)

    def receiver(self) -> PipeReceiver:
        return PipeReceiver(self._reading, self._shape)

    def sender_wiring(self, sampler: int) -> Wiring:
        return {"fds": [self._writing[sampler].fileno()], "shape": list(self._shape)}

    def receiver_wiring(self) -> Wiring:
        return {"fds": [end.fileno() for end in self._reading], "shape": list(self._shape)}

    def close(self) -> None:
        for end in (*self._reading, *self._writing):
            end.close()


def make_channel(demand: Demand) -> PipeChannel:
    return PipeChannel([make_pair(demand, "pipe") for _ in range(demand.samplers)], shape_of(demand))


def open_sender(wiring: Wiring) -> MessageSender:
    return MessageSender(opened(wiring["fds"][0]), MessageShape(*wiring["shape"]))


def open_receiver(wiring: Wiring) -> PipeReceiver:
    return PipeReceiver([opened(fd) for fd in wiring["fds"]], MessageShape(*wiring["shape"]))
