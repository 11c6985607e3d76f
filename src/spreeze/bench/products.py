"""How fast this device multiplies large matrices in the update's precision: the limit of a learner."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from spreeze.algos import products

_CPU_SIDE = 1024  # 2 GFLOP: 20 ms of one core
_GPU_SIDE = 8192  # 1.1 TFLOP: some milliseconds
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class LargeProducts:
    """The faster of the libraries that updates use: torch.mm, and on a CPU in float32 oneDNN (algos/products.py)."""

    def __init__(self, device: torch.device, precision: str) -> None:
        side = _GPU_SIDE if device.type == "cuda" else _CPU_SIDE
        make = torch.Generator(device).manual_seed(0)
        left, right, bias = (
            torch.rand(shape, generator=make, device=device).to(DTYPES[precision])
            for shape in ((side, side), (side, side), (side,))
        )
        out = torch.empty_like(left)
        self._device = device
        self._flops = 2.0 * side**3
        self._ways: list[Callable[[], object]] = [
            lambda: torch.mm(left, right, out=out),
            lambda: products.affine(left, right, bias, False),
        ]
        for way in self._ways:
            way()

    def measure(self, seconds: float) -> float:
        """FLOP a second."""
        return max(self._measure(way, seconds / len(self._ways)) for way in self._ways)

    def _measure(self, way: Callable[[], object], seconds: float) -> float:
        synchronize(self._device)
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(8 if self._device.type == "cuda" else 1):
                way()
                done += 1
            synchronize(self._device)
        return done * self._flops / (time.perf_counter() - start)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
