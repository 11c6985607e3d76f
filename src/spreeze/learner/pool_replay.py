"""Replay where samplers write it: updates draw from the regions of the pool (experience/pool.py), on a CPU."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from spreeze.experience.link import Drained
from spreeze.experience.pool import PoolReceiver
from spreeze.learner.ingest import Intake
from spreeze.replay import Replay, ReplayError
from spreeze.spec import Batch, Layout


class PoolReplay(Replay):
    """Every drawable row of every region is as likely as any other."""

    def __init__(self, layout: Layout, receiver: PoolReceiver, seed: int = 0, reward_scale: float = 1.0) -> None:
        shape, rows = receiver.shape, torch.from_numpy(receiver.rows)
        super().__init__(layout, shape.regions * shape.drawable, "cpu", seed, rows=rows, reward_scale=reward_scale)
        self._receiver = receiver
        self._region_rows = shape.region_rows
        self._first_row = torch.arange(shape.regions) * shape.region_rows
        self._note_spans()

    def take(self) -> Drained:
        """What samplers have announced can be drawn from here on; as many of the oldest rows cannot any more."""
        drained = self._receiver.take()
        if drained.rows:
            self.total += drained.rows
            self._note_spans()
        return drained

    def sample(self, count: int) -> Batch:
        if not self.size:
            raise ReplayError("the pool is empty: take rows before a draw")
        number, drawn, batch = self._drawn.get(count) or self._prepare(count)
        number.random_(0, self.size, generator=self.generator)
        torch.index_select(self.rows, 0, self._places(number), out=drawn)
        return self._finished(batch)

    def extend(self, rows: Tensor) -> None:
        raise ReplayError("a pool is filled by its samplers and by nobody else")

    def held(self) -> Tensor:
        """The drawable rows, copied: region by region, oldest first."""
        return self.rows[self._places(torch.arange(self.size))]

    def view(self, first: int, most: int) -> Tensor:
        raise ReplayError("a pool's rows lie in no order: copy what is held")

    def begin_again(self, pieces: Iterable[Tensor], rows: int, end: int) -> None:
        raise ReplayError("a pool is filled by its samplers and by nobody else: go on with --experience ring")

    def _note_spans(self) -> None:
        starts, counts = map(torch.from_numpy, self._receiver.spans())
        self._starts = starts
        self._ends = counts.cumsum(0)  # of the regions' drawable rows, counted through all regions
        self._begins = self._ends - counts
        self._set_size(int(self._ends[-1]))

    def _places(self, number: Tensor) -> Tensor:
        """The number-th drawable row (B,), counted through all regions -> its row in the pool."""
        region = torch.bucketize(number, self._ends, right=True)
        within = (number - self._begins[region] + self._starts[region]) % self._region_rows
        return self._first_row[region] + within


class PoolIngest(Intake):
    """Nothing is moved: rows are where they are drawn."""

    def __init__(self, replay: PoolReplay) -> None:
        super().__init__()
        self._replay = replay

    def _bring(self) -> Drained:
        return self._replay.take()
