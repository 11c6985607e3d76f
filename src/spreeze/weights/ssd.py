"""Weights through a file on the SSD, the way of the paper: any process that knows the run folder can follow.

    | magic 8 | version 8 | updates 8 | published_ns 8 | count 8 | crc32 4 | zero 4 |  count x float32 |

Written to a temporary file, then put in place by rename, and only then announced: a reader sees the old file or the
new one. The checksum covers header and data, because a crash of the machine or a full disk can leave a renamed file
without its contents. Live weights are not synced to the disk; checkpoints are.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from spreeze.errors import WeightsError
from spreeze.weights.link import WeightsStamp

LIVE_WEIGHTS = "weights/policy.weights"  # in the run folder
_MAGIC = b"SPRZWT01"
_HEADER = struct.Struct("=8sqqqqII")


class SsdPublisher:
    def __init__(self, run_dir: Path, announce: Callable[[int], None]) -> None:
        self._path = run_dir / LIVE_WEIGHTS
        self._temp = self._path.with_suffix(".writing")
        self._announce = announce
        self._path.parent.mkdir(parents=True, exist_ok=True)

    def publish(self, flat: np.ndarray, stamp: WeightsStamp) -> None:
        data = np.ascontiguousarray(flat, np.float32).data.cast("B")
        header = _HEADER.pack(_MAGIC, *stamp, len(flat), 0, 0)
        header = _HEADER.pack(_MAGIC, *stamp, len(flat), zlib.crc32(data, zlib.crc32(header)), 0)
        fd = os.open(self._temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            wanted = len(header) + len(data)
            written = os.writev(fd, [header, data])
        finally:
            os.close(fd)
        if written != wanted:
            raise OSError(f"{self._temp}: only {written} of {wanted} bytes were written; is the disk full?")
        os.replace(self._temp, self._path)
        self._announce(stamp.version)


class SsdFollower:
    """Reads the file; `announced` tells the newest version without touching the disk. A process that shares no memory
    with the run leaves it out and looks at the file's header instead."""

    def __init__(self, run_dir: Path, announced: Callable[[], int] | None = None) -> None:
        self._path = run_dir / LIVE_WEIGHTS
        self._announced = announced or self._version_in_file

    def version(self) -> int:
        return self._announced()

    def load(self, into: np.ndarray) -> WeightsStamp:
        header = bytearray(_HEADER.size)
        data = into.data.cast("B")
        try:
            got, size_bytes = self._read([header, data])
        except OSError as error:
            raise WeightsError(f"{self._path}: {error.strerror}") from None
        return self._checked(header, data, got, size_bytes, len(into))

    def _read(self, parts: list[bytearray | memoryview]) -> tuple[int, int]:
        """-> bytes read, bytes that the file has."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a stranger's pipe must not hold us
        try:
            return os.readv(fd, parts), os.fstat(fd).st_size
        finally:
            os.close(fd)

    def _checked(self, header: bytearray, data: memoryview, got: int, size_bytes: int, count: int) -> WeightsStamp:
        expected = _HEADER.size + 4 * count
        if got < _HEADER.size or header[:8] != _MAGIC:
            raise WeightsError(f"{self._path}: not a weights file ({size_bytes} bytes)")
        _, version, updates, published_ns, in_file, checksum, _ = _HEADER.unpack(header)
        if in_file != count:
            raise WeightsError(f"{self._path}: holds {in_file} weights, this policy has {count}")
        if size_bytes != expected or got != expected:
            raise WeightsError(f"{self._path}: {size_bytes} bytes, expected {expected}")
        header[_HEADER.size - 8 : _HEADER.size - 4] = bytes(4)  # as it was when the checksum was taken
        if zlib.crc32(data, zlib.crc32(header)) != checksum:
            raise WeightsError(f"{self._path}: checksum does not fit, the file is damaged")
        return WeightsStamp(version, updates, published_ns)

    def _version_in_file(self) -> int:
        header = bytearray(_HEADER.size)
        try:
            got, _ = self._read([header])
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise WeightsError(f"{self._path}: {error.strerror}") from None
        if got < _HEADER.size or header[:8] != _MAGIC:
            return 0
        return int(_HEADER.unpack(header)[1])
