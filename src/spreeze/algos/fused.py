"""The fused engine: forward and backward passes written out, each weight gradient straight into its place.

No autograd: a pass knows what is wanted of it, the weights' gradient or the inputs', and computes nothing else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from spreeze.algos.nets import FlatParameters
from spreeze.algos.products import affine, times_transposed, weight_grad
from spreeze.weights.numpy_policy import LOG_STD_MAX, LOG_STD_MIN

_relu_backward = torch.ops.aten.threshold_backward.grad_input


class FusedMlp:
    """Copy after copy, so that each product has the two-dimensional form that the libraries are fastest at."""

    def __init__(self, parameters: FlatParameters, product_dtype: torch.dtype) -> None:
        self.parameters = parameters
        self.product_dtype = product_dtype
        self._converted = parameters.data.dtype is not product_dtype
        self._product_flat = parameters.data.to(product_dtype)  # the vector itself, where nothing is converted
        self._layers = _by_copy(parameters, self._product_flat)
        self._grads = _by_copy(parameters, parameters.grad)

    def refresh(self) -> None:
        if self._converted:
            self._product_flat.copy_(self.parameters.data)

    def forward(self, inputs: Tensor, copies: int | None = None) -> tuple[Tensor, list[list[Tensor]]]:
        """The tape: for each copy the inputs of each layer."""
        first = inputs.to(self.product_dtype) if self._converted else inputs.contiguous()
        tapes, outputs = [], []
        for layers in self._layers[:copies]:
            hidden, tape = first, []
            for weight, bias, relu in layers:
                tape.append(hidden)
                hidden = affine(hidden, weight, bias, relu)
            tapes.append(tape)
            outputs.append(hidden)
        stacked = torch.stack(outputs) if len(outputs) > 1 else outputs[0].unsqueeze(0)
        return (stacked.float() if self._converted else stacked), tapes

    def backward(self, tape: list[list[Tensor]], grad_output: Tensor) -> None:
        rows = grad_output.shape[1]
        whole = rows == tape[0][0].shape[0]
        grad_output = grad_output.to(self.product_dtype)
        for layers, grads, inputs, grad in zip(self._layers, self._grads, tape, grad_output.unbind(0), strict=False):
            for index in range(len(layers) - 1, -1, -1):
                x = inputs[index] if whole else inputs[index][:rows]
                grad_weight, grad_bias, _ = grads[index]
                weight_grad(x, grad, grad_weight)
                torch.sum(grad, 0, dtype=grad_bias.dtype, out=grad_bias)
                if index > 0:
                    grad = times_transposed(grad, layers[index][0])
                    _relu_backward(grad, x, 0, grad_input=grad)

    def input_grad(self, tape: list[list[Tensor]], grad_output: Tensor, first_column: int) -> Tensor:
        total = None
        grad_output = grad_output.to(self.product_dtype)
        for layers, inputs, grad in zip(self._layers, tape, grad_output.unbind(0), strict=False):
            for index in range(len(layers) - 1, 0, -1):
                grad = times_transposed(grad, layers[index][0])
                _relu_backward(grad, inputs[index], 0, grad_input=grad)
            grad = times_transposed(grad, layers[0][0][first_column:])
            total = grad if total is None else total.add_(grad)
        assert total is not None
        return total.to(self.parameters.data.dtype)


class _Leaf(NamedTuple):
    weight: Tensor  # (I, H)
    bias: Tensor  # (H,)
    relu: bool


def _by_copy(parameters: FlatParameters, flat: Tensor) -> list[list[_Leaf]]:
    layers = parameters.views(flat)
    last = len(layers) - 1
    return [
        [_Leaf(layer.weight[copy], layer.bias[copy], index < last) for index, layer in enumerate(layers)]
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
