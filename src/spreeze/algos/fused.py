"""The fused engine: forward and backward passes written out, each weight gradient straight into its place.

No autograd: a pass knows what is wanted of it, the weights' gradient or the inputs', and computes nothing else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spreeze.algos.layer_norm import NormTape, normalize, normalize_backward
from spreeze.algos.linear import Linear, relu_backward_
from spreeze.algos.nets import FlatParameters, Layer
from spreeze.weights.numpy_policy import LOG_STD_MAX, LOG_STD_MIN


class CopyTape(NamedTuple):
    inputs: list[Tensor]  # of each layer
    normed: list[NormTape]  # of each hidden layer, where there is layer norm


Tape = list[CopyTape]


class FusedMlp:
    """Copy after copy, so that each product has the two-dimensional form that the libraries are fastest at."""

    def __init__(self, parameters: FlatParameters, product_dtype: torch.dtype, layer_norm: bool = False) -> None:
        self.parameters = parameters
        self.product_dtype = product_dtype
        self.layer_norm = layer_norm
        self._converted = parameters.data.dtype is not product_dtype
        self._product_flat = parameters.data.to(product_dtype)  # the vector itself, where nothing is converted
        self._copies = _layers_by_copy(parameters, self._product_flat, relu=not layer_norm)

    def refresh(self) -> None:
        if self._converted:
            self._product_flat.copy_(self.parameters.data)

    def forward(self, inputs: Tensor, copies: int | None = None) -> tuple[Tensor, Tape]:
        first = inputs.to(self.product_dtype) if self._converted else inputs.contiguous()
        tapes, outputs = [], []
        for layers in self._copies[:copies]:
            hidden, tape = first, CopyTape([], [])
            for index, layer in enumerate(layers):
                tape.inputs.append(hidden)
                hidden = layer.forward(hidden)
                if self.layer_norm and index < len(layers) - 1:
                    normalized, kept = normalize(hidden)
                    hidden = normalized.relu_()
                    tape.normed.append(kept)
            tapes.append(tape)
            outputs.append(hidden)
        stacked = torch.stack(outputs) if len(outputs) > 1 else outputs[0].unsqueeze(0)
        return (stacked.to(self.parameters.data.dtype) if self._converted else stacked), tapes

    def backward(self, tape: Tape, grad_output: Tensor) -> None:
        rows = grad_output.shape[1]
        for layers, kept, grad in zip(self._copies, tape, self._by_copy(grad_output), strict=False):
            for index in range(len(layers) - 1, -1, -1):
                layers[index].backward(kept.inputs[index][:rows], grad)
                if index > 0:
                    grad = self._through_activation(kept, index, layers[index].input_grad(grad))

    def input_grad(self, tape: Tape, grad_output: Tensor, first_column: int) -> Tensor:
        total = None
        for layers, kept, grad in zip(self._copies, tape, self._by_copy(grad_output), strict=False):
            for index in range(len(layers) - 1, 0, -1):
                grad = self._through_activation(kept, index, layers[index].input_grad(grad))
            grad = layers[0].input_grad(grad, first_column)
            total = grad if total is None else total.add_(grad)
        assert total is not None
        return total.to(self.parameters.data.dtype)

    def _through_activation(self, tape: CopyTape, index: int, grad: Tensor) -> Tensor:
        """From layer `index`'s inputs to the outputs of the product before them; `grad` is overwritten."""
        relu_backward_(tape.inputs[index][: len(grad)], grad)
        return normalize_backward(tape.normed[index - 1], grad) if self.layer_norm else grad

    def _by_copy(self, grad_output: Tensor) -> tuple[Tensor, ...]:
        return grad_output.to(self.product_dtype).unbind(0)


def _layers_by_copy(parameters: FlatParameters, flat: Tensor, relu: bool) -> list[list[Linear]]:
    """`relu`: the hidden layers end with it."""
    layers = list(zip(parameters.views(flat), parameters.grad_layers, strict=True))
    last = len(layers) - 1

    def make(copy: int, index: int, layer: Layer, grads: Layer) -> Linear:
        leaves = layer.weight[copy], layer.bias[copy], grads.weight[copy], grads.bias[copy]
        return Linear(*leaves, relu=relu and index < last)

    return [
        [make(copy, index, layer, grads) for index, (layer, grads) in enumerate(layers)]
        for copy in range(parameters.copies)
    ]


class SquashTape(NamedTuple):
    action: Tensor  # (B, A)
    spread: Tensor  # (B, A), std x noise: du/dlog_std
    inside: Tensor  # (B, A), 1 where log_std was not clamped


class FusedSquash:
    """An action a = tanh(u), u ~ N(mean, std), and its log-probability; the derivatives are written out."""

    def forward(self, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, SquashTape]:
        mean, raw_log_std = output.chunk(2, dim=1)
        log_std = raw_log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        spread = log_std.exp().mul_(noise)
        u = mean + spread
        action = torch.tanh(u)
        # log N(u) - log(1 - tanh(u)^2), with log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))
        softplus = torch.nn.functional.softplus(u.mul(-2.0))
        log_prob = u.add_(softplus).mul_(2.0).sub_(log_std).addcmul_(noise, noise, value=-0.5).sum(1)
        log_prob -= output.shape[1] / 2 * (0.5 * math.log(2 * math.pi) + 2 * math.log(2))
        return action, log_prob, SquashTape(action, spread, raw_log_std == log_std)

    def backward(self, tape: SquashTape, grad_action: Tensor, grad_log_prob: Tensor) -> Tensor:
        """grad_action (R, A), grad_log_prob () or (R,) -> d/doutput (R, 2A) of the first R rows.

        da/du = 1 - a^2;  dlog_prob/du = 2a;  dlog_prob/dlog_std = 2a std noise - 1
        """
        rows, size = grad_action.shape
        action, spread, inside = (kept[:rows] for kept in tape)
        if grad_log_prob.dim() == 1:
            grad_log_prob = grad_log_prob.unsqueeze(1)
        grad = torch.empty(rows, 2 * size, dtype=action.dtype, device=action.device)
        grad_mean, grad_log_std = grad[:, :size], grad[:, size:]
        torch.sub(grad_action, action.square().mul_(grad_action), out=grad_mean)
        grad_mean.addcmul_(action, grad_log_prob, value=2.0)
        torch.mul(grad_mean, spread, out=grad_log_std)
        grad_log_std.sub_(grad_log_prob).mul_(inside)
        return grad
