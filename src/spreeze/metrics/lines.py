"""Files of lines that several processes append to and others read while they grow.

A line is written by one write() on a descriptor opened with O_APPEND, so lines of two writers never interleave. A
disk that takes only half a line gives it back: the half is cut off again. A reader that is faster than a write may
see a line without its end; LineTail waits for the end.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

LINES_KEPT = 3600  # an hour of metrics, about 3 MB, while the disk refuses
PIECE_BYTES = 1 << 20
Opener = Callable[[Path], int]  # -> a descriptor to read from; raises OSError


def open_read_only(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe there must not hold the reader


def json_line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(finite(record), allow_nan=False, separators=(", ", ": ")).encode() + b"\n"


def finite(value: Any) -> Any:
    """The same value with None where a number is not finite: JSON has no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if hasattr(value, "item"):  # a NumPy number
        return finite(value.item())
    return value


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Appends one whole line of JSON, or nothing and raises OSError."""
    append_bytes(path, json_line(record))


def append_bytes(path: Path, data: bytes) -> None:
    """All of `data`, in one write unless the disk is filling up; or nothing, and the system's OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    written = 0
    try:
        while written < len(data):  # a second round only where a full disk took a part; it then says why
            written += os.write(fd, data[written:])
    except OSError:
        _cut_off(fd, written)
        raise
    finally:
        os.close(fd)


def _cut_off(fd: int, written: int) -> None:
    """Takes back the part of a line that went through, unless another writer already wrote behind it."""
    end = os.lseek(fd, 0, os.SEEK_CUR)
    if written and os.fstat(fd).st_size == end:
        os.ftruncate(fd, end - written)


class LineFile:
    """Appends to one file. While the disk refuses, lines wait in memory, at most `kept`, and are written later."""

    def __init__(self, path: Path, kept: int = LINES_KEPT) -> None:
        self.path = path
        self._waiting: deque[bytes] = deque(maxlen=kept)
        self.lines_dropped = 0

    @property
    def bytes_waiting(self) -> int:
        return sum(map(len, self._waiting))

    def append(self, line: bytes) -> OSError | None:
        """None: this line and all that waited are in the file. Otherwise why not; the next call tries again."""
        self.lines_dropped += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(line)
        return self.flush()

    def flush(self) -> OSError | None:
        while self._waiting:
            try:
                append_bytes(self.path, self._waiting[0])
            except OSError as error:
                return error
            self._waiting.popleft()
        return None


class LineTail:
    """Follows a growing file of JSON lines, from its beginning. A file that was cut or put in place anew is read from
    its beginning again, and `times_restarted` says so."""

    def __init__(self, path: Path, opener: Opener = open_read_only) -> None:
        self._path = path
        self._opener = opener
        self._offset = 0
        self._inode: int | None = None
        self._in_long_line = False
        self.lines_broken = 0  # whole lines that were no JSON object; they are skipped
        self.times_restarted = 0

    def read_new(self) -> list[dict[str, Any]]:
        """The records whose lines were finished since the last call; [] while there is no file."""
        return [record for records in self.read_pieces() for record in records]

    def read_pieces(self, piece_bytes: int = PIECE_BYTES) -> Iterator[list[dict[str, Any]]]:
        """The same a piece at a time, so that hours of lines never lie in memory at once. A line longer than a piece
        counts as broken."""
        try:
            with open(self._opener(self._path), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return  # a device has no end
                self._notice_another_file(status)
                file.seek(self._offset)
                while data := file.read(piece_bytes):
                    whole = data[: data.rfind(b"\n") + 1]
                    if not whole and len(data) < piece_bytes:
                        return  # a line without its end yet
                    self._offset += len(whole or data)
                    yield self._records(whole)
                    file.seek(self._offset)
        except OSError:
            return

    def _notice_another_file(self, found: os.stat_result) -> None:
        if self._inode is not None and (found.st_ino != self._inode or found.st_size < self._offset):
            self._offset, self._in_long_line = 0, False
            self.times_restarted += 1
        self._inode = found.st_ino

    def _records(self, whole: bytes) -> list[dict[str, Any]]:
        """`whole`: lines with their ends; b"" where a piece held no end of a line."""
        lines = whole.splitlines()
        if self._in_long_line and lines:
            lines[0] = b""  # its beginning was in an earlier piece
        self._in_long_line = not whole
        records = [record for line in lines if (record := parse_line(line)) is not None]
        self.lines_broken += len(lines) - len(records)
        return records


def parse_line(line: bytes) -> dict[str, Any] | None:
    """None for a line that a crash of the machine left broken: the lines around it still count."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
