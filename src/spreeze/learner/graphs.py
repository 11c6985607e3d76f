"""How updates are run: one after the other in eager mode, or as captured CUDA graphs wrapped around the same function.

A captured launch holds one update, or a bundle of several, so that the host has almost nothing to do for each. At most
a few launches are queued on the device: the host never runs far ahead of what has really been done, and never reads
anything back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from spreeze.algos.algorithm import Algorithm
from spreeze.replay import Replay

_QUEUED_LAUNCHES = 2
_WARM_UPS = 3  # before capture, for libraries that set themselves up at first use


class Updates(Protocol):
    @property
    def batch_size(self) -> int: ...  # rows that the next update draws

    def run(self, most: int) -> int: ...  # does up to `most` updates (at least one) -> how many

    def step_to(self, batch_size: int) -> None: ...  # from the next update on

    def go_on_from(self, updates: int) -> None: ...  # so many were done before, by another process


class EagerUpdates:
    """Of any batch size: nothing has to be prepared."""

    def __init__(self, algorithm: Algorithm, replay: Replay, batch_size: int) -> None:
        self._algorithm = algorithm
        self._replay = replay
        self.batch_size = batch_size
        self.turn = 0

    def run(self, most: int) -> int:
        self._algorithm.update(self._replay.sample(self.batch_size), self.turn)
        self.turn = (self.turn + 1) % self._algorithm.period
        return 1

    def step_to(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def go_on_from(self, updates: int) -> None:
        self.turn = updates % self._algorithm.period


class CapturedUpdates:
    """Of one batch size. Capture runs updates on whatever replay holds, even nothing; the algorithm's state is put back
    afterwards."""

    def __init__(self, algorithm: Algorithm, replay: Replay, batch_size: int) -> None:
        self._algorithm = algorithm
        self._replay = replay
        self.batch_size = batch_size
        self.turn = 0
        self._queued: deque[torch.cuda.Event] = deque()
        before = {name: value.clone() for name, value in algorithm.state().items()}
        draws_before = replay.generator.get_state()
        self._warm_up()
        self._single = [self._capture([turn]) for turn in range(algorithm.period)]
        self._bundle_size = bundle_size(batch_size, algorithm.period)
        self._bundle = self._capture([turn % algorithm.period for turn in range(self._bundle_size)])
        algorithm.load(before)
        replay.generator.set_state(draws_before)

    def run(self, most: int) -> int:
        self._wait_for_room()
        if self.turn == 0 and most >= self._bundle_size:
            self._bundle.replay()
            done = self._bundle_size
        else:
            self._single[self.turn].replay()
            done = 1
        self.turn = (self.turn + done) % self._algorithm.period
        launched = torch.cuda.Event(blocking=True)
        launched.record()
        self._queued.append(launched)
        return done

    def go_on_from(self, updates: int) -> None:
        self.turn = updates % self._algorithm.period

    def _wait_for_room(self) -> None:
        if len(self._queued) >= _QUEUED_LAUNCHES:
            self._queued.popleft().synchronize()

    def _warm_up(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for turn in range(_WARM_UPS * self._algorithm.period):
                self._update(turn % self._algorithm.period)
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, turns: list[int]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in (self._algorithm.generator, self._replay.generator):
            graph.register_generator_state(generator)
        # a rung may be captured while other threads of this process use the device
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for turn in turns:
                self._update(turn)
        return graph

    def _update(self, turn: int) -> None:
        self._algorithm.update(self._replay.sample(self.batch_size), turn)


def bundle_size(batch_size: int, period: int) -> int:
    """Updates a launch: many where one is short, few where one is long enough to hide the host."""
    wanted = 8 if batch_size <= 2048 else 4 if batch_size <= 32768 else 1
    return max(1, wanted // period) * period


class Rung(Protocol):
    """Updates of one batch size."""

    batch_size: int
    turn: int  # of the next update

    def run(self, most: int) -> int: ...

    def go_on_from(self, updates: int) -> None: ...


class CapturedLadder:
    """Captured updates of several batch sizes over the same state. A rung is captured when it is first asked for, which
    stops updates for as long as a run's first capture took, and is kept."""

    def __init__(self, capture: Callable[[int], Rung], batch_size: int) -> None:
        self._capture = capture
        self._rung = capture(batch_size)
        self._rungs = {batch_size: self._rung}

    @property
    def batch_size(self) -> int:
        return self._rung.batch_size

    def run(self, most: int) -> int:
        return self._rung.run(most)

    def go_on_from(self, updates: int) -> None:
        self._rung.go_on_from(updates)

    def step_to(self, batch_size: int) -> None:
        if batch_size not in self._rungs:
            self._rungs[batch_size] = self._capture(batch_size)
        rung = self._rungs[batch_size]
        rung.turn = self._rung.turn  # an actor that learns in every second update goes on doing so
        self._rung = rung


def make_updates(algorithm: Algorithm, replay: Replay, batch_size: int, captured: bool) -> Updates:
    if captured:
        return CapturedLadder(partial(CapturedUpdates, algorithm, replay), batch_size)
    return EagerUpdates(algorithm, replay, batch_size)
