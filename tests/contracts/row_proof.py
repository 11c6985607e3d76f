"""Rows that prove themselves: whose they are, which one, and that none of their numbers is another row's."""

from __future__ import annotations

import numpy as np

ROW_SIZE = 7
_PRIME = 65_521  # every number of a row stays exact in float32


def make_rows(writer: int, life: int, first: int, count: int, row_size: int = ROW_SIZE) -> np.ndarray:
    """| writer | life | sequence | a number that follows from the three and the column | ..."""
    sequence = np.arange(first, first + count)
    rows = np.empty((count, row_size), np.float32)
    rows[:, 0], rows[:, 1], rows[:, 2] = writer, life, sequence
    for column in range(3, row_size):
        rows[:, column] = (sequence * 31 + writer * 7_919 + life * 104_729 + column * 13) % _PRIME
    return rows


def next_sequence(rows: np.ndarray, writer: int, life: int, first: int) -> int:
    """Asserts that `rows` are exactly those of one writer's life from `first` on; -> where the next ones begin."""
    np.testing.assert_array_equal(rows, make_rows(writer, life, first, len(rows), rows.shape[1]))
    return first + len(rows)


class Account:
    """What came of every writer, block by block, in any mixture of writers."""

    def __init__(self) -> None:
        self.received: dict[tuple[int, int], int] = {}  # (writer, life) -> rows
        self._latest_life: dict[int, int] = {}

    def take(self, rows: np.ndarray, block_sizes: list[int]) -> None:
        assert sum(block_sizes) == len(rows)
        start = 0
        for size in block_sizes:
            self._take_block(rows[start : start + size])
            start += size

    def _take_block(self, rows: np.ndarray) -> None:
        writer, life = int(rows[0, 0]), int(rows[0, 1])
        assert life >= self._latest_life.get(writer, 0), "a predecessor's rows came behind its successor's"
        self._latest_life[writer] = life
        self.received[writer, life] = next_sequence(rows, writer, life, self.received.get((writer, life), 0))
