"""The compiled Triton kernels at real sizes: parity with the reference, the same bits again, under capture, and a guard
that notices what is broken.

Run by `make gpu` on a machine with an NVIDIA GPU; everywhere else these tests are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.algos.choice import choose_update, compare, made_up_batch  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.gather import gather_by_torch, gather_by_triton  # noqa: E402
from spreeze.learner.graphs import CapturedUpdates, EagerUpdates  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

DEVICE = torch.device("cuda:0")
CHEETAH, PENDULUM, HUMANOID = Layout(17, 6), Layout(3, 1), Layout(348, 17)
EVERY = pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
NORM = pytest.mark.parametrize("critic_norm", ["none", "layer"])


def make_config(
    name: str, batch_size: int = 256, hidden: tuple[int, int] = (256, 256), critic_norm: str = "none"
) -> RunConfig:
    return RunConfig(
        algo=name, device="cuda:0", precision="bfloat16", compile="on", batch_size=batch_size, hidden=hidden,
        target_entropy=-1.0, critic_norm=critic_norm,
    )  # fmt: skip


def make_kernels(name: str, layout: Layout, config: RunConfig) -> Any:
    from spreeze.algos.kernels.updates import KERNEL_ALGORITHMS

    return KERNEL_ALGORITHMS[name](layout.obs_size, layout.action_size, config, DEVICE, 0, precision="bfloat16")


@EVERY
@NORM
@pytest.mark.parametrize(
    ("layout", "batch_size", "hidden"),
    [
        (PENDULUM, 64, (256, 256)),
        (PENDULUM, 256, (64, 64)),
        (CHEETAH, 256, (256, 256)),
        (CHEETAH, 1_000, (128, 256)),
        (CHEETAH, 8_191, (64, 128)),
        (CHEETAH, 8_192, (256, 256)),
        (CHEETAH, 32_768, (256, 128)),
        (HUMANOID, 1_024, (256, 256)),
        (HUMANOID, 8_192, (256, 256)),
    ],
)
def test_the_kernels_agree_with_the_reference(
    name: str, critic_norm: str, layout: Layout, batch_size: int, hidden: tuple[int, int]
) -> None:
    config = make_config(name, batch_size, hidden, critic_norm)
    parity = compare(
        make_kernels(name, layout, config), layout, config, made_up_batch(layout, batch_size, DEVICE, seed=1)
    )
    assert parity.ok, parity


@pytest.mark.parametrize("cols", [64, 256])  # in 256 the second layer's weights are kept whole
def test_layer_norm_agrees_however_the_second_layer_is_cut(cols: int) -> None:
    config = make_config("sac", 8_192, critic_norm="layer")
    kernels = make_kernels("sac", CHEETAH, config)
    default = kernels.kernels.cut_for(8_192, 256, 256)
    tile = default.critic._replace(cols=cols)
    kernels.kernels.cut_for = lambda *sizes: default._replace(critic=tile, target=tile)
    parity = compare(kernels, CHEETAH, config, made_up_batch(CHEETAH, 8_192, DEVICE, seed=1))
    assert parity.ok, parity


def test_critics_with_layer_norm_are_computed_by_the_kernels() -> None:
    choice = choose_update(CHEETAH, make_config("sac", critic_norm="layer"), DEVICE)
    assert choice.kernels is not None, choice.reason


@NORM
@pytest.mark.parametrize("name", ["td3", "ddpg"])  # SAC's noise cannot be turned off, and captured draws differ
def test_captured_updates_compute_the_bits_of_eager_ones(name: str, critic_norm: str) -> None:
    states = []
    for make in (EagerUpdates, CapturedUpdates):
        replay = Replay(CHEETAH, 1, DEVICE, seed=3)  # one row: every draw is the same
        replay.extend(torch.randn(1, CHEETAH.row_size, generator=torch.Generator().manual_seed(5)))
        algorithm = make_kernels(name, CHEETAH, make_config(name, critic_norm=critic_norm))
        algorithm.target_noise = 0.0
        updates = make(algorithm, replay, 256)
        done = 0
        while done < 24:
            done += updates.run(24 - done)
        torch.cuda.synchronize()
        states.append({key: value.clone() for key, value in algorithm.state().items() if key != "generator"})
    eager, captured = states
    assert [key for key, value in eager.items() if not torch.equal(value, captured[key])] == []


def test_a_broken_kernel_is_noticed_and_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    from spreeze.algos.kernels.updates import Kernels

    config = make_config("sac")
    choice = choose_update(CHEETAH, config, DEVICE)
    assert choice.kernels is not None, choice.reason

    advise = Kernels.advise

    def advise_backwards(self: Kernels, batch: Any, kept: Any, *rest: Any) -> None:
        advise(self, batch, kept, *rest)
        kept.grad_h1.neg_()

    monkeypatch.setattr(Kernels, "advise", advise_backwards)
    choice = choose_update(CHEETAH, config, DEVICE)
    assert choice.kernels is None
    assert "disagree" in choice.reason
    assert type(choice.algorithm) is type(make_algorithm("sac", 17, 6, config, DEVICE))


def test_a_check_between_captured_launches_changes_nothing_and_a_failed_one_goes_on_with_plain_updates() -> None:
    config, states = make_config("td3"), []
    for checked in (False, True):
        replay = Replay(CHEETAH, 1, DEVICE, seed=3)  # one row: every draw is the same
        replay.extend(torch.randn(1, CHEETAH.row_size, generator=torch.Generator().manual_seed(5)))
        algorithm = make_kernels("td3", CHEETAH, config)
        algorithm.target_noise = 0.0
        updates = CapturedUpdates(algorithm, replay, 256)
        for _ in range(3):
            updates.run(8)
            if checked:
                compare(algorithm, CHEETAH, config, replay.sample(256))
        torch.cuda.synchronize()
        states.append({key: value.clone() for key, value in algorithm.state().items() if key != "generator"})
    unchecked, checked_state = states
    assert [key for key, value in unchecked.items() if not torch.equal(value, checked_state[key])] == []

    algorithm.fall_back()
    plain = CapturedUpdates(algorithm, replay, 256)
    plain.run(8)
    torch.cuda.synchronize()
    assert algorithm.critics_adam.steps.item() == checked_state["critics_adam.steps"].item() + 8
    assert torch.isfinite(algorithm.policy_flat()).all()


@pytest.mark.parametrize("layout", [PENDULUM, CHEETAH, HUMANOID])
@pytest.mark.parametrize("size", [0, 999])
def test_the_gather_kernel_takes_the_rows_that_torch_takes(layout: Layout, size: int) -> None:
    rows = torch.randn(1_000, layout.row_size, device=DEVICE)
    number = torch.randint(0, 2**62, (8_191,), device=DEVICE)
    by_triton, by_torch = (torch.full((8_191, layout.row_size), torch.nan, device=DEVICE) for _ in range(2))
    gather_by_triton(rows, number, torch.tensor(size, device=DEVICE), by_triton)
    gather_by_torch(rows, number, torch.tensor(size, device=DEVICE), by_torch)
    assert torch.equal(by_triton, by_torch)
