"""Every way of weights under the name of its flag, as the contract suite and its publisher processes open it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.memory import SharedBlock
from spreeze.weights.memory import MemoryFollower, MemoryPublisher, make_weights_block
from spreeze.weights.ssd import SsdFollower, SsdPublisher


def _nobody(version: int) -> None:
    return


class SsdWay:
    """A file, and a shared cell for the announced version, as the board has one."""

    def __init__(self, folder: Path, count: int, cell: SharedBlock | None = None) -> None:
        self._folder = folder
        self._block = cell or SharedBlock.create("announced", 8, poison=False)
        self._cell = self._block.array(np.int64, (1,))

    def publisher(self, announce: Callable[[int], None] = _nobody) -> SsdPublisher:
        def tell(version: int) -> None:
            self._cell[0] = version
            announce(version)

        return SsdPublisher(self._folder, tell)

    def follower(self) -> SsdFollower:
        return SsdFollower(self._folder, lambda: int(self._cell[0]))

    def wiring(self) -> dict[str, Any]:
        return {"folder": str(self._folder), "fd": self._block.fd, "size_bytes": self._block.size_bytes}

    def descriptor(self) -> int:
        return self._block.fd

    @staticmethod
    def open(wiring: dict[str, Any], count: int) -> SsdWay:
        return SsdWay(Path(wiring["folder"]), count, SharedBlock(wiring["fd"], wiring["size_bytes"]))


class MemoryWay:
    def __init__(self, folder: Path, count: int, block: SharedBlock | None = None) -> None:
        self._count = count
        self._block = block or make_weights_block(count)

    def publisher(self, announce: Callable[[int], None] = _nobody) -> MemoryPublisher:
        return MemoryPublisher(self._block, self._count, announce)

    def follower(self) -> MemoryFollower:
        return MemoryFollower(self._block, self._count)

    def wiring(self) -> dict[str, Any]:
        return {"fd": self._block.fd, "size_bytes": self._block.size_bytes}

    def descriptor(self) -> int:
        return self._block.fd

    @staticmethod
    def open(wiring: dict[str, Any], count: int) -> MemoryWay:
        return MemoryWay(Path(), count, SharedBlock(wiring["fd"], wiring["size_bytes"]))


WAYS: dict[str, Any] = {"ssd": SsdWay, "memory": MemoryWay}
