"""What a checkpoint holds is one moment of the run, whatever comes in while it is written."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.errors import CheckpointError  # noqa: E402
from spreeze.learner import saving as saving_module  # noqa: E402
from spreeze.learner.checkpoint import CHECKPOINTS, find_checkpoint  # noqa: E402
from spreeze.learner.graphs import EagerUpdates  # noqa: E402
from spreeze.learner.restoring import restore  # noqa: E402
from spreeze.learner.saving import Saving  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

LAYOUT = Layout(2, 1)
WITHIN_S = 20.0


class Networks:
    def __init__(self) -> None:
        self.weights = torch.zeros(4)

    def state(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights}


class House:
    def __init__(self, run_dir: Path, capacity: int, before: Any = None, every_s: float | None = None) -> None:
        self.run_dir, self.networks, self.replay = run_dir, Networks(), Replay(LAYOUT, capacity)
        self.updates = self.env_steps = self.asked = 0
        self.events: list[tuple[str, str]] = []
        self.saving = Saving(
            run_dir,
            self.networks,
            self.replay,
            lambda: {"updates": self.updates, "env_steps": self.env_steps},
            every_s,
            lambda: self.asked,
            lambda kind, reason, **fields: self.events.append((kind, reason)),
            before,
        )

    def extend(self, count: int) -> None:
        rows = numbered(self.env_steps, count)
        self.saving.protect(count)
        self.replay.extend(rows)
        self.env_steps += count

    def until(self, events: int) -> None:
        deadline = time.monotonic() + WITHIN_S
        while len(self.events) < events:
            self.saving.tend()
            assert time.monotonic() < deadline
            time.sleep(0.0005)


def numbered(first: int, count: int) -> torch.Tensor:
    numbers = torch.arange(first, first + count, dtype=torch.float32).unsqueeze(1)
    return numbers * 100 + torch.arange(LAYOUT.row_size, dtype=torch.float32)


def saved_rows(run_dir: Path) -> torch.Tensor:
    pieces = [np.array(piece) for piece in find_checkpoint(run_dir)[0].pieces()]
    return torch.from_numpy(np.concatenate(pieces)) if pieces else torch.zeros(0, LAYOUT.row_size)


@settings(max_examples=60, deadline=None)
@given(
    capacity=st.integers(1, 30),
    moments=st.lists(
        st.tuples(st.lists(st.integers(0, 40), max_size=4), st.lists(st.integers(0, 40), max_size=6)),
        min_size=1, max_size=4,
    ),
)  # fmt: skip
def test_rows_that_come_meanwhile_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, capacity: int, moments: list[tuple[list[int], list[int]]]
) -> None:
    """Each moment: rows come in, a checkpoint begins, rows come in while it is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saving_module, "PIECE_BYTES", 3 * LAYOUT.row_bytes)  # three rows at a time
        patch.setattr(saving_module, "COPY_BYTES_PER_S", 1 << 40)
        house = House(tmp_path_factory.mktemp("run"), capacity)
        for number, (before, meanwhile) in enumerate(moments, 1):
            for count in before:
                house.extend(count)
            house.asked += 1
            house.updates, house.networks.weights[:] = number, float(number)
            house.saving.tend()
            held, env_steps = numbered(house.env_steps - house.replay.size, house.replay.size), house.env_steps
            house.networks.weights[:] = -1.0
            for count in meanwhile:
                house.extend(count)
                house.saving.tend()
            house.until(events=number)
            assert torch.equal(saved_rows(house.run_dir), held)
            checkpoint = find_checkpoint(house.run_dir)[0]
            assert checkpoint.counters == {"updates": number, "env_steps": env_steps}
            assert checkpoint.state()["weights"].tolist() == [number] * 4
        assert {kind for kind, _ in house.events} == {"checkpoint"}


def test_at_the_end_the_newest_is_saved_once(tmp_path: Path) -> None:
    house = House(tmp_path, 10)
    house.extend(25)
    beats: list[int] = []
    house.saving.close(lambda: beats.append(1))
    assert beats
    assert torch.equal(saved_rows(tmp_path), numbered(15, 10))
    again = House(tmp_path, 10, before=find_checkpoint(tmp_path)[0])
    again.env_steps, again.replay.total = 25, 25
    again.saving.close(lambda: None)
    assert again.events == []  # nothing has happened since


def test_a_full_disk_is_said_with_the_bytes_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, 10, every_s=0.001)
    house.extend(7)
    house.until(events=1)
    house.extend(6)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        house.until(events=2)
    kind, reason = house.events[1]
    assert kind == "warning"
    assert f"{6 * LAYOUT.row_bytes} bytes" in reason
    assert "No space left" in reason
    assert "1 stands" in reason
    house.until(events=3)
    assert house.events[2][0] == "checkpoint"
    assert torch.equal(saved_rows(tmp_path), numbered(3, 10))
    assert all(not path.name.startswith(".") for path in (tmp_path / CHECKPOINTS).iterdir())


def test_an_end_that_cannot_be_saved_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, capacity=8)
    house.extend(4)
    house.asked += 1
    house.until(events=1)
    house.extend(4)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"could not be saved .* No space left on device; 1 stands"):
        house.saving.close(lambda: None)
    assert find_checkpoint(tmp_path)[0].end_row == 4


def test_what_is_no_trouble_of_the_disk_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(tmp_path, 10, every_s=0.001)
    monkeypatch.setattr(saving_module, "_write", lambda writer, copy: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        house.until(events=1)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_training_goes_on_bit_for_bit(tmp_path: Path, name: str) -> None:
    """Half-way through TD3's period, too."""
    config = RunConfig.of({"hidden": "8,8", "target_entropy": -1.0})

    def make(seed: int) -> tuple[Any, Replay, EagerUpdates]:
        algorithm = make_algorithm(name, 2, 1, config, torch.device("cpu"), seed, engine="fused", precision="float32")
        replay = Replay(LAYOUT, 50, seed=seed)
        return algorithm, replay, EagerUpdates(algorithm, replay, 8)

    algorithm, replay, updates = make(seed=1)
    replay.extend(torch.randn(70, LAYOUT.row_size, generator=torch.Generator().manual_seed(0)))
    for _ in range(5):
        updates.run(1)
    counters = {"updates": 5, "env_steps": 70}
    saving = Saving(tmp_path, algorithm, replay, lambda: counters, None, lambda: 0, lambda *event, **fields: None)
    saving.close(lambda: None)

    other, other_replay, other_updates = make(seed=2)
    restore(find_checkpoint(tmp_path)[0], other, other_replay, other_updates)
    for each, runner in ((replay, updates), (other_replay, other_updates)):
        each.extend(torch.ones(3, LAYOUT.row_size))
        for _ in range(5):
            runner.run(1)
    for key, value in algorithm.state().items():
        assert torch.equal(value, other.state()[key]), key
