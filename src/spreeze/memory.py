"""Shared memory without names.

A block is an anonymous file (memfd on Linux, an unlinked temporary file elsewhere), mapped by every process that
inherited its descriptor. The kernel frees it when the last process is gone, kill -9 included: nothing is left in
/dev/shm, and a container's small /dev/shm does not matter. Fresh memory is poison, so that a value that nobody
wrote is seen at once.
"""

from __future__ import annotations

import mmap
import os
import platform
import sys
import tempfile
import threading
from typing import Any

import numpy as np

from spreeze.errors import ConfigError

POISON = 0xCB  # as float32: about -2.7e7, as int64: a large negative number

_STRONG_ORDER = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")
_lock = threading.Lock()


def fence() -> None:
    """What this process read and wrote before is ordered before what it reads and writes after.

    x86-64 reorders neither stores with stores nor loads with loads, which is all that is asked here. CPUs with weaker
    ordering (ARM) need a barrier. Python has none of its own, but a lock is one: nothing moves down past its release
    or up past its next acquisition, so going through it twice leaves no way around.
    """
    if not _STRONG_ORDER:
        for _ in range(2):
            with _lock:
                pass


class SharedBlock:
    """Bytes that several processes see. Create in the parent, open in the child from the inherited descriptor.

    Like a file, a block that nobody holds any more gives its descriptor back.
    """

    fd = -1

    def __init__(self, fd: int, size_bytes: int) -> None:
        got = os.fstat(fd).st_size
        if got != size_bytes:
            raise ConfigError(f"shared block on descriptor {fd} has {got} bytes, expected {size_bytes}")
        self._map = mmap.mmap(fd, size_bytes)
        self.size_bytes = size_bytes
        self.fd = fd  # owned from here on: no other block may be opened on it in this process

    @staticmethod
    def create(label: str, size_bytes: int, poison: bool = True) -> SharedBlock:
        """A fresh block; `label` shows up in /proc/PID/maps and nowhere else."""
        fd = _anonymous_file(label)
        try:
            # Reserves the pages now: a machine without the memory says so here and not by SIGBUS on a later write.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, size_bytes)
            else:
                os.ftruncate(fd, size_bytes)
            block = SharedBlock(fd, size_bytes)
        except OSError as error:
            os.close(fd)
            raise ConfigError(
                f"shared block {label!r} needs {size_bytes:,} bytes and the system gave none ({error.strerror}); "
                "free memory, or use fewer samplers (--samplers)"
            ) from error
        if poison:
            block.array(np.uint8, (size_bytes,))[:] = POISON
        return block

    def array(self, dtype: Any, shape: tuple[int, ...], offset_bytes: int = 0) -> np.ndarray:
        """A view of the block; it keeps the mapping alive."""
        return np.ndarray(shape, dtype=dtype, buffer=self._map, offset=offset_bytes)

    def close_fd(self) -> None:
        """Gives the descriptor back; the mapping stays until its last view is gone."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close_fd()


def _anonymous_file(label: str) -> int:
    if sys.platform == "linux":
        return os.memfd_create(f"spreeze-{label}", os.MFD_CLOEXEC)
    fd, path = tempfile.mkstemp(prefix=f"spreeze-{label}-")
    os.unlink(path)
    return fd
