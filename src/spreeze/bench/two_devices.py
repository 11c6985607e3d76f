"""Updates in two places, for `spreeze bench learner --actor-device D --critic-device D`.

update_hz, update_frames_hz, products_hz, flops_share    as of one device; products on the critics' device
one_device_hz          updates a second of one learner on the critics' device, as a run would make it, in the same run
actor_ms, critics_ms   each half of a mean update by itself, while the other does nothing
overlap                share of time in which both were at work (watched_place.py)
bytes_per_update       that crossed between the places
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from spreeze.bench.random_rows import fill
from spreeze.bench.watched_place import WatchedPlace, overlap
from spreeze.config import RunConfig
from spreeze.learner.pacing import UNBOUNDED
from spreeze.learner.split import SplitUpdates
from spreeze.learner.two_places import make_split_updates, make_two_places
from spreeze.spec import Layout
from spreeze.tuning.flops import Halves

_AT_LEAST = 3  # times that a piece is done to be measured
_AT_ONCE = 100  # that are submitted before the place is waited for
_WATCHED_AT_MOST = 2_000  # updates: each leaves events behind


class TwoDevices:
    """Updates of a resolved config on a full replay, with the means to look at each half."""

    def __init__(self, config: RunConfig, layout: Layout) -> None:
        two = make_two_places(layout, config)
        two = two._replace(actor=WatchedPlace(two.actor), critics=WatchedPlace(two.critics))
        fill(two.replay, int(config.replay_size), str(config.critic_device), config.seed)
        self.algorithm = two.algorithm
        self.actor, self.critics = two.actor, two.critics
        self.updates: SplitUpdates = make_split_updates(two, config, int(config.batch_size))
        self.run(seconds=0.0)  # something has crossed

    def run(self, seconds: float) -> float:
        """-> updates a second"""
        start, done = time.perf_counter(), 0
        while done < _AT_LEAST or time.perf_counter() - start < seconds:
            done += self.updates.run(UNBOUNDED)
        self.updates.wait()
        return done / (time.perf_counter() - start)

    def bytes_per_update(self) -> float:
        period = self.algorithm.period
        before, done = self.updates.bytes_crossed, 0
        while done == 0 or done % period:
            done += self.updates.run(period - done % period)
        return (self.updates.bytes_crossed - before) / done

    def overlap(self, seconds: float) -> float:
        assert isinstance(self.actor, WatchedPlace)
        assert isinstance(self.critics, WatchedPlace)
        for place in (self.actor, self.critics):
            place.start()
        start, done = time.perf_counter(), 0
        while done < _AT_LEAST or (time.perf_counter() - start < seconds and done < _WATCHED_AT_MOST):
            done += self.updates.run(UNBOUNDED)
        return overlap(self.actor.stop(), self.critics.stop())

    def pieces(self, seconds: float) -> Halves:
        """Seconds of each piece by itself, on what crossed last; what the networks learn by it is undone."""
        before = {name: value.clone() for name, value in self.algorithm.state().items()}
        updates, turns = self.updates, range(self.algorithm.period)
        learning = updates.works_of(self.algorithm.period - 1)
        part = seconds / (3 + len(turns))

        def mean(measured: list[float]) -> float:
            return sum(measured) / len(measured)

        def train(turn: int) -> float:
            works = updates.works_of(turn)
            return self._seconds(self.critics, (works.draw, updates.proposals.take, works.train), part / len(turns))

        propose = mean([self._seconds(self.actor, (updates.works_of(turn).propose,), part) for turn in turns])
        last_propose = self._seconds(self.actor, (learning.propose,), part)
        both = self._seconds(self.actor, (learning.propose, updates.advice.take, learning.learn), part)
        halves = Halves(
            propose=propose,
            learn=max(0.0, both - last_propose),
            train=mean([train(turn) for turn in turns]),
            advise=self._seconds(self.critics, (learning.advise,), part),
        )
        self.algorithm.load(before)
        return halves

    def close(self) -> None:
        self.updates.wait()
        self.updates.close()

    def _seconds(self, place: Any, works: tuple[Callable[[], object], ...], seconds: float) -> float:
        place.begin()
        place.wait()
        self._do(place, works, 1)  # the first one is slow
        start = time.perf_counter()
        self._do(place, works, 1)
        count = max(_AT_LEAST, min(_AT_ONCE, int(seconds / (time.perf_counter() - start))))
        start, done = time.perf_counter(), 0
        while done == 0 or time.perf_counter() - start < seconds:
            self._do(place, works, count)
            done += count
        return (time.perf_counter() - start) / done

    def _do(self, place: Any, works: tuple[Callable[[], object], ...], count: int) -> None:
        for _ in range(count):
            for work in works:
                place.submit(work)
        place.wait()


def halves_of(pieces: Halves, period: int) -> tuple[float, float]:
    """Seconds of a mean update: the actor's, the critics'."""
    return pieces.propose + pieces.learn / period, pieces.train + pieces.advise / period


def is_captured(config: RunConfig) -> bool:
    on_gpu = any(str(name).startswith("cuda") for name in (config.actor_device, config.critic_device))
    return on_gpu and config.compile == "on"
