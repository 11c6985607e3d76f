"""What two equal GPUs would bring: a model of an update's time on one, on two as actor and critics, and on two with
half of the batch each. Pure: sizes in, seconds and a reason out.

A piece of an update that is captured takes its launches, each after the one before, and its products:

    seconds = launches x LAUNCH_S + FLOPs / FLOPS_HZ

Both constants are fitted to updates measured on an H200 (docs/decisions/0010-two-devices.md has the table). On a
smaller GPU FLOPS_HZ is lower, which makes the halves more unequal and what crosses matter less.

Two GPUs as actor and critics, pipelined: the critics advise, and then train while the actor learns and proposes.

    actor    | c1 |            | c2 | learn | propose |           c1, c2: what crosses to the critics, to the actor
    critics       | advise |        train         |
    update = advise + max(train, c2 + learn + propose + c1)

Exact: nothing overlaps where the actor learns; update = the sum of all of it.
Halves of the batch: update = one GPU's with half of the rows + the exchange of all gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from spreeze.tuning.flops import (
    Halves,
    advisers_of,
    critic_sizes,
    critics_of,
    flops_of_halves,
    flops_of_update,
    period_of,
)
from spreeze.weights.numpy_policy import PolicySpec

_FLOAT_BYTES = 4


class Rates(NamedTuple):
    launch_s: float  # of a small launch after the one it depends on, in a captured graph
    flops_hz: float  # of an update's rows, products and all that is done to each element beside them
    least_s: float = 0.0  # launches of an update whose number does not depend on its networks


TORCH_RATES = Rates(launch_s=2.3e-6, flops_hz=82e12)  # torch operations, captured, bfloat16 products
KERNEL_RATES = Rates(launch_s=0.0, flops_hz=182e12, least_s=57e-6)  # the Triton kernels of whole updates


class Link(NamedTuple):
    """A way between two GPUs: what one copy costs beyond its bytes (an event each side and the copy's start), and
    bytes a second that are reached in one direction."""

    name: str
    copy_s: float
    bytes_hz: float


PCIE_4 = Link("PCIe 4", 10e-6, 22e9)
PCIE_5 = Link("PCIe 5", 10e-6, 44e9)
NVLINK = Link("NVLink", 6e-6, 300e9)
LINKS = (PCIE_4, PCIE_5, NVLINK)


class Sizes(NamedTuple):
    """Of the updates in question."""

    algo: str
    policy: PolicySpec
    batch_size: int
    policy_delay: int = 2

    @property
    def period(self) -> int:
        return period_of(self.algo, self.policy_delay)


class Crossing(NamedTuple):
    """Bytes of an update in which the actor learns."""

    to_critics: int  # a and a', and SAC's temperature x log pi(a'|s')
    to_actor: int  # dQ/da


class Estimate(NamedTuple):
    """Seconds of a mean update."""

    one: float
    split: float
    halves_of_batch: float


def crossing_of(sizes: Sizes) -> Crossing:
    actions = sizes.policy.action_size
    penalty = 1 if sizes.algo == "sac" else 0
    rows = _FLOAT_BYTES * sizes.batch_size
    return Crossing((2 * actions + penalty) * rows, actions * rows)


def launches_of(sizes: Sizes) -> Halves:
    """Of the fused engine, counted in its code with n layers: n launches a forward pass and network, 5 n - 2 a backward
    pass with weights' gradients (sum, product and conversion of each, and the inputs'), 2 n - 1 one to the inputs."""
    layers = len(sizes.policy.hidden) + 1
    critics, advisers = critics_of(sizes.algo), advisers_of(sizes.algo)
    proposals = 1 + 1 / sizes.period
    return Halves(
        propose=proposals * layers + (23 if sizes.algo == "sac" else 15),
        learn=5 * layers - 2 + 25,
        train=critics * (2 * layers + 5 * layers - 2) + 25,
        advise=advisers * (layers + 2 * layers - 1) + 14,
    )


def piece_seconds(sizes: Sizes, rates: Rates = TORCH_RATES) -> Halves:
    flops = flops_of_halves(sizes.algo, sizes.policy, sizes.batch_size, sizes.policy_delay)
    pairs = zip(launches_of(sizes), flops, strict=True)
    return Halves(*(count * rates.launch_s + work / rates.flops_hz for count, work in pairs))


def one_seconds(sizes: Sizes, kernels: bool) -> float:
    """`kernels`: the Triton kernels compute it."""
    if not kernels:
        return piece_seconds(sizes).of_update(sizes.period)
    flops = flops_of_update(sizes.algo, sizes.policy, sizes.batch_size, sizes.policy_delay)
    return KERNEL_RATES.least_s + flops / KERNEL_RATES.flops_hz


def split_seconds(pieces: Halves, crossing: Crossing, link: Link, mode: str, period: int = 1) -> float:
    """A mean update on two GPUs from the times of its pieces, measured or modelled."""
    to_critics = link.copy_s + crossing.to_critics / link.bytes_hz
    to_actor = link.copy_s + crossing.to_actor / link.bytes_hz
    actor = to_actor + pieces.learn + to_critics + pieces.propose
    if mode == "exact":  # the proposals of turns without learning are made while the critics train
        return (pieces.advise + actor + period * pieces.train) / period
    beside = actor + (period - 1) * pieces.propose
    return (pieces.advise + max(period * pieces.train, beside)) / period


def exchange_seconds(sizes: Sizes, link: Link) -> float:
    """Each of two GPUs sends all of its gradients to the other: the critics', then the actor's."""
    critics = critics_of(sizes.algo) * _parameters(critic_sizes(sizes.policy))
    actor = _parameters(sizes.policy.layer_sizes) / sizes.period
    copies = 1 + 1 / sizes.period
    return copies * link.copy_s + (critics + actor) * _FLOAT_BYTES / link.bytes_hz


def halves_of_batch_seconds(sizes: Sizes, kernels: bool, link: Link) -> float:
    """Both networks on both GPUs, each with half of the rows."""
    half = sizes._replace(batch_size=-(-sizes.batch_size // 2))
    return one_seconds(half, kernels) + exchange_seconds(sizes, link)


def estimate(sizes: Sizes, kernels: bool, link: Link = PCIE_4, mode: str = "pipelined") -> Estimate:
    """`kernels`: one GPU would compute whole updates by Triton kernels; two never do."""
    return Estimate(
        one=one_seconds(sizes, kernels),
        split=split_seconds(piece_seconds(sizes), crossing_of(sizes), link, mode, sizes.period),
        halves_of_batch=halves_of_batch_seconds(sizes, kernels, link),
    )


def _parameters(sizes: Sequence[int]) -> int:
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
