"""The Triton kernels against the reference, through Triton's interpreter on the CPU, with float32 products.

With a GPU the kernels are compiled: tests/gpu/test_triton_update.py shows the same with the real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

if torch.cuda.is_available():
    pytest.skip("tests/gpu has these for the compiled kernels", allow_module_level=True)
os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported for the first time
pytest.importorskip("triton")

from spreeze.algos import make_algorithm
from spreeze.algos.choice import made_up_batch
from spreeze.algos.kernels.parity import parity_check
from spreeze.algos.kernels.sizes import cut_for, split_rows
from spreeze.algos.kernels.updates import KERNEL_ALGORITHMS
from spreeze.config import RunConfig
from spreeze.gather import gather_by_torch, gather_by_triton
from spreeze.spec import Batch, Layout

EVERY = pytest.mark.parametrize("name", list(KERNEL_ALGORITHMS))
NORM = pytest.mark.parametrize("critic_norm", ["none", "layer"])
LAYOUT = Layout(5, 3)
ROWS = 20  # no multiple of any tile


def make_config(hidden: tuple[int, int] = (16, 16), critic_norm: str = "none") -> RunConfig:
    return RunConfig(hidden=hidden, lr=1e-3, target_entropy=-3.0, critic_norm=critic_norm)


def make_kernels(name: str, layout: Layout = LAYOUT, config: RunConfig | None = None, seed: int = 0) -> Any:
    make = KERNEL_ALGORITHMS[name]
    return make(layout.obs_size, layout.action_size, config or make_config(), seed=seed, products=torch.float32)


def make_reference(name: str, layout: Layout = LAYOUT, config: RunConfig | None = None, seed: int = 0) -> Any:
    return make_algorithm(
        name, layout.obs_size, layout.action_size, config or make_config(), seed=seed, engine="reference"
    )


def draw_batch(layout: Layout = LAYOUT, rows: int = ROWS, seed: int = 1) -> Batch:
    return made_up_batch(layout, rows, torch.device("cpu"), seed)


def copy_state(algorithm: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in algorithm.state().items()}


def check_same_learning(kernels: Any, reference: Any, batch: Batch) -> None:
    """After every turn of the algorithm twice."""
    for turn in [*range(reference.period)] * 2:
        for algorithm in (kernels, reference):
            algorithm.update(batch, turn)
    for key, expected in reference.state().items():
        torch.testing.assert_close(
            kernels.state()[key], expected, rtol=1e-3, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}"
        )
    for key, expected in reference.metrics.items():
        torch.testing.assert_close(kernels.metrics[key], expected, rtol=1e-4, atol=1e-5)


@EVERY
@NORM
@pytest.mark.parametrize(
    ("layout", "hidden", "rows"),
    [
        (LAYOUT, (32, 16), 40),
        (Layout(70, 1), (16, 32), 17),  # the observation is taken in several steps
        (Layout(16, 17), (16, 64), 130),  # sizes that leave no room for padding, and several splits of the rows
    ],
)
def test_the_kernels_learn_what_the_reference_learns(
    name: str, critic_norm: str, layout: Layout, hidden: tuple[int, int], rows: int
) -> None:
    config = make_config(hidden, critic_norm)
    kernels, reference = make_kernels(name, layout, config), make_reference(name, layout, config)
    check_same_learning(kernels, reference, draw_batch(layout, rows))


@EVERY
@pytest.mark.parametrize("cols", [16, 32, 64])  # in 64 the second layer's weights are kept whole
def test_layer_norm_is_the_same_however_the_second_layer_is_cut(name: str, cols: int) -> None:
    config = make_config((32, 64), "layer")
    kernels, reference = make_kernels(name, config=config), make_reference(name, config=config)
    default = kernels.kernels.cut_for(ROWS, 32, 64)
    tile = default.critic._replace(cols=cols)
    kernels.kernels.cut_for = lambda *sizes: default._replace(critic=tile, target=tile)
    check_same_learning(kernels, reference, draw_batch())


def test_layer_norm_of_units_that_hardly_differ_rests_on_its_epsilon() -> None:
    config = make_config(critic_norm="layer")
    kernels, reference = make_kernels("sac", config=config), make_reference("sac", config=config)
    start = copy_state(reference)
    for critics in (start["critics"], start["target_critics"]):
        critics.mul_(0.01)
    for algorithm in (kernels, reference):
        algorithm.load(start)
    check_same_learning(kernels, reference, draw_batch())


@pytest.mark.parametrize("batch_size", [256, 8_192, 131_072])
@pytest.mark.parametrize("hidden2", [16, 128, 256])
def test_layer_norm_changes_the_cut_of_the_critics_alone(batch_size: int, hidden2: int) -> None:
    plain, normed = cut_for(batch_size, 256, hidden2), cut_for(batch_size, 256, hidden2, norm=True)
    assert normed._replace(critic=plain.critic, target=plain.target) == plain
    assert hidden2 % normed.critic.cols == 0


@EVERY
@NORM
def test_a_loaded_state_goes_on_bit_for_bit(name: str, critic_norm: str) -> None:
    config = make_config(critic_norm=critic_norm)
    whole, resumed = make_kernels(name, config=config), make_kernels(name, config=config, seed=9)
    batch = draw_batch()
    for turn in range(whole.period):
        whole.update(batch, turn)
    resumed.load(copy_state(whole))
    for algorithm in (whole, resumed):
        for turn in range(algorithm.period):
            algorithm.update(batch, turn)
    assert [key for key, value in whole.state().items() if not torch.equal(value, resumed.state()[key])] == []


@EVERY
@NORM
def test_parity_holds_and_leaves_the_state_as_it_was(name: str, critic_norm: str) -> None:
    config = make_config(critic_norm=critic_norm)
    kernels = make_kernels(name, config=config)
    before = copy_state(kernels)
    reference, plain = (make_reference(name, config=config, seed=seed) for seed in (5, 6))
    parity = parity_check(kernels, reference, draw_batch(), plain)
    assert parity.ok
    assert parity.worst < 0.01, parity
    assert [key for key, value in before.items() if not torch.equal(value, kernels.state()[key])] == []


def halve_the_loss(kernels: Any) -> None:
    train = kernels.train_critics
    kernels.train_critics = lambda batch, kept, adam, scale, *rest: train(batch, kept, adam, scale / 2, *rest)


def forget_the_targets(kernels: Any) -> None:
    train = kernels.train_critics
    kernels.train_critics = lambda batch, kept, adam, scale, tau, *rest: train(batch, kept, adam, scale, 0.0, *rest)


def keep_old_weights(kernels: Any) -> None:
    optimise = kernels._optimise

    def optimise_without_packing(packed: Any, *rest: Any) -> None:
        before = packed.data.clone()
        optimise(packed, *rest)
        packed.data.copy_(before)

    kernels._optimise = optimise_without_packing


def lose_a_bias(kernels: Any) -> None:
    optimise = kernels._optimise

    def optimise_without_a_bias(packed: Any, adam: Any, partial: torch.Tensor, *rest: Any) -> None:
        for split in partial:
            packed.parameters.views(split)[1].bias.zero_()
        optimise(packed, adam, partial, *rest)

    kernels._optimise = optimise_without_a_bias


def follow_the_wrong_critic(kernels: Any) -> None:
    advise = kernels.advise

    def advise_backwards(batch: Batch, kept: Any, *rest: Any) -> None:
        advise(batch, kept, *rest)
        kept.grad_h1.neg_()

    kernels.advise = advise_backwards


def give_not_a_number(kernels: Any) -> None:
    advise = kernels.advise

    def advise_nan(batch: Batch, kept: Any, *rest: Any) -> None:
        advise(batch, kept, *rest)
        kept.grad_h2[0, 0] = float("nan")

    kernels.advise = advise_nan


@pytest.mark.parametrize(
    "break_it",
    [halve_the_loss, forget_the_targets, keep_old_weights, lose_a_bias, follow_the_wrong_critic, give_not_a_number],
)
def test_parity_fails_where_a_kernel_is_broken(break_it: Callable[[Any], None]) -> None:
    kernels = make_kernels("sac")
    break_it(kernels.kernels)
    parity = parity_check(kernels, make_reference("sac"), draw_batch(), make_reference("sac"))
    assert not parity.ok, parity


@EVERY
def test_after_falling_back_the_plain_update_goes_on_from_there(name: str) -> None:
    kernels, plain = make_kernels(name), make_algorithm(name, 5, 3, make_config())
    batch = draw_batch()
    for turn in range(kernels.period):
        kernels.update(batch, turn)
    kernels.fall_back()
    plain.load(copy_state(kernels))
    for algorithm in (kernels, plain):
        for turn in range(algorithm.period):
            algorithm.update(batch, turn)
    assert [key for key, value in plain.state().items() if not torch.equal(value, kernels.state()[key])] == []


@pytest.mark.parametrize("batch_size", [1, 63, 64, 256, 1_000, 8_192, 100_000, 131_072])
def test_every_row_is_in_exactly_one_split(batch_size: int) -> None:
    cut = cut_for(batch_size, 256, 256)
    for splits, tile in ((cut.critic_splits, cut.critic_gradients), (cut.actor_splits, cut.actor_gradients)):
        rows = split_rows(batch_size, splits, tile)
        used = -(-batch_size // rows)
        assert rows % tile.rows == 0
        assert 1 <= used <= splits
        assert (used - 1) * rows < batch_size <= used * rows


@pytest.mark.parametrize("size", [0, 7])
def test_the_gather_kernel_takes_the_rows_that_torch_takes(size: int) -> None:
    rows = torch.randn(7, 13)
    number = torch.randint(0, 2**62, (20,))
    by_triton, by_torch = torch.full((20, 13), torch.nan), torch.full((20, 13), torch.nan)
    gather_by_triton(rows, number, torch.tensor(size), by_triton)
    gather_by_torch(rows, number, torch.tensor(size), by_torch)
    assert torch.equal(by_triton, by_torch)
