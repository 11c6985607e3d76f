"""Checkpoints of a learner whose replay lies on a GPU: one moment, and captured updates that go on from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.learner.checkpoint import find_checkpoint  # noqa: E402
from spreeze.learner.graphs import make_updates  # noqa: E402
from spreeze.learner.restoring import restore  # noqa: E402
from spreeze.learner.saving import Saving  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

LAYOUT, CAPACITY, WITHIN_S = Layout(17, 6), 200_000, 60.0


def rows(first: int, count: int) -> torch.Tensor:
    """Numbered in their first column; the rest is what training can bear."""
    made = torch.randn(count, LAYOUT.row_size, generator=torch.Generator().manual_seed(first))
    made[:, LAYOUT.slice_of("discount")] = 0.99
    made[:, LAYOUT.slice_of("action")].tanh_()
    made[:, 0] = torch.arange(first, first + count) / CAPACITY
    return made


class House:
    def __init__(self, run_dir: Path, name: str, seed: int) -> None:
        device = torch.device("cuda:0")
        config = RunConfig.of({"hidden": "32,32", "target_entropy": -6.0})
        self.algorithm = make_algorithm(name, 17, 6, config, device, seed, engine="fused", precision="float32")
        self.replay = Replay(LAYOUT, CAPACITY, device, seed=seed)
        self.updates = make_updates(self.algorithm, self.replay, 256, captured=True)
        self.done = self.env_steps = 0
        self.events: list[str] = []
        self.saving = Saving(
            run_dir, self.algorithm, self.replay, lambda: {"updates": self.done, "env_steps": self.env_steps}, None,
            lambda: 0, lambda kind, reason, **fields: self.events.append(kind),
        )  # fmt: skip

    def extend(self, count: int) -> None:
        new = rows(self.env_steps, count).cuda()
        self.saving.protect(count)
        self.replay.extend(new)
        self.env_steps += count

    def train(self, updates: int) -> None:
        until = self.done + updates
        while self.done < until:
            self.done += self.updates.run(until - self.done)

    def state(self) -> dict[str, Any]:
        torch.cuda.synchronize()
        return {name: value.cpu().clone() for name, value in self.algorithm.state().items()}


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_one_moment_is_saved_and_goes_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    house = House(tmp_path, name, seed=1)
    house.extend(CAPACITY + 30_000)
    house.train(101)
    expected_rows = rows(0, CAPACITY + 30_000)[-CAPACITY:]
    house.saving.begin()
    saved_state = house.state()
    deadline = time.monotonic() + WITHIN_S
    while not house.saving.idle:  # the ring goes round meanwhile, and updates go on
        house.saving.tend()
        house.extend(5_000)
        house.train(3)
        assert time.monotonic() < deadline
    assert house.events == ["checkpoint"]
    checkpoint = find_checkpoint(tmp_path)[0]
    assert np.array_equal(np.concatenate(list(checkpoint.pieces())), expected_rows.numpy())
    state = checkpoint.state()
    for key, value in saved_state.items():
        assert np.array_equal(state[key], value.numpy()), key

    one, two = (House(tmp_path / str(number), name, seed=number) for number in (5, 6))
    for each in (one, two):
        restore(checkpoint, each.algorithm, each.replay, each.updates)
        each.done, each.env_steps = 101, CAPACITY + 30_000
        each.train(50)
    for key, value in one.state().items():
        assert torch.equal(value, two.state()[key]), key
