"""A replay full of made-up rows, for benches that step nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from spreeze.learner.paired_replay import PairedReplay
from spreeze.replay import Replay
from spreeze.spec import Layout

_ROWS_AT_ONCE = 1 << 16


def fill(replay: Replay | PairedReplay, rows: int, device: torch.device | str, seed: int = 0) -> None:
    generator = torch.Generator(device).manual_seed(seed)
    while rows:
        count = min(rows, _ROWS_AT_ONCE)
        replay.extend(random_rows(replay.layout, count, generator))
        rows -= count


def random_rows(layout: Layout, count: int, generator: torch.Generator) -> Tensor:
    """Standard normal observations and rewards, actions in [-1, 1], a discount that ends no episode."""
    rows = torch.randn(count, layout.row_size, generator=generator, device=generator.device)
    rows[:, layout.slice_of("action")].tanh_()
    rows[:, layout.slice_of("discount")] = 0.99
    return rows
