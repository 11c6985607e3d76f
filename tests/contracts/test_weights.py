"""What every way of weights promises: a version is announced when its vector can be had whole, and what `load` gives
is one published vector with its own stamp, whatever the publisher does meanwhile.

A new way is tested by naming it in weights_ways.WAYS.
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
from weights_ways import WAYS, SsdWay

from spreeze.board import Board
from spreeze.errors import WeightsError
from spreeze.weights import refresh
from spreeze.weights.link import WeightsStamp
from spreeze.weights.memory import MemoryFollower, MemoryPublisher, make_weights_block
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec
from spreeze.weights.refresh import BROKEN_FOR_AT_MOST_S, Refresher
from spreeze.weights.ssd import LIVE_WEIGHTS, SsdFollower, SsdPublisher

COUNT = 1_000
HEADER_BYTES = 48
WITHIN_S = 60.0
HERE = Path(__file__).parent


def vector(version: int, count: int = COUNT) -> np.ndarray:
    return np.full(count, version, np.float32)


def stamp(version: int) -> WeightsStamp:
    return WeightsStamp(version, 10 * version, 100 * version)


def assert_whole(into: np.ndarray, loaded: WeightsStamp) -> None:
    assert loaded == stamp(loaded.version)
    np.testing.assert_array_equal(into, vector(loaded.version, len(into)))


@pytest.fixture(params=sorted(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def start_publisher() -> Iterator[Callable[..., subprocess.Popen]]:
    started: list[subprocess.Popen] = []

    def start(way: str, link: Any, count: int, first: int, last: int) -> subprocess.Popen:
        told = {"way": way, "wiring": link.wiring(), "count": count, "first": first, "last": last}
        path = os.pathsep.join([str(HERE.parent.parent / "src"), str(HERE)])
        command = [sys.executable, str(HERE / "weights_publisher.py"), json.dumps(told)]
        started.append(subprocess.Popen(command, pass_fds=[link.descriptor()], env={**os.environ, "PYTHONPATH": path}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


# --- in one process -----------------------------------------------------------------------------------------------


def test_before_the_first_publication_there_is_no_version(way: str, tmp_path: Path) -> None:
    follower = WAYS[way](tmp_path, COUNT).follower()
    assert follower.version() == 0
    with pytest.raises(WeightsError):
        follower.load(np.zeros(COUNT, np.float32))


def test_every_published_vector_can_be_loaded(way: str, tmp_path: Path) -> None:
    link = WAYS[way](tmp_path, COUNT)
    publisher, follower, into = link.publisher(), link.follower(), np.zeros(COUNT, np.float32)
    for version in range(1, 6):
        publisher.publish(vector(version), stamp(version))
        assert follower.version() == version
        assert follower.load(into) == stamp(version)
        assert_whole(into, stamp(version))


def test_a_version_is_announced_when_its_vector_is_whole(way: str, tmp_path: Path) -> None:
    link = WAYS[way](tmp_path, COUNT)
    follower, into, announced = link.follower(), np.zeros(COUNT, np.float32), []

    def announce(version: int) -> None:
        assert follower.load(into).version == version
        assert_whole(into, stamp(version))
        announced.append(version)

    publisher = link.publisher(announce)
    for version in (1, 2, 3):
        publisher.publish(vector(version), stamp(version))
    assert announced == [1, 2, 3]


def test_a_late_reader_gets_the_newest(way: str, tmp_path: Path) -> None:
    link = WAYS[way](tmp_path, COUNT)
    publisher = link.publisher()
    for version in range(1, 8):
        publisher.publish(vector(version), stamp(version))
    follower, into = link.follower(), np.zeros(COUNT, np.float32)
    assert follower.version() == 7
    assert_whole(into, follower.load(into))


def test_versions_may_jump_and_a_successor_may_go_on(way: str, tmp_path: Path) -> None:
    link = WAYS[way](tmp_path, COUNT)
    follower, into = link.follower(), np.zeros(COUNT, np.float32)
    for version in (2, 4, 5, 100, 102):
        link.publisher().publish(vector(version), stamp(version))  # a publisher of its own each time
        assert follower.version() == version
        assert follower.load(into).version == version
        assert_whole(into, stamp(version))


def test_another_network_is_refused(way: str, tmp_path: Path) -> None:
    link = WAYS[way](tmp_path, COUNT)
    link.publisher().publish(vector(1), stamp(1))
    for count in (COUNT - 1, COUNT + 1):
        with pytest.raises(WeightsError, match=f"{COUNT}.*this policy has {count}"):
            link.follower().load(np.zeros(count, np.float32))


# --- two processes ------------------------------------------------------------------------------------------------


def test_loads_beside_a_publisher_that_never_rests(
    way: str, tmp_path: Path, start_publisher: Callable[..., subprocess.Popen]
) -> None:
    count = 20_000
    link = WAYS[way](tmp_path, count)
    follower, into, seen = link.follower(), np.zeros(count, np.float32), [0]
    process = start_publisher(way, link, count, 1, 10**6)
    deadline = time.monotonic() + WITHIN_S
    while len(seen) < 300:
        assert time.monotonic() < deadline, f"the newest version is still {seen[-1]}"
        assert process.poll() is None
        if (announced := follower.version()) <= seen[-1]:  # a file may be newer than what is announced
            continue
        loaded = follower.load(into)
        assert_whole(into, loaded)
        assert loaded.version >= announced
        seen.append(loaded.version)


def test_publishers_killed_at_random_moments(
    way: str, tmp_path: Path, start_publisher: Callable[..., subprocess.Popen]
) -> None:
    count, moments = 100_000, random.Random(0)
    link = WAYS[way](tmp_path, count)
    follower, into = link.follower(), np.zeros(count, np.float32)
    for _ in range(6):
        process = start_publisher(way, link, count, follower.version() + 1, 10**6)
        enough = follower.version() + moments.randint(1, 40)
        deadline = time.monotonic() + WITHIN_S
        while follower.version() < enough:
            assert time.monotonic() < deadline
        process.kill()
        assert process.wait(WITHIN_S) == -signal.SIGKILL
        loaded = follower.load(into)
        assert_whole(into, loaded)
        assert loaded.version >= enough


# --- through memory -----------------------------------------------------------------------------------------------


class CopiedInHalves(np.ndarray):
    """A destination whose copy is interrupted in the middle, as often as there is something to do."""

    def interrupted_by(self, *acts: Callable[[], None]) -> CopiedInHalves:
        self._acts = list(acts)
        return self

    def __setitem__(self, place: Any, values: Any) -> None:
        plain, half = np.asarray(self), len(self) // 2
        plain[:half] = values[:half]
        if self._acts:
            self._acts.pop(0)()
        plain[half:] = values[half:]


@pytest.mark.parametrize("versions", [[2], [3], [2, 3], [3, 5], [3, 4, 6, 8]])
def test_publications_in_the_middle_of_a_copy(versions: list[int]) -> None:
    block = make_weights_block(COUNT)
    publisher, follower = MemoryPublisher(block, COUNT, lambda _: None), MemoryFollower(block, COUNT)
    publisher.publish(vector(1), stamp(1))

    def publish_all() -> None:
        for version in versions:
            publisher.publish(vector(version), stamp(version))

    into = np.zeros(COUNT, np.float32).view(CopiedInHalves).interrupted_by(publish_all)
    loaded = follower.load(into)
    assert_whole(np.asarray(into), loaded)
    assert loaded.version == (1 if len(versions) == 1 else versions[-1])


def test_a_reader_that_is_always_disturbed_says_so() -> None:
    block = make_weights_block(COUNT)
    publisher, follower = MemoryPublisher(block, COUNT, lambda _: None), MemoryFollower(block, COUNT)
    publisher.publish(vector(1), stamp(1))
    versions = iter(range(2, 10_000))

    def publish_twice() -> None:
        for version in (next(versions), next(versions)):
            publisher.publish(vector(version), stamp(version))

    into = np.zeros(COUNT, np.float32).view(CopiedInHalves).interrupted_by(*[publish_twice] * 2_000)
    with pytest.raises(WeightsError, match="changed during each"):
        follower.load(into)


# --- through a file -----------------------------------------------------------------------------------------------


class SsdFile:
    """A published file, ways to break it, and a policy that has loaded it."""

    spec = PolicySpec("tanh", 3, 2, (8,))

    def __init__(self, folder: Path) -> None:
        self.count = self.spec.weight_count
        self.link = SsdWay(folder, self.count)
        self.path = folder / LIVE_WEIGHTS
        self.publisher = self.link.publisher()
        self.publisher.publish(vector(1, self.count), stamp(1))
        self.board = Board.create(1)
        self.policy = NumpyPolicy(self.spec, 1)
        self.refresher = Refresher(self.link.follower(), self.policy, self.board.section("sampler-0"))
        assert self.refresher.refresh()

    def publish_broken(self, change: Callable[[bytearray], bytes | bytearray | None]) -> None:
        """Version 2 is announced, then its file is changed; None: it vanishes."""
        self.publisher.publish(vector(2, self.count), stamp(2))
        changed = change(bytearray(self.path.read_bytes()))
        self.path.unlink()
        if changed is not None:
            self.path.write_bytes(changed)

    def assert_refused(self) -> None:
        failures = self.refresher.failures
        assert not self.refresher.refresh()
        assert self.refresher.failures == failures + 1
        np.testing.assert_array_equal(self.policy.flat, vector(1, self.count))
        assert self.refresher.stamp == stamp(1)
        section = self.board.section("sampler-0")
        assert section.get("weights_failures") == self.refresher.failures
        assert section.get("weights_version") == 1


@pytest.fixture
def ssd(tmp_path: Path) -> SsdFile:
    return SsdFile(tmp_path)


FILE_BYTES = HEADER_BYTES + 4 * SsdFile.spec.weight_count
CUTS = (0, 1, 7, 8, 16, 24, 32, 40, 44, 47, 48, 49, 52, FILE_BYTES // 2, FILE_BYTES - 4, FILE_BYTES - 1)


@pytest.mark.parametrize("kept", CUTS)
def test_a_truncated_file_is_refused(ssd: SsdFile, kept: int) -> None:
    ssd.publish_broken(lambda data: data[:kept])
    ssd.assert_refused()


@pytest.mark.parametrize("place", [*range(HEADER_BYTES), HEADER_BYTES, FILE_BYTES // 2, FILE_BYTES - 1])
def test_a_flipped_bit_is_refused(ssd: SsdFile, place: int) -> None:
    def flip(data: bytearray) -> bytearray:
        data[place] ^= 1 << (place % 8)
        return data

    ssd.publish_broken(flip)
    ssd.assert_refused()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: None, id="vanished"),
        pytest.param(lambda data: data + b"\0", id="longer by a byte"),
        pytest.param(lambda data: data + data, id="twice"),
        pytest.param(lambda data: bytes(len(data)), id="zeros, as after a crash of the machine"),
        pytest.param(lambda data: b"{}", id="something else"),
    ],
)
def test_a_file_that_is_not_the_published_one_is_refused(
    ssd: SsdFile, change: Callable[[bytearray], bytes | None]
) -> None:
    ssd.publish_broken(change)
    ssd.assert_refused()


def test_a_file_of_another_network_is_refused(ssd: SsdFile) -> None:
    ssd.publisher.publish(vector(2, ssd.count + 5), stamp(2))
    ssd.assert_refused()


def test_a_folder_in_the_file_s_place_is_refused(ssd: SsdFile) -> None:
    ssd.publish_broken(lambda data: None)
    ssd.path.mkdir()
    ssd.assert_refused()


def test_a_failed_write_leaves_the_last_good_file(ssd: SsdFile, monkeypatch: pytest.MonkeyPatch) -> None:
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, parts: writev(fd, [bytes(parts[0]), bytes(parts[1])[:40]]))
    with pytest.raises(OSError, match="only 88 of"):
        ssd.publisher.publish(vector(2, ssd.count), stamp(2))
    monkeypatch.undo()
    assert ssd.link.follower().version() == 1
    into = np.zeros(ssd.count, np.float32)
    assert_whole(into, ssd.link.follower().load(into))
    ssd.publisher.publish(vector(3, ssd.count), stamp(3))
    assert ssd.refresher.refresh()
    assert ssd.refresher.stamp == stamp(3)


def test_who_shares_no_memory_with_the_run_finds_the_version_in_the_file(tmp_path: Path) -> None:
    watcher = SsdFollower(tmp_path)
    assert watcher.version() == 0
    publisher = SsdPublisher(tmp_path, lambda _: None)
    for version in (1, 2, 30):
        publisher.publish(vector(version), stamp(version))
        assert watcher.version() == version
    (tmp_path / LIVE_WEIGHTS).write_bytes(b"SPRZWT01 and no more")
    assert watcher.version() == 0
    (tmp_path / LIVE_WEIGHTS).unlink()
    (tmp_path / LIVE_WEIGHTS).mkdir()
    with pytest.raises(WeightsError):
        watcher.version()


# --- the policy that follows --------------------------------------------------------------------------------------


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(refresh, "time", clock)
    return clock


def test_a_policy_changes_only_when_a_version_does(ssd: SsdFile) -> None:
    assert not ssd.refresher.refresh()
    ssd.publisher.publish(vector(2, ssd.count), stamp(2))
    assert ssd.refresher.refresh()
    np.testing.assert_array_equal(ssd.policy.flat, vector(2, ssd.count))
    assert ssd.board.section("sampler-0").get("weights_version") == 2
    assert not ssd.refresher.refresh()
    assert ssd.refresher.failures == 0


def test_broken_weights_are_tried_again_but_not_at_every_step(ssd: SsdFile, clock: Clock) -> None:
    ssd.publish_broken(lambda data: None)
    ssd.assert_refused()
    for _ in range(100):
        assert not ssd.refresher.refresh()
    assert ssd.refresher.failures == 1
    clock.now_s += 1.0
    ssd.assert_refused()
    assert ssd.refresher.failures == 2
    ssd.publisher.publish(vector(2, ssd.count), stamp(2))
    clock.now_s += 1.0
    assert ssd.refresher.refresh()
    np.testing.assert_array_equal(ssd.policy.flat, vector(2, ssd.count))


def test_broken_for_too_long_is_an_error(ssd: SsdFile, clock: Clock) -> None:
    ssd.publish_broken(lambda data: None)
    broken_at_s = clock.now_s
    while clock.now_s - broken_at_s <= BROKEN_FOR_AT_MOST_S:
        ssd.assert_refused()
        clock.now_s += 0.5
    with pytest.raises(WeightsError, match="no whole weights for 30 s"):
        ssd.refresher.refresh()


def test_whole_weights_in_between_start_the_patience_anew(ssd: SsdFile, clock: Clock) -> None:
    ssd.publish_broken(lambda data: None)
    ssd.assert_refused()
    clock.now_s += BROKEN_FOR_AT_MOST_S - 1.0
    ssd.publisher.publish(vector(2, ssd.count), stamp(2))
    assert ssd.refresher.refresh()
    ssd.publisher.publish(vector(3, ssd.count), stamp(3))
    ssd.path.unlink()
    for _ in range(3):
        clock.now_s += BROKEN_FOR_AT_MOST_S / 3
        assert not ssd.refresher.refresh()
    np.testing.assert_array_equal(ssd.policy.flat, vector(2, ssd.count))


def test_fresh_weights_memory_is_never_taken_for_weights() -> None:
    block = make_weights_block(COUNT)
    assert (block.array(np.uint8, (8,), 192) == 0xCB).all()
    assert MemoryFollower(block, COUNT).version() == 0
