"""One linear layer of one network: its three products, each by the library that is fastest at its size.

Measured on one core of an AMD Zen 5 (torch 2.13 CPU): MKL, which torch.mm uses, runs its AVX2 code on AMD: 97 GFLOP/s
in float32 at 256 x 256 x 256; oneDNN, a part of the same torch, runs AVX-512: 200. But a call of oneDNN costs about
12 us more, so small products stay with torch.mm. On an Intel CPU MKL runs AVX-512 as well and is never the slower one
(Xeon, 2.6 GHz: 46 us against 62 for 64 x 256 x 256). torch gives bfloat16 products to oneDNN by itself.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from spreeze.cpu import is_intel

# multiply-adds from which oneDNN is the faster one (a 64 x 256 x 256 product has 4.2 million)
_ONEDNN_FROM = 700_000
_NEVER = sys.maxsize
# ._op: what the overload's Python wrapper calls; these are called some thirty times in an update of a millisecond
_relu_backward: Any = torch.ops.aten.threshold_backward.grad_input._op
_onednn_linear: Any = (
    torch.ops.mkldnn._linear_pointwise.default._op
    if not is_intel() and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)


def relu_backward_(hidden: Tensor, grad: Tensor) -> None:
    """Where the ReLU gave 0 the gradient becomes 0, in place."""
    _relu_backward(grad, hidden, 0, grad_input=grad)


class Linear:
    """hidden = x @ weight + bias, then ReLU if asked for. Weights and gradients are views of flat vectors."""

    def __init__(self, weight: Tensor, bias: Tensor, grad_weight: Tensor, grad_bias: Tensor, relu: bool) -> None:
        self.weight = weight  # (I, H), in the products' type
        self.bias = bias  # (H,), likewise
        self.grad_weight = grad_weight  # (I, H), in the type of the master weights
        self.grad_bias = grad_bias  # (H,), likewise
        self.relu = relu
        self._weight_t = weight.t()
        self._activation = "relu" if relu else "none"
        by_onednn = _onednn_linear is not None and weight.is_cpu and weight.dtype is torch.float32
        self._onednn_rows = _ONEDNN_FROM / weight.numel() if by_onednn else _NEVER

    def forward(self, x: Tensor) -> Tensor:
        """x (B, I) -> (B, H)."""
        if x.shape[0] >= self._onednn_rows:
            return _onednn_linear(x, self._weight_t, self.bias, self._activation, [], "")
        if not self.relu:
            return torch.addmm(self.bias, x, self.weight)
        if x.is_cuda:
            return torch._addmm_activation(self.bias, x, self.weight)  # one kernel
        return torch.addmm(self.bias, x, self.weight).relu_()

    def backward(self, x: Tensor, grad: Tensor) -> None:
        """The weights' and the bias' gradients, from x (B, I) and grad (B, H), into their places."""
        torch.sum(grad, 0, dtype=self.grad_bias.dtype, out=self.grad_bias)
        if x.shape[0] >= self._onednn_rows:
            # oneDNN wants its first factor contiguous: transpose the smaller one
            if self.weight.shape[0] <= self.weight.shape[1]:
                self.grad_weight.copy_(_onednn_linear(x.t(), grad.t(), None, "none", [], ""))
            else:
                self.grad_weight.copy_(_onednn_linear(grad.t(), x.t(), None, "none", [], "").t())
        elif x.dtype is self.grad_weight.dtype:
            torch.mm(x.t(), grad, out=self.grad_weight)
        else:
            self.grad_weight.copy_(torch.mm(x.t(), grad))

    def input_grad(self, grad: Tensor, first_column: int = 0) -> Tensor:
        """grad (B, H) -> d/dx[:, first_column:] (B, I - first_column)."""
        weight = self.weight[first_column:] if first_column else self.weight
        if weight.shape[1] == 1:  # an outer product: MKL takes 44 us for 256 x 256, this 6
            return grad * weight.view(1, -1)
        if grad.shape[0] >= self._onednn_rows:
            return _onednn_linear(grad, weight, None, "none", [], "")
        return torch.mm(grad, weight.t())
