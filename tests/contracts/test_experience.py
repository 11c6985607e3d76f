"""What every way of experience promises: what `send` took comes out whole, once and in order; nothing else comes out.

A new way is tested by naming it in spreeze.experience.ways.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experience_ways import BOUNDED_IN_ROWS, COPIED_IN_PARTS, WAYS, Opened
from hypothesis import given, settings
from hypothesis import strategies as st
from row_proof import ROW_SIZE, Account, make_rows, next_sequence

from spreeze.errors import ConfigError, ExperienceError
from spreeze.experience.link import PUBLISHED_NS, ROW_END, STEPPED_NS, UPDATES, VERSION, Stamp
from spreeze.experience.ring import RingReceiver, RingSender, RingShape, make_ring_block
from spreeze.memory import SharedBlock

WITHIN_S = 60.0  # a test that would wait for ever fails instead
HERE = Path(__file__).parent
STAMP = Stamp(1, 2, 3)


@pytest.fixture(params=sorted(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return request.param


class Writers:
    """Writer processes on one channel, and what each of them says that it has sent."""

    def __init__(self, way: str, channel: Any, writers: int, block_rows: int, row_size: int = ROW_SIZE) -> None:
        self._way, self._channel, self._block_rows, self._row_size = way, channel, block_rows, row_size
        self._told = SharedBlock.create("told", 16 * writers, poison=False)
        self.sent, self.refused = self._told.array(np.int64, (writers, 2)).T
        self.running: list[subprocess.Popen] = []

    def start(self, writer: int, most_rows: int, life: int = 0, die_at_touch: int = 0) -> subprocess.Popen:
        self.sent[writer] = 0
        told = {
            "way": self._way, "wiring": self._channel.wiring(writer), "writer": writer, "life": life,
            "most_rows": most_rows, "block_rows": self._block_rows, "row_size": self._row_size,
            "die_at_touch": die_at_touch, "told_fd": self._told.fd, "told_bytes": self._told.size_bytes,
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, str(HERE / "experience_writer.py"), json.dumps(told)],
            pass_fds=[self._told.fd, *self._channel.descriptors(writer)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent / "src"), str(HERE)])},
        )
        self.running.append(process)
        return process

    def kill_all(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@pytest.fixture
def start_writers() -> Iterator[Callable[..., Writers]]:
    made: list[Writers] = []

    def start(*args: Any, **kwargs: Any) -> Writers:
        made.append(Writers(*args, **kwargs))
        return made[-1]

    yield start
    for writers in made:
        writers.kill_all()


def drain_until(receiver: Any, into: np.ndarray, account: Account, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < deadline, f"waited {WITHIN_S:.0f} s; received {account.received}"
        drained = receiver.drain(into)
        account.take(into[: drained.rows], drained.announcements[:, ROW_END].tolist())


def everything(receiver: Any, row_size: int = ROW_SIZE) -> np.ndarray:
    into = np.zeros((10_000, row_size), np.float32)
    drained = receiver.drain(into)
    return into[: drained.rows]


# --- one writer, in this process ---------------------------------------------------------------------------------


def test_an_unused_channel_gives_nothing(way: str) -> None:
    drained = Opened.make(way, 2, ROW_SIZE, 4, 16).receiver().drain(np.zeros((8, ROW_SIZE), np.float32))
    assert drained.rows == 0
    assert drained.announcements.shape == (0, 5)


def test_blocks_come_out_with_what_was_said_about_them(way: str) -> None:
    channel = Opened.make(way, 1, ROW_SIZE, 4, 16)
    sender, receiver = channel.sender(0), channel.receiver()
    assert sender.send(make_rows(0, 0, 0, 3), Stamp(11, 12, 13), stepped_ns=14)
    assert sender.send(make_rows(0, 0, 3, 1), Stamp(21, 22, 23), stepped_ns=24)
    into = np.zeros((8, ROW_SIZE), np.float32)
    drained = receiver.drain(into)
    assert drained.rows == 4
    next_sequence(into[:4], 0, 0, 0)
    told = drained.announcements
    assert told[:, ROW_END].tolist() == [3, 1]
    assert told[:, STEPPED_NS].tolist() == [14, 24]
    assert told[:, [VERSION, UPDATES, PUBLISHED_NS]].tolist() == [[11, 12, 13], [21, 22, 23]]
    assert receiver.drain(into).rows == 0


def test_a_full_channel_refuses_and_loses_nothing(way: str) -> None:
    channel = Opened.make(way, 1, ROW_SIZE, 4, 16)
    sender, receiver = channel.sender(0), channel.receiver()
    sent = 0
    while sender.send(make_rows(0, 0, sent, 3), STAMP, 0):
        sent += 3
        assert sent < 10_000, "it never refuses"
    refused = make_rows(0, 0, sent, 3)
    assert not sender.send(refused, STAMP, 0)  # and asking again changes nothing
    assert next_sequence(everything(receiver), 0, 0, 0) == sent
    assert sender.send(refused, STAMP, 0)
    assert next_sequence(everything(receiver), 0, 0, sent) == sent + 3


def test_only_whole_blocks_are_drained_into_little_room(way: str) -> None:
    channel = Opened.make(way, 1, ROW_SIZE, 4, 16)
    sender, receiver = channel.sender(0), channel.receiver()
    for first, count in ((0, 4), (4, 2), (6, 3)):
        assert sender.send(make_rows(0, 0, first, count), STAMP, 0)
    into = np.full((7, ROW_SIZE), -1.0, np.float32)
    assert receiver.drain(into[:3]).rows == 0
    assert (into == -1.0).all()
    assert receiver.drain(into).rows == 6  # 4 + 2; the third block does not fit
    next_sequence(into[:6], 0, 0, 0)
    assert (into[6] == -1.0).all()
    assert receiver.drain(into).rows == 3
    next_sequence(into[:3], 0, 0, 6)


def test_an_impossible_block_is_refused_by_name(way: str) -> None:
    channel = Opened.make(way, 1, ROW_SIZE, 4, 16)
    for count in (0, 17):
        with pytest.raises(ExperienceError, match=f"a block of {count} rows"):
            channel.sender(0).send(make_rows(0, 0, 0, count), STAMP, 0)
    assert channel.receiver().drain(np.zeros((32, ROW_SIZE), np.float32)).rows == 0


def test_a_busy_writer_does_not_shut_out_the_others(way: str) -> None:
    channel = Opened.make(way, 3, ROW_SIZE, 4, 16)
    senders, receiver, account = [channel.sender(k) for k in range(3)], channel.receiver(), Account()
    into = np.zeros((4, ROW_SIZE), np.float32)  # room for one writer's block at a time
    sent = [0, 0, 0]
    for _ in range(6):
        for writer, sender in enumerate(senders):
            if sender.send(make_rows(writer, 0, sent[writer], 4), STAMP, 0):
                sent[writer] += 4
        drained = receiver.drain(into)
        account.take(into[: drained.rows], drained.announcements[:, ROW_END].tolist())
    assert account.received == {(writer, 0): 8 for writer in range(3)}


@settings(max_examples=150, deadline=None)
@given(
    capacity=st.integers(3, 11),
    slots=st.integers(2, 6),
    acts=st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(1, 3)),
            st.tuples(st.just("send"), st.integers(1, 3)),
            st.tuples(st.just("drain"), st.integers(0, 12)),
            st.tuples(st.just("replace the writer"), st.just(0)),
            st.tuples(st.just("die while writing"), st.integers(1, 3)),
        ),
        max_size=60,
    ),
)
def test_the_ring_does_what_a_list_of_blocks_does(capacity: int, slots: int, acts: list[tuple[str, int]]) -> None:
    shape = RingShape(ROW_SIZE, capacity, slots)
    block = make_ring_block("test", shape)
    sender, receiver = RingSender(block, shape), RingReceiver([block], shape)
    waiting: list[tuple[int, int]] = []  # the model: (first row, rows) of each block
    sent = 0
    for act, number in acts:
        if act == "send":
            fits = sum(rows for _, rows in waiting) + number <= capacity and len(waiting) < slots
            assert sender.send(make_rows(0, 0, sent, number), Stamp(sent + 1, 0, 0), sent) is fits
            if fits:
                waiting.append((sent, number))
                sent += number
        elif act == "drain":
            into = np.full((number, ROW_SIZE), -1.0, np.float32)
            expected: list[tuple[int, int]] = []
            while waiting and sum(rows for _, rows in expected) + waiting[0][1] <= number:
                expected.append(waiting.pop(0))
            drained = receiver.drain(into)
            assert drained.announcements[:, ROW_END].tolist() == [rows for _, rows in expected]
            assert drained.announcements[:, STEPPED_NS].tolist() == [first for first, _ in expected]
            if expected:
                next_sequence(into[: drained.rows], 0, 0, expected[0][0])
            assert (into[drained.rows :] == -1.0).all()
        elif act == "replace the writer":
            sender = RingSender(block, shape)
        else:
            fits = sum(rows for _, rows in waiting) + number <= capacity and len(waiting) < slots
            if fits:
                _write_without_announcing(sender, make_rows(9, 9, 0, number))
                sender = RingSender(block, shape)


@pytest.mark.parametrize(("capacity", "slots", "blocks"), [(8, 4, 4), (3, 4, 3)])
def test_a_ring_is_full_by_blocks_or_by_rows(capacity: int, slots: int, blocks: int) -> None:
    shape = RingShape(ROW_SIZE, capacity, slots)
    sender = RingSender(make_ring_block("test", shape), shape)
    assert [sender.send(make_rows(0, 0, k, 1), STAMP, 0) for k in range(blocks + 1)] == [True] * blocks + [False]


class _KilledError(Exception):
    """Stands for SIGKILL between the last byte of a block and its announcement."""


def _write_without_announcing(sender: RingSender, rows: np.ndarray) -> None:
    class DiesAtTheHead:
        def __init__(self, cells: memoryview) -> None:
            self._cells = cells

        def __getitem__(self, place: int) -> int:
            return self._cells[place]

        def __setitem__(self, place: int, value: int) -> None:
            raise _KilledError

    sender._cells = DiesAtTheHead(sender._cells)  # type: ignore[assignment]
    with pytest.raises(_KilledError):
        sender.send(rows, Stamp(99, 99, 99), 99)


def test_a_ring_that_somebody_else_wrote_to_is_noticed() -> None:
    shape = RingShape(ROW_SIZE, 8, 4)
    block = make_ring_block("test", shape)
    sender, receiver = RingSender(block, shape), RingReceiver([block], shape)
    sender.send(make_rows(0, 0, 0, 2), STAMP, 0)
    block.array(np.int64, (4, 5), 128)[0, ROW_END] = -5
    with pytest.raises(ExperienceError, match="written by somebody else"):
        receiver.drain(np.zeros((8, ROW_SIZE), np.float32))


def test_a_block_that_is_no_message_is_refused_before_a_run() -> None:
    for way in ("pipe", "queue"):
        with pytest.raises(ConfigError, match=f"--experience {way}: a block of 40000000 rows"):
            Opened.make(way, 1, ROW_SIZE, 40_000_000, 16)


# --- many writers, in processes of their own ----------------------------------------------------------------------


def test_many_processes_wrap_around_a_small_channel(way: str, start_writers: Callable[..., Writers]) -> None:
    writers, most_rows, block_rows = 3, 20_000, 13
    channel = Opened.make(way, writers, ROW_SIZE, block_rows, 4 * block_rows + 1)
    started = start_writers(way, channel, writers, block_rows)
    receiver, account = channel.receiver(), Account()
    for writer in range(writers):
        started.start(writer, most_rows)
    into = np.zeros((3 * block_rows, ROW_SIZE), np.float32)
    drain_until(receiver, into, account, lambda: sum(account.received.values()) == writers * most_rows)
    assert [process.wait(WITHIN_S) for process in started.running] == [0] * writers
    assert receiver.drain(into).rows == 0


def test_a_slow_reader_makes_writers_wait(way: str, start_writers: Callable[..., Writers]) -> None:
    """The reader takes nothing until the writer cannot go on, again and again."""
    row_size, most_rows = 512, 600
    channel = Opened.make(way, 1, row_size, 5, 23)
    started = start_writers(way, channel, 1, 5, row_size)
    receiver, account, into = channel.receiver(), Account(), np.zeros((2_000, row_size), np.float32)
    writer = started.start(0, most_rows)
    deadline = time.monotonic() + WITHIN_S
    for _ in range(6):
        refused, before = started.refused[0], account.received.get((0, 0), 0)
        while started.refused[0] == refused:
            assert time.monotonic() < deadline
            assert writer.poll() is None, "it was never refused"
        if way in BOUNDED_IN_ROWS:
            assert before + 19 <= started.sent[0] <= before + 23  # 23 less an unlucky block's rest
        drained = receiver.drain(into)
        account.take(into[: drained.rows], drained.announcements[:, ROW_END].tolist())
    drain_until(receiver, into, account, lambda: account.received[0, 0] == most_rows)


@pytest.mark.parametrize("way", COPIED_IN_PARTS, indirect=True)
@pytest.mark.parametrize("touch", [1, 2])
def test_a_writer_killed_half_way_through_a_block(way: str, touch: int, start_writers: Callable[..., Writers]) -> None:
    """A block that crosses the end of the memory is copied in two parts: the writer dies before or between."""
    channel = Opened.make(way, 1, ROW_SIZE, 13, 4 * 13 + 1)
    started = start_writers(way, channel, 1, 13)
    receiver, account, into = channel.receiver(), Account(), np.zeros((99, ROW_SIZE), np.float32)
    victim = started.start(0, most_rows=10_000, die_at_touch=touch)
    drain_until(receiver, into, account, lambda: victim.poll() is not None)
    assert victim.returncode == -signal.SIGKILL
    drained = receiver.drain(into)
    account.take(into[: drained.rows], drained.announcements[:, ROW_END].tolist())
    assert account.received[0, 0] == started.sent[0]
    started.start(0, most_rows=500, life=1)
    drain_until(receiver, into, account, lambda: account.received.get((0, 1), 0) == 500)


def test_killed_writers_lose_and_double_nothing(way: str, start_writers: Callable[..., Writers]) -> None:
    """Blocks of 100 KB, so that most of a writer's time is spent inside a copy."""
    writers, block_rows, row_size, lives = 2, 200, 128, 6 if way == "ring" else 3
    channel = Opened.make(way, writers, row_size, block_rows, 5 * block_rows + 3)
    started = start_writers(way, channel, writers, block_rows, row_size)
    receiver, account = channel.receiver(), Account()
    into = np.zeros((4 * block_rows, row_size), np.float32)
    moments = random.Random(0)
    for life in range(lives):
        victims = [started.start(writer, 10**7, life) for writer in range(writers)]
        for writer, victim in enumerate(victims):
            enough = moments.randint(1, 20_000)
            drain_until(receiver, into, account, lambda: account.received.get((writer, life), 0) >= enough)  # noqa: B023
            victim.kill()
            victim.wait()
            told = int(started.sent[writer])
            drain_until(receiver, into, account, lambda: account.received[writer, life] >= told)  # noqa: B023
            _drain_all(receiver, into, account, writer)
            assert (
                account.received[writer, life] <= told + block_rows
            )  # at most the block whose count it could not tell
    assert len(account.received) == writers * lives


def _drain_all(receiver: Any, into: np.ndarray, account: Account, writer: int) -> None:
    """Until nothing of a dead writer came in a drain that had room for all."""
    came = -1
    while came != 0:
        before = sum(rows for (who, _), rows in account.received.items() if who == writer)
        drained = receiver.drain(into)
        account.take(into[: drained.rows], drained.announcements[:, ROW_END].tolist())
        came = sum(rows for (who, _), rows in account.received.items() if who == writer) - before
