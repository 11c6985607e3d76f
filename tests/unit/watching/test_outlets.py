"""Where pictures go: one process draws a run's picture, a picture is never large, and its end is told."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from spreeze.errors import ConfigError
from spreeze.watching import outlets
from spreeze.watching.live import FRAME, drawn_by, read_state
from spreeze.watching.outlets import MOST_PIXELS, LiveOutlet, WindowOutlet, check_outlet, encode_jpeg

Image = pytest.importorskip("PIL.Image")
PICTURE = np.full((36, 48, 3), 90, np.uint8)
STATE = {"env": "X", "policy": "live", "episode": 1, "frame": 1, "weights_version": 3, "episode_return": 1.0}


def test_one_draws_and_the_next_goes_on_when_it_stops(tmp_path: Path) -> None:
    run, watch = LiveOutlet(tmp_path, "run", print), LiveOutlet(tmp_path, "watch", print)
    assert run.open()
    assert run.open(), "asking again is allowed"
    assert not watch.open()
    run.show(PICTURE, STATE)
    assert (drawn_by(tmp_path) or {})["started_by"] == "run"
    run.close("it was asked for no more")
    state = read_state(tmp_path) or {}
    assert (state["state"], state["reason"], state["frame"]) == ("ended", "it was asked for no more", 1)
    assert watch.open()
    watch.show(PICTURE, STATE)
    assert (drawn_by(tmp_path) or {})["started_by"] == "watch"
    run.close("twice")
    assert (drawn_by(tmp_path) or {})["started_by"] == "watch", "who does not draw writes nothing"


def test_a_picture_that_never_came_says_why(tmp_path: Path) -> None:
    outlet = LiveOutlet(tmp_path, "run", print)
    outlet.open()
    outlet.close("no display", failed=True)
    state = read_state(tmp_path) or {}
    assert (state["state"], state["reason"]) == ("failed", "no display")


def test_a_disk_that_refuses_costs_pictures_and_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    outlet = LiveOutlet(tmp_path, "run", said.append)
    outlet.open()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("spreeze.watching.live.os.replace", full)
        outlet.show(PICTURE, STATE)
        outlet.show(PICTURE, STATE)
    assert len(said) == 1
    assert "No space left" in said[0]
    outlet.show(PICTURE, {**STATE, "frame": 3})
    assert (read_state(tmp_path) or {})["frame"] == 3
    assert Image.open(tmp_path / FRAME).size == (48, 36)


def test_a_large_picture_is_made_smaller_and_keeps_its_shape() -> None:
    data, size = encode_jpeg(np.zeros((2000, 1000, 3), np.uint8))
    assert size == (MOST_PIXELS[0] // 2, MOST_PIXELS[1])
    assert Image.open(io.BytesIO(data)).size == size


def test_a_jpeg_shows_what_was_drawn() -> None:
    picture = np.zeros((100, 160, 3), np.uint8)
    picture[:, 80:] = (250, 20, 30)
    shown = np.asarray(Image.open(io.BytesIO(encode_jpeg(picture)[0])))
    assert np.abs(shown[:, 90:].reshape(-1, 3).mean(0) - (250, 20, 30)).max() < 6
    assert shown[:, :70].max() < 12


def test_what_cannot_be_shown_here_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "has_screen", lambda: False)
    with pytest.raises(ConfigError, match="a window needs a screen"):
        check_outlet("window")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'spreeze\[web\]'"):
        check_outlet("web")
    check_outlet("off")


def test_a_window_that_was_closed_takes_no_more_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window's program stands in for one: it takes a picture whole, and goes."""
    program = tmp_path / "window.py"
    program.write_text(
        "import struct, sys\nfrom pathlib import Path\n"
        "width, height, length = struct.unpack('=III', sys.stdin.buffer.read(12))\n"
        "caption, picture = sys.stdin.buffer.read(length), sys.stdin.buffer.read(width * height * 3)\n"
        "Path(__file__).with_name('seen').write_text(f'{width} {height} {set(picture)} {caption.decode()}')\n"
    )
    monkeypatch.setattr(outlets.window, "__file__", str(program))
    window = WindowOutlet()
    assert window.open()
    window.show(PICTURE, STATE)
    assert window._process is not None
    window._process.wait(30)
    assert (tmp_path / "seen").read_text() == "48 36 {90} X   weights 3   episode 1   return 1"
    assert not window.open()
    assert window._process is None


def test_the_window_is_a_program_that_ends_with_whoever_feeds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real program, on SDL's screen that nobody sees."""
    pytest.importorskip("pygame")
    monkeypatch.setattr(outlets, "NO_SCREEN", ("", ""))
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = WindowOutlet()
    for _ in range(3):
        window.show(PICTURE, STATE)
        assert window.open()
    process = window._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0
    assert not window.open()
