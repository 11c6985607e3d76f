"""Updates in two places against joint losses that know of no cut, in float64: both orders of the critics' work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from textbook import Textbook, assert_same

from spreeze.algos import ALGORITHMS, make_algorithm
from spreeze.config import RunConfig
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import CpuPlace
from spreeze.learner.split import SplitUpdates
from spreeze.replay import Replay
from spreeze.spec import Layout

LAYOUT = Layout(3, 2)
CONFIG = RunConfig(hidden=(12, 10), lr=1e-2, tau=0.1, init_temperature=0.3, policy_delay=3)
BATCH, UPDATES = 16, 9


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)  # of replay as well
    yield
    torch.set_default_dtype(torch.float32)


def made_up_rows() -> torch.Tensor:
    rows = torch.randn(100, LAYOUT.row_size, generator=torch.Generator().manual_seed(1))
    rows[:, LAYOUT.slice_of("action")].tanh_()
    discount = rows[:, LAYOUT.slice_of("discount")]
    discount.copy_(torch.where(discount > 0.5, 0.0, 0.97))
    return rows


def run_split(name: str, pipelined: bool, engine: str) -> Any:
    algorithm = make_algorithm(name, 3, 2, CONFIG, seed=3, engine=engine, precision="float64", critic_device="cpu")
    replay = PairedReplay(LAYOUT, 100, "cpu", "cpu", seed=7)
    replay.extend(made_up_rows())
    updates = SplitUpdates(algorithm, replay, BATCH, CpuPlace("actor"), CpuPlace("critics"), pipelined)
    done = 0
    while done < UPDATES:
        done += updates.run(UPDATES - done)
    updates.close()
    return algorithm


@pytest.mark.parametrize("engine", ["fused", "reference"])
@pytest.mark.parametrize("pipelined", [False, True], ids=["exact", "pipelined"])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_cut_gives_the_gradients_of_the_joint_losses(name: str, pipelined: bool, engine: str) -> None:
    start = make_algorithm(name, 3, 2, CONFIG, seed=3, precision="float64")
    book = Textbook(start, CONFIG, delayed=pipelined)
    replay = Replay(LAYOUT, 100, "cpu", seed=7)
    replay.extend(made_up_rows())
    for index in range(UPDATES):
        book.update(name, replay.sample(BATCH), index % start.period)

    split = run_split(name, pipelined, engine)
    critics, targets = ("critic", "target_critic") if name == "ddpg" else ("critics", "target_critics")
    assert_same(split.actor.parameters, [book.actor])
    assert_same(getattr(split, critics).parameters, book.critics)
    assert_same(getattr(split, targets).parameters, book.target_critics)
    if name == "sac":
        torch.testing.assert_close(split.log_temperature[0], book.log_temperature.detach(), rtol=1e-10, atol=1e-10)
    else:
        assert_same(split.target_actor.parameters, [book.target_actor])


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_delay_changes_the_numbers(name: str) -> None:
    """Or the test above could not tell one order from the other."""
    exact, pipelined = (run_split(name, mode, "fused") for mode in (False, True))
    assert (exact.policy_flat() - pipelined.policy_flat()).abs().max() > 1e-4
