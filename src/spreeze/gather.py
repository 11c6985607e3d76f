"""Rows of a matrix by random numbers: out[i] = rows[number[i] % size], or row 0 where size is 0.

On an NVIDIA GPU that is one launch: torch's three operations, two of which only rewrite the numbers, cost more than the
rows do at small batches.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor

# rows (capacity, row_size), number (B,) int64, size () int64, out (B, row_size)
Gather = Callable[[Tensor, Tensor, Tensor, Tensor], None]


def find_gather(device: torch.device) -> Gather:
    return gather_by_triton if device.type == "cuda" and importlib.util.find_spec("triton") else gather_by_torch


def gather_by_torch(rows: Tensor, number: Tensor, size: Tensor, out: Tensor) -> None:
    """`number` is overwritten."""
    torch.index_select(rows, 0, number.remainder_(size.clamp(min=1)), out=out)


def gather_by_triton(rows: Tensor, number: Tensor, size: Tensor, out: Tensor) -> None:
    import triton

    from spreeze.gather_kernel import gather  # at first use: replay must not need triton where there is none

    row_size = rows.shape[1]
    columns = min(128, triton.next_power_of_2(row_size))
    block_rows = 16 if len(number) <= 8192 else 32
    grid = (triton.cdiv(len(number), block_rows), triton.cdiv(row_size, columns))
    gather[grid](rows, number, size, out, len(number), ROW=row_size, BLOCK_ROWS=block_rows, COLUMNS=columns)
