"""Shared blocks: fresh memory is poison, several processes see one block, and nothing is left when the last is gone."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spreeze import memory
from spreeze.errors import ConfigError
from spreeze.memory import POISON, SharedBlock

WITHIN_S = 30.0
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SRC = str(Path(__file__).parent.parent.parent / "src")


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def holders(label: str) -> set[int]:
    """Processes that map the block or hold its descriptor."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it is gone, or somebody else's
            if label in (process / "maps").read_text():
                found.add(int(process.name))
            for fd in list((process / "fd").iterdir()):
                with contextlib.suppress(OSError):  # closed since
                    if label in os.readlink(fd):
                        found.add(int(process.name))
    return found


def test_fresh_memory_is_poison_unless_it_counts() -> None:
    poisoned = SharedBlock.create("test", 64)
    assert (poisoned.array(np.uint8, (64,)) == POISON).all()
    assert poisoned.array(np.float32, (1,))[0] < -1e7
    assert poisoned.array(np.int64, (1,))[0] < 0
    assert (SharedBlock.create("test", 64, poison=False).array(np.uint8, (64,)) == 0).all()


def test_views_share_the_block() -> None:
    block = SharedBlock.create("test", 64)
    block.array(np.int64, (8,))[3] = 7
    assert block.array(np.int64, (2, 2), offset_bytes=16).tolist()[0][1] == 7


def test_a_view_outlives_block_and_descriptor() -> None:
    block = SharedBlock.create("test", 64)
    view = block.array(np.int64, (8,))
    block.close_fd()
    block.close_fd()  # twice is fine
    del block
    gc.collect()
    view[:] = 5
    assert view.sum() == 40


@LINUX
def test_a_forgotten_block_leaves_no_descriptor() -> None:
    before = open_descriptors()
    block = SharedBlock.create("test", 4096)
    view = block.array(np.uint8, (4096,))
    assert open_descriptors() - before
    del view, block
    gc.collect()
    assert open_descriptors() == before


@LINUX
def test_a_block_that_cannot_be_made_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    before = open_descriptors()
    with pytest.raises(ConfigError, match=r"'ring-7' needs 4,096 bytes.*No space left.*--samplers"):
        SharedBlock.create("ring-7", 4096)
    assert open_descriptors() == before


def test_a_descriptor_of_another_size_is_refused() -> None:
    block = SharedBlock.create("test", 64)
    with pytest.raises(ConfigError, match="has 64 bytes, expected 128"):
        SharedBlock(block.fd, 128)
    assert os.fstat(block.fd).st_size == 64  # the refusal did not close somebody else's descriptor


def test_elsewhere_than_on_linux_a_file_without_a_name_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(memory.tempfile, "tempdir", str(tmp_path))
    block = SharedBlock.create("test", 64)
    assert list(tmp_path.iterdir()) == []
    assert (block.array(np.uint8, (64,)) == POISON).all()


CHILD = """
import os, signal, sys, time
import numpy as np
from spreeze.memory import SharedBlock
cells = SharedBlock(int(sys.argv[1]), 4096).array(np.int64, (512,))
cells[0] = os.getpid()
while not cells[1]:
    time.sleep(0.001)
"""


@LINUX
@pytest.mark.parametrize("end", ["kill -9", "by itself"])
def test_the_kernel_frees_a_block_with_its_last_process(end: str) -> None:
    """Its maker forgets it while a child still uses it; when that one is gone nobody holds it any more."""
    label = f"freed-{os.getpid()}-{end[:4].strip()}"
    block = SharedBlock.create(label, 4096, poison=False)
    cells = block.array(np.int64, (512,))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(block.fd)], pass_fds=[block.fd], env={**os.environ, "PYTHONPATH": SRC}
    )
    try:
        deadline = time.monotonic() + WITHIN_S
        while cells[0] != child.pid:
            assert time.monotonic() < deadline
            assert child.poll() is None
        assert holders(label) == {os.getpid(), child.pid}
        if end == "by itself":
            cells[1] = 1
            child.wait(WITHIN_S)
        del cells, block
        gc.collect()
        assert holders(label) == ({child.pid} if end == "kill -9" else set())
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(WITHIN_S)
    assert holders(label) == set()
    assert not any(label in name for name in os.listdir("/dev/shm"))


def test_a_fence_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPUs with weak ordering it goes through its lock twice, and leaves it open."""
    passages = []

    class CountedLock:
        def __enter__(self) -> None:
            passages.append("in")

        def __exit__(self, *error: object) -> None:
            passages.append("out")

    monkeypatch.setattr(memory, "_lock", CountedLock())
    monkeypatch.setattr(memory, "_STRONG_ORDER", False)
    memory.fence()
    assert passages == ["in", "out", "in", "out"]
