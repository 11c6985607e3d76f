"""The guard: does the fast update compute what the plain one computes?

Both run the same rows and random numbers from the same state, and are compared in
- the gradients of the first update, leaf by leaf (a wrong bias must not hide behind large weights), as Adam's first
  moment took them in: m' = 0.9 m + 0.1 g;
- how far, and where, the parameters and their targets moved over some updates on end: a wrong step or average;
and the fast one with itself, after its own state was loaded: copies of the weights that were not renewed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from spreeze.algos.algorithm import Algorithm
from spreeze.algos.nets import FlatParameters
from spreeze.spec import Batch

UPDATES = 4  # in multiples of the algorithm's period: on the same rows, so that the parameters go one way
# bfloat16 products against float32 ones: relative errors in the norm. At the start values the
# plain bfloat16 update had up to 0.10 and 0.19 (obs 348, batch 1024; obs 3, batch 256), the kernels no more.
GRADIENT_TOLERANCE = 0.2
MOVE_TOLERANCE = 0.3
# where the plain update in the same precision is itself far from float32, the kernels may be this many times as far
_MORE_THAN_PLAIN = 3.0
# a leaf whose gradient is smaller than this part of its network's is compared with that part: rounding is all it has
_NEGLIGIBLE = 0.01


class Parity(NamedTuple):
    ok: bool
    worst: float  # the largest error, as a part of its tolerance
    where: str  # what has it

    def words(self) -> str:
        return f"{self.where} is off by {self.worst:.2f} of what is allowed"


@torch.no_grad()
def parity_check(fast: Algorithm, reference: Algorithm, batch: Batch, plain: Algorithm | None = None) -> Parity:
    """`plain` computes as `reference` does, in the precision of `fast`: where rounding alone leads far from the
    reference, as it may when gradients have become small, that much is allowed. `fast` is left as it was, to the bit;
    the others are overwritten."""
    start = _copy(fast.state())
    expected = _walk(reference, start, batch)
    errors = _errors(_walk(fast, start, batch), expected)
    goes_on = _goes_on_from_its_state(fast, batch)
    fast.load(start)
    if not goes_on:
        return Parity(False, math.inf, "what is kept beside the state")
    if plain is not None:
        for what, rounding in _errors(_walk(plain, start, batch), expected).items():
            errors[what] /= max(1.0, _MORE_THAN_PLAIN * rounding)
    where, worst = max(errors.items(), key=lambda item: math.inf if math.isnan(item[1]) else item[1])
    return Parity(worst <= 1.0, worst, where)


def _goes_on_from_its_state(algorithm: Algorithm, batch: Batch) -> bool:
    """Whether an update gives the same bits once more after its start was loaded: if not, something beside the state,
    such as a copy of the weights in the products' type, is not what the state says."""
    start = _copy(algorithm.state())
    algorithm.update(batch, 0)
    first = _copy(algorithm.state())
    algorithm.load(start)
    algorithm.update(batch, 0)
    return all(torch.equal(value, algorithm.state()[name]) for name, value in first.items())


class _Walk(NamedTuple):
    gradients: dict[str, Tensor]  # of the first update, by leaf
    moved: dict[str, Tensor]  # over all updates, by vector


def _walk(algorithm: Algorithm, start: Mapping[str, Tensor], batch: Batch) -> _Walk:
    algorithm.load(start)
    gradients = {}
    for index in range(UPDATES):
        for turn in range(algorithm.period):
            algorithm.update(batch, turn)
        if index == 0:
            gradients = _gradients(algorithm, start)
    moved = {
        name: value - start[name]
        for name, value in algorithm.state().items()
        if "." not in name and name != "generator"
    }
    return _Walk(gradients, moved)


def _errors(walk: _Walk, expected: _Walk) -> dict[str, float]:
    """Each as a part of its tolerance; nan where either holds one."""
    norms: dict[str, float] = {}
    for name, gradient in expected.gradients.items():
        owner = name.split(",")[0]
        norms[owner] = math.hypot(norms.get(owner, 0.0), float(gradient.norm()))
    errors = {}
    for name, gradient in expected.gradients.items():
        least = norms[name.split(",")[0]] * _NEGLIGIBLE
        errors[f"the gradient of {name}"] = _relative(walk.gradients[name], gradient, least) / GRADIENT_TOLERANCE
    for name, way in expected.moved.items():
        errors[f"the way of {name}"] = _relative(walk.moved[name], way) / MOVE_TOLERANCE
    return errors


def _relative(value: Tensor, expected: Tensor, least: float = 0.0) -> float:
    return float((value - expected).norm() / expected.norm().clamp(min=max(least, 1e-30)))


def _copy(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in state.items()}


def _gradients(algorithm: Algorithm, start: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each leaf's gradient in the last step of its optimiser, from the first moment before and after that one step."""
    gradients = {}
    for name, moment in algorithm.state().items():
        if not name.endswith(".first_moment"):
            continue
        counter = name.replace("first_moment", "steps")
        steps = int(algorithm.state()[counter] - start[counter])
        # sum of 0.1 * 0.9^k g over the steps done: g itself if there was one
        total = (moment - 0.9**steps * start[name]) / 0.1
        owner = name.split("_adam.")[0]
        parameters = getattr(getattr(algorithm, owner, None), "parameters", None)
        if isinstance(parameters, FlatParameters):
            for index, layer in enumerate(parameters.views(total), 1):
                gradients[f"{owner}, weight {index}"] = layer.weight.clone()
                gradients[f"{owner}, bias {index}"] = layer.bias.clone()
        else:
            gradients[owner] = total.clone()
    return gradients
