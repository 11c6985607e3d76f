"""Layer normalization (Ba, Kiros and Hinton, 2016) between a hidden layer's product and its ReLU:

    y = (z - mean(z)) / sqrt(var(z) + 1e-5)        mean and variance over the H units of a row

There are no scale and shift to learn: the next layer's weights scale, and the bias in z shifts a unit against the
others. So the flat vector of parameters is the same with it and without.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

EPSILON = 1e-5


class NormTape(NamedTuple):
    z: Tensor  # (B, H)
    mean: Tensor  # (B, 1)
    inverse_std: Tensor  # (B, 1)


def normalize(z: Tensor) -> tuple[Tensor, NormTape]:
    y, mean, inverse_std = torch.native_layer_norm(z, z.shape[1:], None, None, EPSILON)
    return y, NormTape(z, mean, inverse_std)


def normalize_backward(tape: NormTape, grad: Tensor) -> Tensor:
    """dloss/dy (R, H) -> dloss/dz (R, H) of the first R rows."""
    z, mean, inverse_std = (kept[: len(grad)] for kept in tape)
    backward = torch.ops.aten.native_layer_norm_backward
    return backward(grad, z, z.shape[1:], mean, inverse_std, None, None, [True, False, False])[0]
