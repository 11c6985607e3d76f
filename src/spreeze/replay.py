"""The rows that updates draw from: one matrix on the learner's device, filled round and round.

    rows (capacity, row_size) float32
    |<------------ size rows hold data ----------->|<--- not yet --->|        until it is full
    |<- newest ->|^ next to be written            oldest ... ------->|        afterwards

A draw is one gather of whole rows into a buffer that is kept (0.35 ms for 8,192 rows of 200 bytes out of a million;
indexing field by field takes 2.7 ms), and a Batch is views of that buffer: it is valid until the next draw.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spreeze.draws import CountedNumbers, restore
from spreeze.errors import SpreezeError
from spreeze.gather import find_gather
from spreeze.observation_norm import ObservationNorm
from spreeze.spec import Batch, Layout

_MANY = 2**62  # modulo any size that fits into memory this is uniform to better than 1e-9


class ReplayError(SpreezeError):
    """Replay was used against its contract."""


class Side(NamedTuple):
    """Where whole rows go when they come in."""

    device: torch.device
    extend: Callable[[Tensor], None]  # rows from this device or the CPU


class Replay:
    """`counted`: the same seed draws the same rows on every kind of device. `rows`: memory that there is already.

    What is drawn has its observations normalized, if `normalize`, and its rewards multiplied by `reward_scale`; what is
    kept stays as it came."""

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
        counted: bool = False,
        rows: Tensor | None = None,
        normalize: bool = False,
        reward_scale: float = 1.0,
    ) -> None:
        self.layout = layout
        self.capacity = capacity
        self.device = torch.device(device)
        self._counted = CountedNumbers(self.device, seed) if counted else None
        self.generator: Any = self._counted or torch.Generator(self.device).manual_seed(seed)
        self.rows = zero_rows(capacity, layout.row_size, self.device) if rows is None else rows
        self.size = 0  # rows that hold data
        self.total = 0  # rows ever extended; the next one goes to total % capacity
        self._first = 0  # number of the first row that was extended
        # the same size where a captured graph can read it
        self.device_size = torch.zeros((), dtype=torch.int64, device=self.device)
        self.norm = ObservationNorm(layout, self.device) if normalize else None
        self._reward_scale = reward_scale
        self._drawn: dict[int, tuple[Tensor, Tensor, Batch]] = {}
        self._gather_rows = find_gather(self.device)

    @property
    def sides(self) -> tuple[Side, ...]:
        return (Side(self.device, self.extend),)

    def extend(self, rows: Tensor) -> None:
        """Append rows (n, row_size), from this device or the CPU; the oldest make room."""
        if rows.dim() != 2 or rows.shape[1] != self.layout.row_size:
            raise ReplayError(f"rows of shape {tuple(rows.shape)} were got, expected (n, {self.layout.row_size})")
        if self.norm is not None:
            self.norm.update(rows)
        self.total += max(0, len(rows) - self.capacity)  # these would be overwritten by the rest at once
        rows = rows[-self.capacity :]
        start = self.total % self.capacity
        before_end = min(len(rows), self.capacity - start)
        self.rows[start : start + before_end].copy_(rows[:before_end], non_blocking=True)
        if before_end < len(rows):
            self.rows[: len(rows) - before_end].copy_(rows[before_end:], non_blocking=True)
        self.total += len(rows)
        self._set_size(min(self.total - self._first, self.capacity))

    def sample(self, count: int) -> Batch:
        """`count` rows, each drawn uniformly and with replacement; the Batch is overwritten by the next draw.

        Beside a GPU an empty replay gives rows of zeros, because a graph may be captured before the first row came.
        """
        index, drawn, batch = self._drawn.get(count) or self._prepare(count)
        if self._counted is not None:
            self._counted.fill(index)
            self._gather_rows(self.rows, index, self.device_size, drawn)
        elif self.device.type == "cuda":
            index.random_(0, _MANY, generator=self.generator)
            self._gather_rows(self.rows, index, self.device_size, drawn)
        elif not self.size:
            raise ReplayError("replay is empty: extend it before a draw")
        else:
            index.random_(0, self.size, generator=self.generator)
            torch.index_select(self.rows, 0, index, out=drawn)
        return self._finished(batch)

    def _finished(self, batch: Batch) -> Batch:
        if self.norm is not None:
            self.norm.apply(batch)
        if self._reward_scale != 1.0 and batch.reward is not None:
            batch.reward.mul_(self._reward_scale)
        return batch

    def last_drawn(self, count: int) -> Batch | None:
        """The newest batch of that size, until the next draw."""
        return self._drawn[count][2] if count in self._drawn else None

    def torch_generators(self) -> list[torch.Generator]:
        """What a graph that draws must register."""
        return [self.generator] if isinstance(self.generator, torch.Generator) else []

    def _prepare(self, count: int) -> tuple[Tensor, Tensor, Batch]:
        drawn = torch.zeros(count, self.layout.row_size, device=self.device)
        index = torch.zeros(count, dtype=torch.int64, device=self.device)
        self._drawn[count] = (index, drawn, self.layout.split(drawn))
        return self._drawn[count]

    def _set_size(self, size: int) -> None:
        if size != self.size:
            self.size = size
            self.device_size.fill_(size)

    def view(self, first: int, most: int) -> Tensor:
        """Rows number `first` and on, at most so many, as they lie in one piece; copy them before the next extend."""
        if not self.total - self.size <= first <= self.total:
            raise ReplayError(f"row {first} was asked for; rows {self.total - self.size} to {self.total} are here")
        place = first % self.capacity
        return self.rows[place : min(place + min(most, self.total - first), self.capacity)]

    def begin_again(self, pieces: Iterable[Tensor], rows: int, end: int) -> None:
        """Holds nothing but `pieces`, `rows` in all, the last of them number `end` - 1. Where they fill replay, each
        row lies where it lay in any replay of this size that they filled."""
        self._first = self.total = end - rows if rows >= self.capacity else 0
        self._set_size(0)
        for piece in pieces:
            self.extend(piece)

    def draws(self) -> dict[str, Tensor]:
        """Where the random draws stand, and by what statistics observations are normalized."""
        return {"draws": self.generator.get_state(), **({} if self.norm is None else self.norm.state())}

    def load_draws(self, saved: Mapping[str, Tensor]) -> None:
        restore(self.generator, saved["draws"])
        if self.norm is not None:
            self.norm.load(saved)


def zero_rows(capacity: int, row_size: int, device: torch.device) -> Tensor:
    """On a CPU the memory is taken page by page, when rows come to lie there: ten million cost a start nothing."""
    if device.type != "cpu":
        return torch.zeros(capacity, row_size, device=device)
    number = torch.get_default_dtype()
    pages = mmap.mmap(-1, capacity * row_size * number.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=number).view(capacity, row_size)
