"""The rows that updates draw from: one matrix on the learner's device, filled round and round.

    rows (capacity, row_size) float32
    |<------------ size rows hold data ----------->|<--- not yet --->|        until it is full
    |<- newest ->|^ next to be written            oldest ... ------->|        afterwards

A draw is one gather of whole rows into a buffer that is kept (0.35 ms for 8,192 rows of 200 bytes out of a million;
indexing field by field takes 2.7 ms), and a Batch is views of that buffer: it is valid until the next draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from spreeze.draws import CountedNumbers, restore
from spreeze.errors import SpreezeError
from spreeze.gather import find_gather
from spreeze.spec import Batch, Layout

_MANY = 2**62  # modulo any size that fits into memory this is uniform to better than 1e-9


class ReplayError(SpreezeError):
    """Replay was used against its contract, or a saved replay does not fit."""


class Side(NamedTuple):
    """Where whole rows go when they come in."""

    device: torch.device
    extend: Callable[[Tensor], None]  # rows from this device or the CPU


class Replay:
    """`counted`: the same seed draws the same rows on every kind of device. `rows`: memory that there is already."""

    def __init__(
        self,
        layout: Layout,
        capacity: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
        counted: bool = False,
        rows: Tensor | None = None,
    ) -> None:
        self.layout = layout
        self.capacity = capacity
        self.device = torch.device(device)
        self._counted = CountedNumbers(self.device, seed) if counted else None
        self.generator: Any = self._counted or torch.Generator(self.device).manual_seed(seed)
        self.rows = torch.zeros(capacity, layout.row_size, device=self.device) if rows is None else rows
        self.size = 0  # rows that hold data
        self.total = 0  # rows ever extended; the next one goes to total % capacity
        # the same size where a captured graph can read it
        self.device_size = torch.zeros((), dtype=torch.int64, device=self.device)
        self._drawn: dict[int, tuple[Tensor, Tensor, Batch]] = {}
        self._gather_rows = find_gather(self.device)

    @property
    def sides(self) -> tuple[Side, ...]:
        return (Side(self.device, self.extend),)

    def extend(self, rows: Tensor) -> None:
        """Append rows (n, row_size), from this device or the CPU; the oldest make room."""
        if rows.dim() != 2 or rows.shape[1] != self.layout.row_size:
            raise ReplayError(f"rows of shape {tuple(rows.shape)} were got, expected (n, {self.layout.row_size})")
        self.total += max(0, len(rows) - self.capacity)  # these would be overwritten by the rest at once
        rows = rows[-self.capacity :]
        start = self.total % self.capacity
        before_end = min(len(rows), self.capacity - start)
        self.rows[start : start + before_end].copy_(rows[:before_end], non_blocking=True)
        if before_end < len(rows):
            self.rows[: len(rows) - before_end].copy_(rows[before_end:], non_blocking=True)
        self.total += len(rows)
        self._set_size(min(self.total, self.capacity))

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
        return batch

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

    def state(self) -> dict[str, Tensor]:
        """Views of the rows that hold data: copy them before replay is extended again."""
        return {
            "rows": self.rows[: self.size],
            "total": torch.tensor(self.total),
            "generator": self.generator.get_state(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        expected = {"rows", "total", "generator"}
        if set(state) != expected:
            raise ReplayError(f"a saved replay has {', '.join(sorted(expected))}; got {', '.join(sorted(state))}")
        rows, total = state["rows"], int(state["total"])
        size = min(total, self.capacity)
        if rows.shape != (size, self.layout.row_size) or rows.dtype is not torch.float32 or total < 0:
            raise ReplayError(
                f"a saved replay of {tuple(rows.shape)} {rows.dtype} with {total} rows ever extended was got, expected "
                f"{(size, self.layout.row_size)} torch.float32 for a capacity of {self.capacity}"
            )
        self.rows[:size].copy_(rows)
        self.total = total
        self._set_size(size)
        restore(self.generator, state["generator"])
