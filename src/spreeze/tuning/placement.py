"""Which devices compute the updates, as the user says it: one, or one for the actor and one for the critics."""

from __future__ import annotations

from typing import NamedTuple

from spreeze.config import AUTO, RunConfig, flag_of
from spreeze.errors import ConfigError
from spreeze.tuning.two_gpus import PCIE_4, Sizes, estimate

_NAMES = ("actor_device", "critic_device")
DEFAULT_MODE = "pipelined"
_PAYS_FROM = 1.15  # times one GPU's updates a second by the model, which is a model


class Placement(NamedTuple):
    """Where each half is computed. In one place: None, None."""

    actor: str | None
    critics: str | None
    reason: str

    @property
    def split(self) -> bool:
        return self.actor is not None


def asked_placement(config: RunConfig) -> Placement | None:
    """What the flags name, or None where they leave it open. Raises ConfigError where they contradict one another."""
    actor, critics = (None if (name := getattr(config, field)) == AUTO else name for field in _NAMES)
    if (actor is None) != (critics is None):
        given, left = _NAMES if critics is None else _NAMES[::-1]
        raise ConfigError(
            f"{flag_of(given)} {actor or critics} was given without {flag_of(left)}; name both (they may be the same), "
            "or neither"
        )
    if actor is None:
        return None
    if config.device != AUTO:
        raise ConfigError(
            f"--device {config.device} was given beside --actor-device {actor} and --critic-device {critics}; "
            "leave --device out, or name it alone"
        )
    return Placement(actor, critics, "named by the flags")


def check_mode(config: RunConfig, placement: Placement) -> None:
    """A mode that was asked for needs two devices."""
    if config.split_mode not in (AUTO, None) and not placement.split:
        raise ConfigError(
            f"--split-mode {config.split_mode} says how two devices work together, and one computes the updates here "
            f"({placement.reason}); name two with --actor-device and --critic-device, or leave --split-mode out"
        )


def by_size(sizes: Sizes, kernels: bool, mode: str = DEFAULT_MODE) -> Placement:
    """One GPU or two equal ones, as the model has it with the slowest of the usual ways between them. `kernels`: one
    GPU would compute whole updates by Triton kernels."""
    modelled = estimate(sizes, kernels, PCIE_4, mode)
    faster = modelled.one / modelled.split
    by = "by Triton kernels" if kernels else "by torch operations"
    told = (
        f"an update of {sizes.batch_size} rows is reckoned at {modelled.split * 1e6:,.0f} us on two GPUs and "
        f"{modelled.one * 1e6:,.0f} us {by} on one, {faster:.2f} times the updates"
    )
    if faster < _PAYS_FROM:
        return Placement(None, None, f"cuda:0 alone, a second GPU does not pay: {told}")
    return Placement("cuda:1", "cuda:0", f"a second GPU pays: {told}")


def cpu_halves(placement: Placement | None, device: str) -> int:
    """How many halves of the updates the CPU computes; 1 for whole ones."""
    return (placement.actor, placement.critics).count("cpu") if placement else int(device == "cpu")
