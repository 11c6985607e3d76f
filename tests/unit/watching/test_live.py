"""The live picture's files: whole at every moment, and honest about whether somebody still draws."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from spreeze.watching.live import ALIVE_S, FRAME, STATE, LiveFiles, drawn_by, read_state

PLAYING = {"state": "playing", "reason": None, "frame": 1}


def test_a_reader_never_sees_half_a_picture_or_half_a_document(tmp_path: Path) -> None:
    files, done = LiveFiles(tmp_path), threading.Event()
    pictures = [bytes([number]) * 200_000 for number in range(1, 40)]

    def write() -> None:
        for number, picture in enumerate(pictures, start=1):
            files.write(picture, {**PLAYING, "frame": number})
        done.set()

    files.write(pictures[0], PLAYING)
    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not done.is_set() or seen == 0:
        state = json.loads((tmp_path / STATE).read_bytes())
        picture = (tmp_path / FRAME).read_bytes()
        assert picture in pictures
        assert picture[0] >= state["frame"], "the picture is never older than its document"
        seen += 1
    writer.join()
    assert {path.name for path in (tmp_path / "live").iterdir()} == {"frame.jpg", "state.json"}


def test_the_document_says_who_wrote_it_and_when(tmp_path: Path) -> None:
    before = time.time()
    LiveFiles(tmp_path).write(b"picture", {**PLAYING, "episode_return": float("nan")})
    state = read_state(tmp_path)
    assert state is not None
    assert state["pid"] == os.getpid()
    assert before - 0.001 <= state["heartbeat_s"] <= time.time() + 0.001
    assert state["episode_return"] is None, "JSON has no NaN"


def test_nobody_draws_when_the_heartbeat_is_old_or_the_picture_over(tmp_path: Path) -> None:
    assert drawn_by(tmp_path) is None
    files = LiveFiles(tmp_path)
    files.write(b"picture", PLAYING)
    state = read_state(tmp_path)
    assert state is not None
    assert drawn_by(tmp_path, now_s=state["heartbeat_s"] + ALIVE_S - 1) == state
    assert drawn_by(tmp_path, now_s=state["heartbeat_s"] + ALIVE_S + 1) is None
    files.write_state({**PLAYING, "state": "ended", "reason": "closed"})
    assert drawn_by(tmp_path) is None


def test_a_broken_document_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    for broken in (b"", b"[1]", b'{"state": "pl', b'{"state": "playing"}', b'{"state": "playing", "heartbeat_s": "x"}'):
        (tmp_path / STATE).write_bytes(broken)
        assert drawn_by(tmp_path) is None
