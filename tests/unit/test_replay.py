"""Replay against a plain Python list."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spreeze.replay import Replay, ReplayError
from spreeze.spec import Layout

LAYOUT = Layout(2, 1)


def numbered(first: int, count: int) -> torch.Tensor:
    """Rows whose every field tells their number."""
    numbers = torch.arange(first, first + count, dtype=torch.float32).unsqueeze(1)
    return numbers * 100 + torch.arange(LAYOUT.row_size, dtype=torch.float32)


def numbers_in(rows: torch.Tensor) -> list[int]:
    numbers = (rows[:, 0] / 100).round().long()
    assert torch.equal(rows, torch.cat([numbered(int(number), 1) for number in numbers]))  # no row is torn
    return numbers.tolist()


@settings(max_examples=150, deadline=None)
@given(capacity=st.integers(1, 12), counts=st.lists(st.integers(0, 30), max_size=12))
def test_replay_holds_the_newest_rows_whatever_the_blocks(capacity: int, counts: list[int]) -> None:
    replay, model = Replay(LAYOUT, capacity), []
    for count in counts:
        replay.extend(numbered(len(model), count))
        model += range(len(model), len(model) + count)
        held = model[-capacity:]
        assert replay.size == replay.device_size.item() == len(held)
        assert replay.total == len(model)
        assert sorted(numbers_in(replay.rows[: replay.size])) == held if held else replay.size == 0
        if held:
            assert set(numbers_in(replay.sample(40).obs_action.new_tensor(replay._drawn[40][1].tolist()))) <= set(held)
    for place, number in enumerate(numbers_in(replay.rows[: replay.size]) if replay.size else []):
        assert number % capacity == place  # the drawing in the docstring


def test_draws_are_uniform_over_what_was_extended() -> None:
    replay = Replay(LAYOUT, 1000, seed=1)
    replay.extend(numbered(0, 10))
    counts = torch.bincount((replay.sample(100_000).obs[:, 0] / 100).long())
    assert len(counts) == 10
    assert counts.min() > 9_500
    assert counts.max() < 10_500


MEMORY = """
import psutil
from spreeze.replay import Replay
from spreeze.spec import Layout

layout, process = Layout(2, 1), psutil.Process()
before = process.memory_info().rss
replay = Replay(layout, (1 << 30) // layout.row_bytes)
made = process.memory_info().rss
replay.rows[: (1 << 27) // layout.row_bytes].fill_(1.0)
print(made - before, process.memory_info().rss - made)
"""


def test_memory_is_taken_as_rows_come() -> None:
    """In a process of its own, where no freed memory of other tests is taken first."""
    source = str(Path(__file__).parents[2] / "src")
    told = subprocess.run(
        [sys.executable, "-c", MEMORY],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    at_first, with_rows = map(int, told.stdout.split())
    assert at_first < 1 << 26
    assert with_rows > 0.9 * (1 << 27)


def test_a_batch_is_views_of_whole_rows() -> None:
    replay = Replay(LAYOUT, 50)
    replay.extend(numbered(0, 50))
    batch = replay.sample(7)
    assert batch.obs.shape == (7, 2)
    assert batch.obs_action.shape == (7, 3)
    assert batch.reward.shape == batch.discount.shape == (7,)
    torch.testing.assert_close(batch.next_obs, batch.obs + 3)
    torch.testing.assert_close(batch.reward, batch.obs[:, 0] + 5)
    torch.testing.assert_close(batch.discount, batch.obs[:, 0] + 6)
    assert replay.sample(7).obs.data_ptr() == batch.obs.data_ptr()  # the buffer is kept
    assert replay.sample(8).obs.data_ptr() != batch.obs.data_ptr()


def test_the_same_seed_draws_the_same_rows() -> None:
    draws = []
    for seed in (3, 3, 4):
        replay = Replay(LAYOUT, 100, seed=seed)
        replay.extend(numbered(0, 100))
        draws.append(replay.sample(20).obs.clone())
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("rows", [0, 6, 10, 25])
def test_a_saved_replay_goes_on_bit_for_bit(rows: int) -> None:
    replay, other = Replay(LAYOUT, 10, seed=1), Replay(LAYOUT, 10, seed=2)
    replay.extend(numbered(0, rows))
    other.extend(numbered(500, 3))
    other.begin_again(oldest_first(replay, most=3), replay.size, replay.total)
    other.load_draws(replay.draws())
    for each in (replay, other):
        each.extend(numbered(rows, 4))
    assert (other.size, other.total) == (replay.size, replay.total)
    assert torch.equal(other.rows[: other.size], replay.rows[: replay.size])
    assert torch.equal(other.sample(16).obs, replay.sample(16).obs)


@pytest.mark.parametrize("capacity", [4, 16])
def test_rows_go_on_in_a_replay_of_another_size(capacity: int) -> None:
    replay, other = Replay(LAYOUT, 10), Replay(LAYOUT, capacity)
    replay.extend(numbered(0, 25))
    other.begin_again(oldest_first(replay, most=7), replay.size, replay.total)
    assert other.size == min(10, capacity)
    other.extend(numbered(25, 3))
    newest = torch.cat(list(oldest_first(other, most=100)))
    assert torch.equal(newest, numbered(28 - other.size, other.size))


def oldest_first(replay: Replay, most: int) -> Iterator[torch.Tensor]:
    first = replay.total - replay.size
    while first < replay.total:
        piece = replay.view(first, most)
        assert 0 < len(piece) <= most
        yield piece
        first += len(piece)


def test_misuse_is_refused() -> None:
    replay = Replay(LAYOUT, 10)
    with pytest.raises(ReplayError, match="empty"):
        replay.sample(1)
    with pytest.raises(ReplayError, match="expected \\(n, 7\\)"):
        replay.extend(torch.zeros(3, 6))
    replay.extend(numbered(0, 13))
    with pytest.raises(ReplayError, match="rows 3 to 13"):
        replay.view(2, 1)
