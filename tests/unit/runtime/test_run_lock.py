"""One command at a time works in a run's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spreeze.errors import ConfigError
from spreeze.runtime import run_lock
from spreeze.runtime.run_lock import LOCK_FILE, RunLock


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "_GONE_WITHIN_S", 0.0)


def test_a_second_one_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first = RunLock(tmp_path)
    with pytest.raises(ConfigError, match="this run is alive"):
        RunLock(tmp_path)
    first.close()
    RunLock(tmp_path).close()


def test_a_process_that_inherited_it_holds_it(tmp_path: Path) -> None:
    """A learner that still writes, though its supervisor was killed."""
    lock = RunLock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[lock.fd]
    ) as child:
        lock.close()
        with pytest.raises(ConfigError, match="alive"):
            RunLock(tmp_path)
        child.kill()
        child.wait()
        RunLock(tmp_path).close()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(ConfigError, match="must be able to write here"):
        RunLock(tmp_path)
    assert len(os.listdir(tmp_path)) == 1
