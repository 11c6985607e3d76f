"""Lines stay whole under two writers and on a full disk."""

from __future__ import annotations

import errno
import json
import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from spreeze.metrics.lines import LineFile, LineTail, append_line, json_line

LargestFile = Callable[[int], AbstractContextManager[None]]


def test_what_is_not_finite_is_null_at_any_depth() -> None:
    record = {"a": math.nan, "b": [1, math.inf], "c": {"d": np.float32("nan"), "e": np.int64(3)}, "f": True}
    assert json.loads(json_line(record)) == {"a": None, "b": [1, None], "c": {"d": None, "e": 3}, "f": True}


def test_two_processes_never_mix_their_lines(tmp_path: Path, child_env: dict[str, str]) -> None:
    path = tmp_path / "events.jsonl"
    program = (
        "import sys; from pathlib import Path; from spreeze.metrics.lines import append_line\n"
        "for n in range(2000): append_line(Path(sys.argv[1]), {'who': sys.argv[2], 'n': n, 'pad': 'x' * (n % 700)})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, str(path), who], env=child_env) for who in "ab"]
    tail, records = LineTail(path), []
    while any(writer.poll() is None for writer in writers):
        records += tail.read_new()
    records += tail.read_new()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(path.read_bytes().splitlines()) == 4000
    for who in "ab":
        assert [record["n"] for record in records if record["who"] == who] == list(range(2000))


def test_a_full_disk_raises_and_leaves_no_half_line(tmp_path: Path, largest_file: LargestFile) -> None:
    path = tmp_path / "eval.jsonl"
    append_line(path, {"n": 1})
    size_bytes = path.stat().st_size
    with largest_file(size_bytes + 5), pytest.raises(OSError, match=r"File too large") as refused:
        append_line(path, {"n": 2, "pad": "x" * 100})
    assert refused.value.errno == errno.EFBIG
    assert path.stat().st_size == size_bytes
    append_line(path, {"n": 3})
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [1, 3]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_dev_full_is_named() -> None:
    refused = LineFile(Path("/dev/full")).append(b"line\n")
    assert refused is not None
    assert refused.errno == errno.ENOSPC


def test_lines_that_a_full_disk_refused_are_written_later_in_order(tmp_path: Path, largest_file: LargestFile) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    assert file.append(b"1\n") is None
    with largest_file(2):
        assert file.append(b"2\n") is not None
        assert file.append(b"3\n") is not None
        assert file.bytes_waiting == 4
    assert file.append(b"4\n") is None
    assert file.path.read_bytes() == b"1\n2\n3\n4\n"
    assert (file.bytes_waiting, file.lines_dropped) == (0, 0)


def test_lines_that_wait_are_bounded_and_the_dropped_are_counted(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "not there" / "metrics.jsonl", kept=3)
    for number in range(5):
        assert file.append(f"{number}\n".encode()) is not None
    assert file.lines_dropped == 2
    file.path.parent.mkdir()
    assert file.flush() is None
    assert file.path.read_bytes() == b"2\n3\n4\n"


def test_a_tail_waits_for_the_end_of_a_line_and_skips_a_broken_one(tmp_path: Path) -> None:
    path = tmp_path / "eval.jsonl"
    tail = LineTail(path)
    assert tail.read_new() == []
    path.write_bytes(b'{"n": 1}\n{"n": ')
    assert tail.read_new() == [{"n": 1}]
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n\x00\x00\n[3]\n{"n": 4}\n')
    assert tail.read_new() == [{"n": 2}, {"n": 4}]
    assert tail.read_new() == []
    assert tail.lines_broken == 2


def test_a_tail_reads_a_piece_at_a_time_and_skips_a_line_longer_than_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    long = json_line({"n": -1, "pad": "x" * 300})
    path.write_bytes(b"".join([*(json_line({"n": n}) for n in range(20)), long, json_line({"n": 20}), b'{"n": 2']))
    tail = LineTail(path)
    pieces = list(tail.read_pieces(piece_bytes=64))
    assert len(pieces) > 5
    assert [record["n"] for piece in pieces for record in piece] == list(range(21))
    assert tail.lines_broken == 1
    with open(path, "ab") as file:
        file.write(b"1}\n")
    assert list(tail.read_pieces(piece_bytes=64)) == [[{"n": 21}]]


def test_a_tail_begins_again_where_a_file_was_cut_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n')
    tail = LineTail(path)
    assert len(tail.read_new()) == 2
    path.write_bytes(b'{"n": 1}\n')
    assert (tail.read_new(), tail.times_restarted) == ([{"n": 1}], 1)
    (tmp_path / "new").write_bytes(b'{"n": 7}\n{"n": 8}\n{"n": 9}\n')
    (tmp_path / "new").replace(path)
    assert [record["n"] for record in tail.read_new()] == [7, 8, 9]
    assert tail.times_restarted == 2
