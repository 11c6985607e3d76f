"""Ways in which a file is damaged, by accident and on purpose. Every one is drawn from the generator that is given."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 10**400, 2**63, -(2**63), float("nan"), float("inf"), "", "auto", "x" * 5_000, "a:b",
    "../../etc/passwd", "\x1b[2J", "\x00", [], {}, [[]], [[[[[]]]]], {"": {}}, [0] * 2_000, [-1, 2**40], "1e999",
)  # fmt: skip
DEEP = b"[" * 100_000


def _flip_bits(data: bytes, moments: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(moments.randint(1, 8)):
        damaged[moments.randrange(len(damaged))] ^= 1 << moments.randrange(8)
    return bytes(damaged)


def _cut(data: bytes, moments: random.Random) -> bytes:
    return data[: moments.randrange(len(data))]


def _lengthen(data: bytes, moments: random.Random) -> bytes:
    return data + moments.randbytes(moments.randint(1, 2_000))


def _insert(data: bytes, moments: random.Random) -> bytes:
    place = moments.randrange(len(data))
    return data[:place] + moments.randbytes(moments.randint(1, 64)) + data[place:]


def _take_out(data: bytes, moments: random.Random) -> bytes:
    start = moments.randrange(len(data))
    return data[:start] + data[start + moments.randint(1, 64) :]


def _zero_a_stretch(data: bytes, moments: random.Random) -> bytes:  # as a crash of the machine leaves a file
    start = moments.randrange(len(data))
    return data[:start] + bytes(len(data) - start)


def _fill_the_front(data: bytes, moments: random.Random) -> bytes:  # lengths stand in front
    return moments.choice((b"\xff", b"\x7f", b"\x00")) * moments.randint(1, 48) + data[48:]


def _replace_all(data: bytes, moments: random.Random) -> bytes:
    return moments.choice((b"", DEEP, b"\x80\x04c__builtin__\nexec\n", moments.randbytes(500), b"{}", b"[]", b"null"))


BYTE_DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip_bits, _cut, _lengthen, _insert, _take_out, _zero_a_stretch, _fill_the_front, _replace_all,
)  # fmt: skip


def damage_bytes(data: bytes, moments: random.Random) -> bytes:
    return moments.choice(BYTE_DAMAGES)(data, moments)


def damage_document(document: Any, moments: random.Random) -> Any:
    """A JSON value with one to three of its parts replaced, taken away or made hostile."""
    damaged = json.loads(json.dumps(document))
    for _ in range(moments.randint(1, 3)):
        owner, key = moments.choice(_places(damaged))
        if isinstance(owner, dict) and moments.random() < 0.3:
            del owner[key]
            if not damaged:
                return damaged
        else:
            owner[key] = copy.deepcopy(moments.choice(HOSTILE_VALUES))
    return damaged


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value that has at least one."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]
