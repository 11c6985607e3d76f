"""What an algorithm is: propose -> train_critics -> advise -> actor_step.

The cut between the four is also the cut between two devices. By the chain rule the actor's gradient needs from the
critics only how Q changes with the proposed action:

    actor's device                                    critics' device
    propose:  a ~ pi(s), a' ~ pi(s')   -- a, a', temperature x log pi(a'|s') -->
                                                      train_critics: one step of the critics and their targets
                                                      advise: dQ(s, a)/da
    actor_step: dQ/da through a(weights)   <-- dQ/da --

Shapes: B batch, O observation, A action, Q critics.

No method reads a value back from the device, and what lives longer than an update is only changed in place: on a GPU an
update can be captured as a CUDA graph. All chance comes from `generator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from spreeze.algos.average import PolicyAverage
from spreeze.errors import SpreezeError
from spreeze.spec import Batch
from spreeze.weights.numpy_policy import PolicySpec


class Proposal(NamedTuple):
    """The actor's side of an update; `kept` stays on the actor's device for its backward pass."""

    next_action: Tensor  # (B, A) for s'
    action: Any  # Tensor (B, A) for s; None on a turn in which the actor does not learn
    next_penalty: Any = None  # Tensor (B,), temperature x log pi(a'|s'); None for a deterministic policy
    kept: Any = None


class Advice(NamedTuple):
    """The critics' answer to a proposal."""

    dq_daction: Tensor  # (B, A), d Q(s_b, a_b) / d a_b of the proposed actions
    q_mean: Tensor  # (), mean Q(s_b, a_b), for the metrics alone: it does not cross


class Algorithm(Protocol):
    name: str
    period: int  # update(batch, turn) is called with turn = 0, 1, ..., period - 1, 0, ...
    policy_spec: PolicySpec
    generator: torch.Generator  # on the actor's device
    average: PolicyAverage  # of the actor, which everybody but samplers acts with; whoever publishes it lets it follow
    metrics: Metrics  # 0-dim, on the actor's device, written in place by every update; fetched for the reports
    critic_metrics: Metrics  # the critics' part; `metrics` itself where both are on one device

    def propose(self, batch: Batch, turn: int) -> Proposal: ...

    def train_critics(self, batch: Batch, proposal: Proposal) -> None: ...

    def advise(self, batch: Batch, proposal: Proposal) -> Advice | None: ...  # None: no action was proposed

    def actor_step(self, proposal: Proposal, advice: Advice) -> None: ...

    def update(self, batch: Batch, turn: int) -> None: ...  # the four above

    def policy_flat(self) -> Tensor: ...  # float32, the live vector, in the order of policy_spec

    def state(self) -> dict[str, Tensor]: ...  # the live tensors of all that goes on: clone to keep

    def load(self, state: Mapping[str, Tensor]) -> None: ...


class Metrics(dict[str, Tensor]):
    """Named 0-dim views of one vector, so that a report fetches them all in one copy of `values_vector`.

    With two devices each half has its own, and a name that both have stands for the sum of the two.
    """

    def __init__(self, names: tuple[str, ...], device: torch.device) -> None:
        self.values_vector = torch.zeros(len(names), device=device)
        super().__init__(zip(names, self.values_vector.unbind(0), strict=True))


def make_metrics(
    names: tuple[str, ...], device: torch.device, critic_device: torch.device | str | None
) -> tuple[Metrics, Metrics]:
    """The actor's and the critics'; one and the same where the critics have no device of their own."""
    metrics = Metrics(names, device)
    return metrics, metrics if critic_device is None else Metrics(names, torch.device(critic_device))


class StateError(SpreezeError):
    """A saved state that does not fit: other names, shapes or types."""


def load_state(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Copy `state` into `tensors` in place; nothing is copied unless all of it fits."""
    if missing := sorted(tensors.keys() - state.keys()):
        raise StateError(f"the saved state lacks {', '.join(missing)}; was it saved by another algorithm?")
    if unknown := sorted(state.keys() - tensors.keys()):
        raise StateError(
            f"the saved state has {', '.join(unknown)}, which nothing here is named; expected only "
            f"{', '.join(sorted(tensors))}"
        )
    for name, tensor in tensors.items():
        saved = state[name]
        if name == "generator":  # of another size on another kind of device: draws.restore
            continue
        if saved.shape != tensor.shape or saved.dtype != tensor.dtype:
            raise StateError(
                f"{name}: the saved one is {saved.dtype} {tuple(saved.shape)}, expected {tensor.dtype} "
                f"{tuple(tensor.shape)}; sizes and settings of the networks must be those of the saved run"
            )
    for name, tensor in tensors.items():
        if name != "generator":
            tensor.copy_(state[name])
