"""Adam and target averaging over flat vectors: a handful of calls for a whole network, whatever its depth."""

from __future__ import annotations

import torch
from torch import Tensor

# CUDA's fused Adam hands out work by chunks of 65536 numbers of a tensor: smaller pieces keep all of the GPU busy.
_CUDA_PIECE = 8192


class Adam:
    """Adam (Kingma and Ba, 2015) with bias correction, on the gradient that lies in `grad` at the time of step()."""

    def __init__(self, data: Tensor, grad: Tensor, lr: float) -> None:
        self.first_moment = torch.zeros_like(data)
        self.second_moment = torch.zeros_like(data)
        self.steps = torch.zeros((), device=data.device)  # on the device: a captured graph counts on
        self.lr = lr
        piece = _CUDA_PIECE if data.is_cuda else max(1, data.numel())
        vectors = (data, grad, self.first_moment, self.second_moment)
        self._pieces = [list(vector.split(piece)) for vector in vectors]
        self._piece_steps = [self.steps] * len(self._pieces[0])

    def step(self) -> None:
        self.steps.add_(1.0)
        data, grad, first_moment, second_moment = self._pieces
        torch._fused_adam_(
            data,
            grad,
            first_moment,
            second_moment,
            [],
            self._piece_steps,
            lr=self.lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def state(self, name: str) -> dict[str, Tensor]:
        return {
            f"{name}.first_moment": self.first_moment,
            f"{name}.second_moment": self.second_moment,
            f"{name}.steps": self.steps,
        }


def polyak(target: Tensor, online: Tensor, tau: float) -> None:
    """target <- (1 - tau) target + tau online."""
    target.lerp_(online, tau)
