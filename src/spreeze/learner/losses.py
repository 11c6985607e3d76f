"""What the updates say of themselves (losses, values, temperature), for the reports.

The figures stay on the device, written in place by every update. A report fetches them with one asynchronous copy and
puts what the copy before it brought on the board: the hot loop never waits for the device.
"""

from __future__ import annotations

import math

import torch

from spreeze.algos.algorithm import Metrics
from spreeze.board import LOSS_CELLS, Section


class Losses:
    def __init__(self, metrics: Metrics, cells: Section) -> None:
        self._names = list(metrics)
        self._values = metrics.values_vector
        self._cells = cells
        self._host = torch.zeros(self._values.shape, pin_memory=self._values.is_cuda)
        self._copied = torch.cuda.Event() if self._values.is_cuda else None
        self._fetching = False
        for name in LOSS_CELLS:  # what an algorithm does not have is not a number
            cells.set_float(name, math.nan)

    def report(self) -> None:
        if self._fetching and (self._copied is None or self._copied.query()):
            for name, value in zip(self._names, self._host.tolist(), strict=True):
                self._cells.set_float(name, value)
        self._host.copy_(self._values, non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        self._fetching = True
