"""Which code computes the updates of a run: the fastest that can be trusted here, and why it is that one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from spreeze.algos import make_algorithm
from spreeze.algos.algorithm import Algorithm
from spreeze.algos.kernel_limits import LEAST_CAPABILITY, why_not_for
from spreeze.algos.kernels.parity import Parity, parity_check
from spreeze.config import RunConfig
from spreeze.spec import Batch, Layout

if TYPE_CHECKING:
    from spreeze.algos.kernels.updates import KernelAlgorithm


class Choice(NamedTuple):
    algorithm: Algorithm
    kernels: KernelAlgorithm | None  # the same object, if its updates are the Triton kernels
    reason: str


def choose_update(layout: Layout, config: RunConfig, device: torch.device) -> Choice:
    """`--compile off`: the reference. Else the kernels, where they fit and agree with the reference on made-up rows;
    else the fused engine."""
    if config.compile != "on":
        return Choice(_make(layout, config, device, "reference"), None, "the reference engine: compile is off")
    reason = why_no_kernels(config.hidden, device, config.precision)
    if reason is None:
        kernels = _make_kernels(layout, config, device)
        batch = made_up_batch(layout, int(config.batch_size), device, config.seed)
        parity = compare(kernels, layout, config, batch)
        if parity.ok:
            return Choice(kernels, kernels, f"Triton kernels; {parity.words()}")
        reason = f"the Triton kernels disagree with the reference: {parity.words()}"
    return Choice(_make(layout, config, device, "fused"), None, f"the fused engine: {reason}")


def why_no_kernels(hidden: Sequence[int], device: torch.device, precision: str) -> str | None:
    """None if there is nothing against them."""
    if device.type != "cuda":
        return f"the Triton kernels are for NVIDIA GPUs, the learner's device is {device}"
    if reason := why_not_for(hidden, precision):
        return reason
    if torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
        return "the Triton kernels are cut for GPUs of compute capability 9.0 and later"
    return None


def compare(kernels: KernelAlgorithm, layout: Layout, config: RunConfig, batch: Batch) -> Parity:
    """The guard: on `batch`, from where `kernels` stands."""
    device = batch.obs.device
    reference = _make(layout, config.replace(precision="float32"), device, "reference")
    return parity_check(kernels, reference, batch, plain=_make(layout, config, device, "fused"))


def made_up_batch(layout: Layout, rows: int, device: torch.device, seed: int) -> Batch:
    generator = torch.Generator(device).manual_seed(seed)
    drawn = torch.randn(rows, layout.row_size, device=device, generator=generator)
    drawn[:, layout.slice_of("action")].tanh_()
    drawn[:, layout.slice_of("discount")] = 0.99
    return layout.split(drawn)


def _make(layout: Layout, config: RunConfig, device: torch.device, engine: str) -> Algorithm:
    return make_algorithm(
        config.algo, layout.obs_size, layout.action_size, config, device, config.seed,
        engine=engine, precision=config.precision,
    )  # fmt: skip


def _make_kernels(layout: Layout, config: RunConfig, device: torch.device) -> KernelAlgorithm:
    from spreeze.algos.kernels.updates import KERNEL_ALGORITHMS  # imports triton

    return KERNEL_ALGORITHMS[config.algo](
        layout.obs_size, layout.action_size, config, device, config.seed, precision=config.precision
    )
