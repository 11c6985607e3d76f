"""The kernel behind gather.py."""

# A kernel's parameters are pointers, numbers and constants of Triton: they have no Python types.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather(rows, number, size, out, count, ROW: tl.constexpr, BLOCK_ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    live = row < count
    there = live[:, None] & (column < ROW)[None, :]
    which = tl.load(number + row, live, other=0) % tl.maximum(tl.load(size), 1)
    drawn = tl.load(rows + which[:, None] * ROW + column[None, :], there)
    tl.store(out + row.to(tl.int64)[:, None] * ROW + column[None, :], drawn, there)
