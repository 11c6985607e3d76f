"""The three products of a linear layer, each by the fastest library for its size.

Measured on one core of an AMD Zen 5 (torch 2.13 CPU): MKL, which torch.mm uses, runs its AVX2 code on AMD: 97 GFLOP/s
in float32 at 256 x 256 x 256; oneDNN, a part of the same torch, runs AVX-512: 194. But a call of oneDNN costs about
12 us more, so small products stay with torch.mm. torch gives bfloat16 products to oneDNN by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# multiply-adds from which oneDNN is the faster one (a 64 x 256 x 256 product has 4.2 million)
_ONEDNN_FROM = 700_000
_onednn_linear: Any = (
    torch.ops.mkldnn._linear_pointwise.default
    if torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    else None
)


def _onednn_pays(x: Tensor, work: int) -> bool:
    return work >= _ONEDNN_FROM and x.dtype is torch.float32 and x.is_cpu and _onednn_linear is not None


def affine(x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """x (B, I) @ weight (I, H) + bias (H,), then ReLU if asked for."""
    if _onednn_pays(x, x.shape[0] * weight.numel()):
        return _onednn_linear(x, weight.t(), bias, "relu" if relu else "none", [], "")
    if relu:
        return torch._addmm_activation(bias, x, weight) if x.is_cuda else torch.addmm(bias, x, weight).relu_()
    return torch.addmm(bias, x, weight)


def times_transposed(grad: Tensor, weight: Tensor) -> Tensor:
    """grad (B, H) @ weight (I, H)^T -> (B, I)."""
    if weight.shape[1] == 1:  # an outer product: MKL takes 44 us for 256 x 256, this 6
        return grad * weight.view(1, -1)
    if _onednn_pays(grad, grad.shape[0] * weight.numel()):
        return _onednn_linear(grad, weight, None, "none", [], "")
    return torch.mm(grad, weight.t())


def weight_grad(x: Tensor, grad: Tensor, out: Tensor) -> None:
    """x (B, I)^T @ grad (B, H) -> out (I, H), out in the master weights' type."""
    if _onednn_pays(x, x.shape[0] * out.numel()):
        # oneDNN wants its first factor contiguous: transpose the smaller one
        if x.shape[1] <= grad.shape[1]:
            out.copy_(_onednn_linear(x.t(), grad.t(), None, "none", [], ""))
        else:
            out.copy_(_onednn_linear(grad.t(), x.t(), None, "none", [], "").t())
    elif x.dtype is out.dtype:
        torch.mm(x.t(), grad, out=out)
    else:
        out.copy_(torch.mm(x.t(), grad))
