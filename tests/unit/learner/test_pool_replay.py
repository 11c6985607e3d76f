"""Draws from the pool that samplers write: only rows that were taken, each as likely as any other, never a torn one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spreeze.experience.link import Demand, Stamp  # noqa: E402
from spreeze.experience.pool import PoolChannel, make_channel  # noqa: E402
from spreeze.learner.pool_replay import PoolIngest, PoolReplay  # noqa: E402
from spreeze.replay import ReplayError  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

LAYOUT = Layout(2, 1)
STAMP = Stamp(1, 2, 3)


def make_pool(samplers: int = 2, kept_rows: int = 20, window: int = 8) -> tuple[PoolChannel, PoolReplay]:
    channel = make_channel(Demand(LAYOUT.row_size, samplers, 2, window, kept_rows))
    return channel, PoolReplay(LAYOUT, channel.receiver(), seed=0)


def rows(first: int, count: int) -> np.ndarray:
    return np.repeat(np.arange(first, first + count, dtype=np.float32)[:, None], LAYOUT.row_size, axis=1)


def drawable(replay: PoolReplay) -> list[int]:
    return replay.held()[:, 0].int().tolist()


def test_announced_rows_can_be_drawn_once_they_are_taken() -> None:
    channel, replay = make_pool()
    sender, ingest = channel.sender(1), PoolIngest(replay)
    sender.send(rows(0, 2), STAMP, 0)
    with pytest.raises(ReplayError, match="empty"):
        replay.sample(4)
    assert ingest.poll(updates=0) == 2
    assert (ingest.env_steps, ingest.drains, replay.size, replay.total) == (2, 1, 2, 2)
    assert ingest.poll(updates=0) == 0
    assert drawable(replay) == [0, 1]
    assert set(replay.sample(64).reward.tolist()) == {0.0, 1.0}


def test_regions_go_round_and_keep_the_newest_rows_of_each() -> None:
    """Two regions of 10 drawable rows and a window of 8: a model of plain lists beside them."""
    channel, replay = make_pool()
    senders, kept = [channel.sender(0), channel.sender(1)], [[], []]
    for turn in range(40):
        for region, size in ((0, 2), (1, 1)):
            first = 1_000 * region + len(kept[region])
            assert senders[region].send(rows(first, size), STAMP, 0)
            kept[region] += range(first, first + size)
        if turn % 3 == 2:
            replay.take()
            assert drawable(replay) == kept[0][-10:] + kept[1][-10:]
    assert (replay.size, replay.total) == (20, 39 * 3)
    drawn = Counter(value for _ in range(50) for value in replay.sample(400).reward.tolist())
    assert sorted(drawn) == drawable(replay)
    assert max(drawn.values()) < 1.3 * min(drawn.values())  # 1,000 of each, give or take


def test_a_sampler_waits_rather_than_write_what_may_be_drawn() -> None:
    channel, replay = make_pool(samplers=1, kept_rows=10)
    sender = channel.sender(0)
    for first in range(0, 60, 2):
        assert sender.send(rows(first, 2), STAMP, 0)
        replay.take()
    before = drawable(replay)
    ahead = 0
    while sender.send(rows(60 + ahead, 2), STAMP, 0):
        ahead += 2
    assert ahead == 8
    assert drawable(replay) == before == list(range(50, 60))
    assert replay.take().rows == 8
    assert drawable(replay) == list(range(58, 68))
    channel.sender(0).send(rows(68, 2), STAMP, 0)  # a successor goes on behind the last announced block
    replay.take()
    assert drawable(replay) == list(range(60, 70))


def test_only_its_samplers_fill_a_pool() -> None:
    _, replay = make_pool()
    with pytest.raises(ReplayError, match="by its samplers"):
        replay.extend(torch.zeros(1, LAYOUT.row_size))
    with pytest.raises(ReplayError, match="--experience ring"):
        replay.begin_again([], 0, 0)


WRITER = """
import sys, json, numpy as np
from spreeze.experience.link import Stamp
from spreeze.experience.pool import open_sender
sender, first = open_sender(json.loads(sys.argv[1])), 0
while True:
    block = np.repeat(np.arange(first, first + 64, dtype=np.float32)[:, None] % 2**20, 6, axis=1)
    block = np.tile(block, (1, 50))
    while not sender.send(block, Stamp(1, 1, 1), 0):
        pass
    first += 64
"""


def test_no_row_is_drawn_while_it_is_written() -> None:
    """A writer that never rests, in a process of its own, killed at the end; rows of 1,200 bytes in blocks of 77 KB."""
    layout = Layout(149, 0)
    channel = make_channel(Demand(layout.row_size, 1, 64, 256, 700))
    wiring = channel.sender_wiring(0)
    replay = PoolReplay(layout, channel.receiver())
    source = str(Path(__file__).parents[3] / "src")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, json.dumps(wiring)],
        pass_fds=wiring["fds"], env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60.0
        while replay.total < 15_000:
            assert time.monotonic() < deadline
            replay.take()
            if replay.size:
                drawn = replay.sample(8_192).obs_action
                assert (drawn == drawn[:, :1]).all(), "a row is torn"
    finally:
        writer.kill()
        writer.wait()
