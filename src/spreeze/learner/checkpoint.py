"""Checkpoints on the disk: each a folder that is complete or absent, with no pickle in it. No torch here: the
supervisor looks for one to go on from.

    RUN/checkpoints/
      7/  manifest.json          counters; of every file its name, bytes and checksum; and a checksum of itself
          state.safetensors      networks, targets, optimisers, temperature, random states
          rows-1200000.npy       rows 1,200,000, 1,200,001, ... of all that ever entered replay, oldest first
          rows-1368421.npy       the next; the last one ends with the newest row
      8/  manifest.json, ...     rows-1368421.npy is the same file as in 7/ (a hard link), rows-1536842.npy is new
      .writing-9/                is being written; it gets its name when every byte of it is on the disk

Replay is appended: a checkpoint writes only the rows that came since the one before and links the files that it shares
with it, so that each folder is whole by itself and a file is freed with the last folder that names it. A file never
changes once its checkpoint has a name. One that holds few rows is copied into the next instead of being linked, so
their number stays small however often a run saves.

Whatever happens to the disk, what is read is checked first: a checkpoint with a byte missing or changed is found out
and the one before is taken.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from spreeze.documents import open_at_once, read_document
from spreeze.errors import CheckpointError, ConfigError

CHECKPOINTS = "checkpoints"  # in the run folder
KEPT = 2  # the newest may be the one that a failing disk has spoiled
SEGMENT_BYTES = 32 << 20
FEW_ROWS_SHARE = 4  # a file with less than such a part of SEGMENT_BYTES is copied into the next
_MANIFEST, _STATE = "manifest.json", "state.safetensors"
_ROWS_NAME = re.compile(r"rows-\d{1,19}\.npy")
_MOST_MANIFEST_BYTES = 16 << 20
_READ_BYTES = 4 << 20
_SPARE_BYTES = SEGMENT_BYTES // FEW_ROWS_SHARE  # beside the new rows: state, manifest, rows that are copied


@dataclass(frozen=True)
class Segment:
    """A file of rows."""

    name: str
    first: int  # number of its first row, counted from the run's first
    rows: int
    bytes: int
    crc32: int

    @property
    def end(self) -> int:
        return self.first + self.rows


@dataclass(frozen=True)
class Checkpoint:
    """One that is complete. `first_row` to `end_row`: what replay held."""

    path: Path
    counters: dict[str, int]
    row_size: int
    first_row: int
    end_row: int
    segments: tuple[Segment, ...]

    @property
    def number(self) -> int:
        return int(self.path.name)

    def state(self) -> dict[str, np.ndarray]:
        from safetensors.numpy import load_file

        return load_file(self.path / _STATE)

    def pieces(self) -> Iterator[np.ndarray]:
        """Replay's rows (n, row_size), oldest first, mapped from the disk."""
        for segment in self.segments:
            rows = _map_rows(self.path / segment.name, segment, self.row_size)
            yield rows[max(0, self.first_row - segment.first) :]


class CheckpointWriter:
    """Writes one: rows in their order, then `finish`; or `abandon`. Every method raises OSError where the disk refuses,
    and then only `abandon` may follow."""

    def __init__(
        self, run_dir: Path, number: int, row_size: int, first_row: int, end_row: int, before: Checkpoint | None
    ) -> None:
        """`before`: the newest one that is complete; its files are shared."""
        self._place = run_dir / CHECKPOINTS / str(number)
        self._aside = self._place.with_name(f".writing-{number}")
        self._row_size, self._first_row, self._end_row = row_size, first_row, end_row
        self._segment_rows = max(1, SEGMENT_BYTES // (4 * row_size))
        self._segments: list[Segment] = []
        self._open: _SegmentFile | None = None
        self.bytes_written = 0
        self._next_row = first_missing_row(first_row, before)
        self.bytes_needed = 4 * row_size * (end_row - self._next_row) + _SPARE_BYTES
        shutil.rmtree(self._aside, ignore_errors=True)
        self._place.parent.mkdir(exist_ok=True)  # and not its parents: the run's folder may be away
        self._aside.mkdir()
        self._check_room()
        if before is not None:
            self._share(before)

    def add_state(self, state: Mapping[str, np.ndarray]) -> None:
        from safetensors.numpy import save

        data = save({name: np.array(value, order="C", copy=None) for name, value in state.items()})
        with open(self._aside / _STATE, "wb") as file:
            file.write(data)
            _sync_file(file)
        self.bytes_written += len(data)
        self._state = {"name": _STATE, "bytes": len(data), "crc32": zlib.crc32(data)}

    def add_rows(self, rows: np.ndarray) -> None:
        """(n, row_size) float32, those that follow the rows added before."""
        while len(rows):
            segment = self._open or self._begin_segment(min(self._segment_rows, self._end_row - self._next_row))
            now = min(len(rows), segment.rows_left)
            segment.add(rows[:now])
            self._next_row += now
            rows = rows[now:]
            if not segment.rows_left:
                self._end_segment(segment)

    def finish(self, counters: Mapping[str, int]) -> Checkpoint:
        if self._next_row != self._end_row:
            raise CheckpointError(f"{self._end_row - self._next_row} rows of the checkpoint were not added")
        checkpoint = Checkpoint(
            self._place, dict(counters), self._row_size, self._first_row, self._end_row, tuple(self._segments)
        )
        _write_manifest(self._aside / _MANIFEST, checkpoint, self._state)
        _sync_path(self._aside)
        os.replace(self._aside, self._place)
        _sync_path(self._place.parent)
        return checkpoint

    def abandon(self) -> None:
        if self._open is not None:
            self._open.close()
        shutil.rmtree(self._aside, ignore_errors=True)

    def _share(self, before: Checkpoint) -> None:
        for segment in before.segments:
            if segment.end <= self._first_row:
                continue
            few = segment.rows * FEW_ROWS_SHARE < self._segment_rows
            if few and segment is before.segments[-1] and self._next_row < self._end_row:
                self._copy_into_new(before, segment)
            else:
                _link(before.path / segment.name, self._aside / segment.name)
                self._segments.append(segment)

    def _copy_into_new(self, before: Checkpoint, segment: Segment) -> None:
        first = self._next_row - segment.rows
        self._next_row = first
        self._open = self._begin_segment(min(self._segment_rows, self._end_row - first))
        self.add_rows(_map_rows(before.path / segment.name, segment, self._row_size))

    def _begin_segment(self, rows: int) -> _SegmentFile:
        self._open = _SegmentFile(self._aside / f"rows-{self._next_row}.npy", self._next_row, rows, self._row_size)
        return self._open

    def _end_segment(self, file: _SegmentFile) -> None:
        segment = file.finish()
        self._open = None
        self.bytes_written += segment.bytes
        self._segments.append(segment)

    def _check_room(self) -> None:
        free = shutil.disk_usage(self._aside).free
        if free < self.bytes_needed:
            raise OSError(errno.ENOSPC, f"{self.bytes_needed:,} bytes are needed and {free:,} are free")


class _SegmentFile:
    """A .npy file that is written piece by piece."""

    def __init__(self, path: Path, first: int, rows: int, row_size: int) -> None:
        self._path, self._first, self._rows = path, first, rows
        self.rows_left = rows
        head = BytesIO()
        described = {"descr": "<f4", "fortran_order": False, "shape": (rows, row_size)}
        np.lib.format.write_array_header_1_0(head, described)
        self._bytes, self._crc32 = 0, 0
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  closed by finish or close
        self._write(head.getbuffer())

    def add(self, rows: np.ndarray) -> None:
        self._write(np.ascontiguousarray(rows, "<f4").data.cast("B"))
        self.rows_left -= len(rows)

    def finish(self) -> Segment:
        _sync_file(self._file)
        self._file.close()
        return Segment(self._path.name, self._first, self._rows, self._bytes, self._crc32)

    def close(self) -> None:
        self._file.close()

    def _write(self, data: memoryview) -> None:
        self._crc32 = zlib.crc32(data, self._crc32)
        self._bytes += len(data)
        while data:
            data = data[self._file.write(data) :]


def first_missing_row(first_row: int, before: Checkpoint | None) -> int:
    """The first row that a checkpoint whose replay begins with `first_row` has to write: those before are on the disk
    with the checkpoint `before`."""
    return first_row if before is None else max(first_row, before.end_row)


def next_number(run_dir: Path) -> int:
    return max(_numbers(run_dir), default=0) + 1


def remove_old(run_dir: Path, newest: Checkpoint) -> None:
    for number in _numbers(run_dir):
        if number <= newest.number - KEPT:
            shutil.rmtree(run_dir / CHECKPOINTS / str(number), ignore_errors=True)


def clear_remains(run_dir: Path) -> None:
    """What a run that was killed left unfinished."""
    for path in (run_dir / CHECKPOINTS).glob(".writing-*"):
        shutil.rmtree(path, ignore_errors=True)


def find_checkpoint(run_dir: Path) -> tuple[Checkpoint, list[str]]:
    """The newest that is complete, and what is wrong with those that are newer. Raises CheckpointError."""
    damages: list[str] = []
    for number in sorted(_numbers(run_dir), reverse=True):
        try:
            return read_checkpoint(run_dir / CHECKPOINTS / str(number)), damages
        except CheckpointError as error:
            damages.append(str(error))
    why = f" ({'; '.join(damages)})" if damages else ""
    raise CheckpointError(f"{run_dir}: no complete checkpoint to go on from{why}")


def put_away_newer(run_dir: Path, checkpoint: Checkpoint) -> None:
    """Damaged ones that are newer than the one a run goes on from must not be taken for its next ones."""
    for number in _numbers(run_dir):
        if number > checkpoint.number:
            damaged = run_dir / CHECKPOINTS / f".damaged-{number}"
            shutil.rmtree(damaged, ignore_errors=True)
            os.replace(run_dir / CHECKPOINTS / str(number), damaged)


def open_checkpoint(path: Path) -> Checkpoint:
    """One whose every byte was checked before. Raises CheckpointError."""
    return _read_manifest(path)[0]


def read_checkpoint(path: Path) -> Checkpoint:
    """Checks every byte of it. Raises CheckpointError."""
    try:
        checkpoint, files = _read_manifest(path)
        for name, size_bytes, crc32 in files:
            _check_file(path / name, size_bytes, crc32)
        for segment in checkpoint.segments:
            _map_rows(path / segment.name, segment, checkpoint.row_size)
        _check_state(path / _STATE)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    except OSError as error:
        raise CheckpointError(f"{error.filename or path}: {error.strerror}") from None
    return checkpoint


def _check_state(path: Path) -> None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            file.keys()
    except SafetensorError as error:
        raise CheckpointError(f"{path}: not a checkpoint's state ({error})") from None


def _write_manifest(path: Path, checkpoint: Checkpoint, state: Mapping[str, Any]) -> None:
    body = {
        "counters": checkpoint.counters,
        "row_size": checkpoint.row_size,
        "first_row": checkpoint.first_row,
        "end_row": checkpoint.end_row,
        "segments": [asdict(segment) for segment in checkpoint.segments],
        "state": dict(state),
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**body, "crc32": _checksum(body)}, file, indent=1)
        _sync_file(file)


def _checksum(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def _read_manifest(path: Path) -> tuple[Checkpoint, list[tuple[str, int, int]]]:
    """-> the checkpoint, and name, bytes and checksum of each file"""
    document = read_document(path / _MANIFEST, "the manifest of a checkpoint", _MOST_MANIFEST_BYTES)
    checksum = document.pop("crc32", None)
    if checksum != _checksum(document):
        raise CheckpointError(f"{path / _MANIFEST}: its checksum does not fit, it is damaged")
    try:
        segments = tuple(_segment_of(part) for part in document["segments"])
        counters = {str(name): _count(value) for name, value in document["counters"].items()}
        row_size, first, end = (_count(document[name]) for name in ("row_size", "first_row", "end_row"))
        files = [(_STATE, _count(document["state"]["bytes"]), _count(document["state"]["crc32"]))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path / _MANIFEST}: not the manifest of a checkpoint ({error!r})") from None
    files += [(segment.name, segment.bytes, segment.crc32) for segment in segments]
    _check_order(path, segments, first, end)
    return Checkpoint(path, counters, row_size, first, end, segments), files


def _check_order(path: Path, segments: tuple[Segment, ...], first: int, end: int) -> None:
    """Rows follow one another without a gap."""
    reached = segments[0].first if segments else first
    whole = reached <= first <= end
    for segment in segments:
        whole = whole and segment.first == reached and segment.rows > 0
        reached = segment.end
    if not whole or reached != end:
        raise CheckpointError(f"{path / _MANIFEST}: rows {first:,} to {end:,} are not what its files hold")


def _segment_of(part: Mapping[str, Any]) -> Segment:
    name = str(part["name"])
    if not _ROWS_NAME.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is not the name of a file of rows")
    return Segment(name, *(_count(part[key]) for key in ("first", "rows", "bytes", "crc32")))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"{value!r} is not a count")
    return value


def _check_file(path: Path, size_bytes: int, crc32: int) -> None:
    with open(path, "rb", opener=open_at_once) as file:
        got = os.fstat(file.fileno()).st_size
        if got != size_bytes:
            raise CheckpointError(f"{path}: {got:,} bytes, expected {size_bytes:,}")
        checksum = 0
        while data := file.read(_READ_BYTES):
            checksum = zlib.crc32(data, checksum)
    if checksum != crc32:
        raise CheckpointError(f"{path}: its checksum does not fit, it is damaged")


def _map_rows(path: Path, segment: Segment, row_size: int) -> np.ndarray:
    try:
        rows = np.load(path, mmap_mode="c", allow_pickle=False)
    except ValueError as error:
        raise CheckpointError(f"{path}: not a file of rows ({error})") from None
    if rows.dtype != np.float32 or rows.shape != (segment.rows, row_size):
        raise CheckpointError(
            f"{path}: holds {rows.dtype} {rows.shape}, expected {(segment.rows, row_size)} of float32"
        )
    return rows


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links, or too many of them
        shutil.copyfile(source, target)
        with open(target, "rb") as file:
            os.fsync(file.fileno())


def _numbers(run_dir: Path) -> list[int]:
    try:
        names = os.listdir(run_dir / CHECKPOINTS)
    except OSError:
        return []
    return [int(name) for name in names if re.fullmatch(r"[1-9]\d{0,17}", name)]


def _sync_file(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
