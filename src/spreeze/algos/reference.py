"""The reference engine: plain torch operations under autograd. What the fused engine must equal."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spreeze.algos.layer_norm import EPSILON
from spreeze.algos.nets import FlatParameters, Layer
from spreeze.weights.numpy_policy import LOG_STD_MAX, LOG_STD_MIN


class Tape(NamedTuple):
    inputs: Tensor  # (B, I), a leaf of autograd
    outputs: Tensor  # (Q, B, outputs), with its graph
    copies: int


class ReferenceMlp:
    def __init__(self, parameters: FlatParameters, product_dtype: torch.dtype, layer_norm: bool = False) -> None:
        self.parameters = parameters
        self.product_dtype = product_dtype
        self.layer_norm = layer_norm
        # Leaves of autograd that share the flat vector's memory: an in-place optimiser step is seen by both.
        self._leaves = [Layer(*(leaf.detach().requires_grad_() for leaf in layer)) for layer in self.parameters.layers]

    def forward(self, inputs: Tensor, copies: int | None = None) -> tuple[Tensor, Tape]:
        copies = copies or self.parameters.copies
        with torch.enable_grad():
            leaf = inputs.detach().requires_grad_()
            hidden = leaf.to(self.product_dtype).expand(copies, *leaf.shape)
            for index, layer in enumerate(self._leaves):
                weight, bias = (part[:copies].to(self.product_dtype) for part in layer)
                hidden = torch.baddbmm(bias.unsqueeze(1), hidden, weight)
                if index < len(self._leaves) - 1:
                    if self.layer_norm:
                        hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[2:], eps=EPSILON)
                    hidden = torch.relu(hidden)
            outputs = hidden.to(leaf.dtype)
        return outputs.detach(), Tape(leaf, outputs, copies)

    def backward(self, tape: Tape, grad_output: Tensor) -> None:
        leaves = [leaf for layer in self._leaves for leaf in layer]
        views = [view for layer in self.parameters.grad_layers for view in layer]
        with torch.enable_grad():
            loss = weighted_sum(tape.outputs[:, : grad_output.shape[1]], grad_output)
        for view, grad in zip(views, torch.autograd.grad(loss, leaves), strict=True):
            view.copy_(grad)

    def input_grad(self, tape: Tape, grad_output: Tensor, first_column: int) -> Tensor:
        with torch.enable_grad():
            loss = weighted_sum(tape.outputs, grad_output)
        (grad,) = torch.autograd.grad(loss, tape.inputs)
        return grad[:, first_column:]

    def refresh(self) -> None:
        """The weights are converted at every use: nothing to renew."""


class ReferenceSquash:
    """An action a = tanh(u), u ~ N(mean, std), and its log-probability."""

    def forward(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
        with torch.enable_grad():
            leaf = output.detach().requires_grad_()
            mean, log_std = leaf.chunk(2, dim=1)
            log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
            u = mean + log_std.exp() * noise
            action = torch.tanh(u)
            log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
            # log(1 - tanh(u)^2), stable for large |u|
            log_slope = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
            log_prob = (log_normal - log_slope).sum(1)
        return action.detach(), log_prob.detach(), (leaf, action, log_prob)

    def backward(self, tape: tuple[Tensor, Tensor, Tensor], grad_action: Tensor, grad_log_prob: Tensor) -> Tensor:
        leaf, action, log_prob = tape
        rows = len(grad_action)
        with torch.enable_grad():
            loss = weighted_sum(action[:rows], grad_action) + weighted_sum(log_prob[:rows], grad_log_prob)
        (grad,) = torch.autograd.grad(loss, leaf)
        return grad[:rows]


def weighted_sum(outputs: Tensor, grad_output: Tensor) -> Tensor:
    """Its gradient in `outputs` is `grad_output`. (torch.autograd.grad takes a grad_output itself, and imports sympy to
    look at its shape: two seconds of a run's start.)"""
    return (outputs * grad_output).sum()
