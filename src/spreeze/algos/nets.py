"""Multi-layer perceptrons whose parameters lie in one flat vector, so that an optimiser step, a target update, a
publication and a checkpoint are each one operation.

The flat vector holds, layer after layer, the weights and then the biases of all copies of the network (Q copies: the
critics; 1 for an actor):

    | W1 (Q, inputs, H) | b1 (Q, H) | W2 (Q, H, H) | b2 (Q, H) | ... | Wn (Q, H, outputs) | bn (Q, outputs) |

With one copy that is the order of weights/numpy_policy.py. Hidden layers are ReLU, the last layer is linear.

An engine computes with them. There are two, and they give the same numbers:
    reference.py  plain torch under autograd, to read and to compare with
    fused.py      the backward pass written by hand, without autograd's bookkeeping
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor


class Layer(NamedTuple):
    weight: Tensor  # (Q, inputs, outputs), a view of the flat vector
    bias: Tensor  # (Q, outputs), likewise


class FlatParameters:
    """The parameters of Q equally wide networks and their gradients, in two flat vectors with one view per leaf."""

    def __init__(
        self,
        sizes: Sequence[int],
        copies: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.sizes = tuple(sizes)
        self.copies = copies
        count = copies * sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.sizes))
        self.data = torch.zeros(count, device=device, dtype=dtype)
        self.grad = torch.zeros_like(self.data)
        self.layers = self.views(self.data)
        self.grad_layers = self.views(self.grad)

    def views(self, flat: Tensor) -> list[Layer]:
        """The leaves of a flat vector in this network's order."""
        layers, offset = [], 0
        for inputs, outputs in pairwise(self.sizes):
            weight_end = offset + self.copies * inputs * outputs
            bias_end = weight_end + self.copies * outputs
            weight = flat[offset:weight_end].view(self.copies, inputs, outputs)
            layers.append(Layer(weight, flat[weight_end:bias_end].view(self.copies, outputs)))
            offset = bias_end
        return layers

    def draw(self, generator: torch.Generator) -> FlatParameters:
        """Start values as torch.nn.Linear draws them, from a CPU generator: the same on every device."""
        for layer in self.layers:
            bound = 1.0 / math.sqrt(layer.weight.shape[1])
            for leaf in layer:
                drawn = torch.empty(leaf.shape, dtype=leaf.dtype).uniform_(-bound, bound, generator=generator)
                leaf.copy_(drawn)
        return self

    def clone(self) -> FlatParameters:
        twin = FlatParameters(self.sizes, self.copies, self.data.device, self.data.dtype)
        twin.data.copy_(self.data)
        return twin


class Mlp(Protocol):
    """Q networks over one FlatParameters. A tape is what a forward pass keeps for its backward pass."""

    parameters: FlatParameters
    layer_norm: bool  # of the hidden layers, before their ReLU

    def forward(self, inputs: Tensor, copies: int | None = None) -> tuple[Tensor, Any]:
        """inputs (B, I) -> outputs (Q, B, outputs) of the first `copies` networks (None: all), and the tape."""
        ...

    def backward(self, tape: Any, grad_output: Tensor) -> None:
        """Write d/dparameters into parameters.grad, from grad_output (Q, R, outputs) of the batch's first R rows."""
        ...

    def input_grad(self, tape: Any, grad_output: Tensor, first_column: int) -> Tensor:
        """d/dinputs[:, first_column:] (B, I - first_column), summed over the copies; parameters.grad stays as it is."""
        ...

    def refresh(self) -> None:
        """Tell the engine that parameters.data has changed (a bfloat16 copy follows the float32 weights)."""
        ...
