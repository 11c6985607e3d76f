"""The first lines of every child."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spreeze.runtime.child import _lenient_stream


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's disk that is always full")
def test_who_prints_to_a_full_disk_loses_the_words_and_nothing_else() -> None:
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        stream = _lenient_stream(fd)
        stream.write("the disk is full\n" * 10_000)
        stream.flush()
        stream.close()  # as at the end of a process
    finally:
        os.close(fd)


def test_what_is_printed_is_in_the_file_at_once(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log.txt", os.O_WRONLY | os.O_CREAT)
    try:
        stream = _lenient_stream(fd)
        stream.write("so far\n\udcff")  # a lone surrogate, as file names may hold it
        assert (tmp_path / "log.txt").read_bytes() == b"so far\n\\udcff"
        assert stream.fileno() == fd  # for those who write below Python
    finally:
        os.close(fd)
