"""How fast this device multiplies large matrices in the update's precision: the limit of a learner."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

_CPU_SIDE = 1024  # 2 GFLOP: 20 ms of one core
_GPU_SIDE = 8192  # 1.1 TFLOP: some milliseconds
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class LargeProducts:
    """The faster of the libraries that torch brings: its own choice and, on a CPU, oneDNN. On AMD torch's choice for
    float32 is MKL, which runs its AVX2 code there at half of oneDNN's rate; it would be no limit."""

    def __init__(self, device: torch.device, precision: str) -> None:
        side = _GPU_SIDE if device.type == "cuda" else _CPU_SIDE
        make = torch.Generator(device).manual_seed(0)
        left, right = (torch.rand(side, side, generator=make, device=device).to(DTYPES[precision]) for _ in range(2))
        out = torch.empty_like(left)
        self._device = device
        self._flops = 2.0 * side**3
        self._ways: list[Callable[[], object]] = [lambda: torch.mm(left, right, out=out)]
        if device.type == "cpu" and hasattr(torch.ops.mkldnn, "_linear_pointwise"):
            onednn = torch.ops.mkldnn._linear_pointwise.default
            self._ways.append(lambda: onednn(left, right, None, "none", [], ""))
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
