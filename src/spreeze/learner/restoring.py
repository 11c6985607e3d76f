"""From a checkpoint into the parts that updates are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from spreeze.algos.algorithm import Algorithm
from spreeze.errors import CheckpointError
from spreeze.learner.checkpoint import Checkpoint
from spreeze.learner.graphs import Updates
from spreeze.learner.paired_replay import PairedReplay
from spreeze.replay import Replay

REPLAY = "replay."  # in front of the names of its random states


def restore(checkpoint: Checkpoint, algorithm: Algorithm, replay: Replay | PairedReplay, updates: Updates) -> None:
    """A replay that is smaller now keeps the newest rows. Raises CheckpointError or StateError."""
    if checkpoint.row_size != replay.layout.row_size:
        raise CheckpointError(
            f"{checkpoint.path}: its rows have {checkpoint.row_size} numbers, this run's have {replay.layout.row_size}"
        )
    saved = {name: torch.from_numpy(value) for name, value in checkpoint.state().items()}
    algorithm.load({name: value for name, value in saved.items() if not name.startswith(REPLAY)})
    rows = checkpoint.end_row - checkpoint.first_row
    replay.begin_again(map(torch.from_numpy, checkpoint.pieces()), rows, checkpoint.end_row)
    replay.load_draws(_named(saved, REPLAY))
    updates.go_on_from(checkpoint.counters["updates"])


def _named(saved: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in saved.items() if name.startswith(prefix)}
