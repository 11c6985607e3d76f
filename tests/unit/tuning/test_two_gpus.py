"""The model of two GPUs against sums by hand, against what was measured, and at its ends."""

from __future__ import annotations

import pytest

from spreeze.tuning.flops import Halves
from spreeze.tuning.two_gpus import (
    LINKS,
    NVLINK,
    PCIE_4,
    Crossing,
    Link,
    Sizes,
    crossing_of,
    estimate,
    exchange_seconds,
    launches_of,
    one_seconds,
    split_seconds,
)
from spreeze.weights.numpy_policy import PolicySpec


def sizes(algo: str = "sac", batch_size: int = 8192, hidden: tuple[int, ...] = (256, 256)) -> Sizes:
    return Sizes(algo, PolicySpec("tanh_gaussian" if algo == "sac" else "tanh", 17, 6, hidden), batch_size)


@pytest.mark.parametrize(
    ("batch_size", "kernels", "measured_hz"),  # one H200, docs/decisions/0006-updates-as-triton-kernels.md
    [
        (256, False, 2689), (1024, False, 2386), (8192, False, 1521), (32768, False, 779),
        (256, True, 17006), (1024, True, 14278), (8192, True, 6489), (32768, True, 1943), (131072, True, 562),
    ],
)  # fmt: skip
def test_one_gpu_takes_what_was_measured(batch_size: int, kernels: bool, measured_hz: float) -> None:
    assert 1 / one_seconds(sizes(batch_size=batch_size), kernels) == pytest.approx(measured_hz, rel=0.12)


def test_what_crosses() -> None:
    assert crossing_of(sizes("sac", batch_size=10)) == Crossing(to_critics=(2 * 6 + 1) * 4 * 10, to_actor=6 * 4 * 10)
    assert crossing_of(sizes("td3", batch_size=10)) == Crossing(to_critics=2 * 6 * 4 * 10, to_actor=6 * 4 * 10)


def test_launches_by_hand() -> None:
    """Two hidden layers: 3 layers; SAC: 2 critics of 2 forward passes and a backward one of 13."""
    launches = launches_of(sizes("sac"))
    assert launches.train == 2 * (3 + 3 + 13) + 25
    assert launches.advise == 2 * (3 + 5) + 14
    assert launches.learn == 13 + 25


# a link whose copies take 1 s and 1 s a byte; 3 bytes to the critics, 2 to the actor: copies of 4 and 3 s
SLOW, BYTES = Link("slow", 1.0, 1.0), Crossing(3, 2)


def test_a_split_update_by_hand() -> None:
    pieces = Halves(propose=5.0, learn=7.0, train=100.0, advise=11.0)
    assert split_seconds(pieces, BYTES, SLOW, "pipelined") == 11 + 100  # the critics are always busy
    assert split_seconds(pieces, BYTES, SLOW, "exact") == 11 + 100 + 5 + 7 + 4 + 3
    assert split_seconds(pieces._replace(train=9.0), BYTES, SLOW, "pipelined") == 11 + (3 + 7 + 4 + 5)  # the actor is
    # one update in two teaches the actor: two trainings beside two proposals, one learning and its copies
    assert split_seconds(pieces, BYTES, SLOW, "pipelined", period=2) == (11 + 200) / 2
    assert split_seconds(pieces._replace(train=9.0), BYTES, SLOW, "pipelined", period=2) == (11 + 3 + 7 + 4 + 10) / 2
    assert split_seconds(pieces, BYTES, SLOW, "exact", period=2) == (11 + 3 + 7 + 4 + 5 + 200) / 2


def test_the_exchange_of_gradients_by_hand() -> None:
    tiny = Sizes("sac", PolicySpec("tanh_gaussian", 2, 1, (3,)), batch_size=64)
    # actor 2 -> 3 -> 2: 9 + 8 parameters; two critics 3 -> 3 -> 1: 12 + 4 each; 4 bytes, a second each; two copies
    assert exchange_seconds(tiny, SLOW) == 2 + 4 * (17 + 2 * 16)
    assert exchange_seconds(tiny._replace(algo="td3"), SLOW) == 1.5 + 4 * (17 / 2 + 2 * 16)


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_no_link_makes_two_gpus_more_than_twice_as_fast(algo: str) -> None:
    for batch_size in (64, 8192, 131072):
        modelled = [estimate(sizes(algo, batch_size), False, link) for link in LINKS]
        assert all(one.one / 2 < one.split < one.one for one in modelled)
        assert modelled[0].split >= modelled[1].split >= modelled[2].split  # from the slowest link on
        exact = estimate(sizes(algo, batch_size), False, mode="exact")
        assert exact.split > estimate(sizes(algo, batch_size), False).split


def test_halves_of_the_batch_win_where_rows_decide_and_lose_where_launches_do() -> None:
    small, large = estimate(sizes(batch_size=256), True, NVLINK), estimate(sizes(batch_size=131072), True, PCIE_4)
    assert small.halves_of_batch > small.one
    assert large.halves_of_batch < large.one / 1.7
    assert large.split > large.one  # torch operations on two against kernels on one
