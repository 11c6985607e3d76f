"""Files dropped into a run's folder are heard once, whole, and never hold the run up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spreeze.errors import ConfigError
from spreeze.requests import CHECKPOINT, FOLDER, LOOK_EVERY_S, STOP, Inbox, Request, ask


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += LOOK_EVERY_S
        return self.now


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path, Clock())


def test_each_request_is_heard_once_and_its_file_is_gone(tmp_path: Path, inbox: Inbox) -> None:
    assert inbox.take() == []
    ask(tmp_path, CHECKPOINT, "a test")
    ask(tmp_path, CHECKPOINT, "another test")
    ask(tmp_path, STOP)
    assert inbox.take() == [Request(CHECKPOINT, "another test"), Request(STOP, "")]
    assert inbox.take() == []
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_what_lay_there_before_is_not_heard(tmp_path: Path) -> None:
    ask(tmp_path, STOP)
    assert Inbox(tmp_path, Clock()).take() == []


def test_it_looks_now_and_then(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path, lambda: 1.0)
    assert inbox.take() == []
    ask(tmp_path, STOP)
    assert inbox.take() == []


def test_files_that_are_no_requests(tmp_path: Path, inbox: Inbox) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / ".stop.123").write_text("half written")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "stop")  # nobody writes to it
    (folder / "checkpont").write_bytes(b"\xff\x00" + b"x" * 100_000)
    heard = inbox.take()
    assert [request.what for request in heard] == ["checkpont", "stop"]
    assert len(heard[0].asked_by) <= 200
    assert sorted(path.name for path in folder.iterdir()) == [".stop.123", "folder"]


def test_nothing_unknown_can_be_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"asked for 'stopp'\. Did you mean 'stop'"):
        ask(tmp_path, "stopp")
