"""The ways of experience by the name of their flag."""

from __future__ import annotations

from types import ModuleType

from spreeze.experience import pipe, pool, queue, ring
from spreeze.experience.link import Channel, Demand, Receiver, Sender, Wiring

WAYS: dict[str, ModuleType] = {"ring": ring, "pool": pool, "queue": queue, "pipe": pipe}


def make_channel(way: str, demand: Demand) -> Channel:
    return WAYS[way].make_channel(demand)


def open_sender(way: str, wiring: Wiring) -> Sender:
    return WAYS[way].open_sender(wiring)


def open_receiver(way: str, wiring: Wiring) -> Receiver:
    return WAYS[way].open_receiver(wiring)
