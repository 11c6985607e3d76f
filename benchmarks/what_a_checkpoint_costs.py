"""How much slower updates are while a checkpoint of a full replay is written, and how long it takes to load.

    python benchmarks/what_a_checkpoint_costs.py [--device cuda:0 --batch-size 8192] [--rows 1000000]

Prints one JSON document. The learner's own loop is imitated: updates, now and then rows that come in, `Saving.tend`
after each launch, and every checkpoint is the first of its run, so that all rows are written. The files lie where
temporary files go; name a folder on the disk that runs use with --folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from spreeze.algos import make_algorithm
from spreeze.config import RunConfig
from spreeze.learner.checkpoint import find_checkpoint
from spreeze.learner.graphs import make_updates
from spreeze.learner.restoring import restore
from spreeze.learner.saving import Saving
from spreeze.replay import Replay
from spreeze.spec import Layout

LAYOUT = Layout(obs_size=17, action_size=6)  # HalfCheetah: 168 bytes a row
ROWS_A_LAUNCH = 128
WINDOWS = 5


class House:
    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        device = torch.device(arguments.device)
        config = RunConfig.of({"target_entropy": -6.0, "batch_size": arguments.batch_size})
        self.algorithm = make_algorithm(
            "sac", LAYOUT.obs_size, LAYOUT.action_size, config, device, 0, engine="fused", precision="float32"
        )
        self.replay = Replay(LAYOUT, arguments.rows, device)
        self.updates = make_updates(self.algorithm, self.replay, arguments.batch_size, device.type == "cuda")
        self.done = self.env_steps = 0
        self._rows = torch.randn(ROWS_A_LAUNCH, LAYOUT.row_size, device=device)
        self.save_into(folder)
        while self.env_steps < arguments.rows:
            self.launch(train=False)

    def save_into(self, folder: Path) -> None:
        """As a run that has no checkpoint yet."""
        folder.mkdir(exist_ok=True)
        self.saving = Saving(
            folder, self.algorithm, self.replay, lambda: {"updates": self.done, "env_steps": self.env_steps}, None,
            lambda: 0, lambda kind, reason, **fields: None,
        )  # fmt: skip

    def launch(self, train: bool = True) -> None:
        self.saving.protect(ROWS_A_LAUNCH)
        self.replay.extend(self._rows)
        self.env_steps += ROWS_A_LAUNCH
        if train:
            self.done += self.updates.run(64)
            self.saving.tend()

    def update_hz(self, seconds: float) -> float:
        """Over a time, or where it is 0 until the checkpoint is written."""
        began, done = time.perf_counter(), self.done
        while time.perf_counter() - began < seconds or (not seconds and not self.saving.idle):
            self.launch()
        if self.replay.device.type == "cuda":
            torch.cuda.synchronize()
        return (self.done - done) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        house = House(folder, arguments)
        house.update_hz(2.0)
        shares, written_s, alone = [], [], []
        for window in range(WINDOWS):
            house.save_into(folder / str(window))
            alone.append(house.update_hz(5.0))
            began = time.perf_counter()
            house.saving.begin()
            shares.append(house.update_hz(0.0) / alone[-1])
            written_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        checkpoint, _ = find_checkpoint(folder / str(WINDOWS - 1))
        checked_s = time.perf_counter() - began
        restore(checkpoint, house.algorithm, house.replay, house.updates)
        if house.replay.device.type == "cuda":
            torch.cuda.synchronize()
        loaded_s = time.perf_counter() - began - checked_s
    print(
        json.dumps(
            {
                "settings": vars(arguments),
                "update_hz": statistics.median(alone),
                "share_while_written": statistics.median(shares),
                "share_spread": [min(shares), max(shares)],
                "written_s": written_s,
                "checked_s": checked_s,
                "loaded_s": loaded_s,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
