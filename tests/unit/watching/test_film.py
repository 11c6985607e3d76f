"""A film holds what was taken, at the speed of life, and is whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spreeze.errors import ConfigError, SpreezeError
from spreeze.watching.clips import Clips
from spreeze.watching.film import Film, check_film, stride_of

pytest.importorskip("imageio_ffmpeg")
imageio = pytest.importorskip("imageio.v2")
GREYS = (0, 60, 120, 180, 240)


def pictures(height: int = 64, width: int = 96) -> list[np.ndarray]:
    return [np.full((height, width, 3), grey, np.uint8) for grey in GREYS]


@pytest.mark.parametrize("name", ["film.mp4", "film.gif", "FILM.GIF"])
def test_a_film_shows_its_pictures(tmp_path: Path, name: str) -> None:
    film = Film(tmp_path / "new" / name, step_s=0.1)
    for picture in pictures():
        film.take(picture)
    assert film.finish() == tmp_path / "new" / name
    film.drop()
    with imageio.get_reader(tmp_path / "new" / name) as reader:
        shown = [np.asarray(frame)[:, :, :3] for frame in reader]
        meta = reader.get_meta_data()
    assert [frame.shape for frame in shown] == [(64, 96, 3)] * 5
    assert np.allclose([frame.mean() for frame in shown], GREYS, atol=8)
    assert meta.get("fps") == 10 or meta.get("duration") == 100  # mp4; gif, in milliseconds
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_a_large_gif_is_made_narrower(tmp_path: Path) -> None:
    film = Film(tmp_path / "film.gif", step_s=0.1)
    for picture in pictures(100, 960):
        film.take(picture)
    with imageio.get_reader(film.finish()) as reader:
        assert reader.get_data(0).shape[:2] == (50, 480)


def test_a_film_that_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    film = Film(tmp_path / "film.gif", step_s=0.1)
    film.take(pictures()[0])
    film.drop()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_film_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"one of \.mp4, \.gif, got '\.avi'"):
        check_film(tmp_path / "film.avi")
    with pytest.raises(ConfigError, match="got 'no ending'"):
        check_film(tmp_path / "film")


def test_a_place_where_nothing_can_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpreezeError, match="the video could not be written"):
        Film(tmp_path / "file" / "film.mp4", step_s=0.1)


def test_fast_environments_are_filmed_every_few_states() -> None:
    assert stride_of(1 / 30, 30) == 1
    assert stride_of(0.05, 30) == 1
    assert stride_of(1 / 60, 30) == 2
    assert stride_of(0.008, 30) == 5
    assert stride_of(0.002, 60) == 9


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_clip_comes_each_minute_and_later_more_seldom(tmp_path: Path) -> None:
    clock, said, ready = Clock(), [], [False]
    clips = Clips(tmp_path, 0.1, clock, said.append, lambda: ready[0])
    assert not clips.begin(), "there are no weights yet"
    ready[0] = True
    begun = []
    for second in range(0, 2 * 3600, 10):
        clock.now_s = float(second)
        if clips.begin():
            begun.append(second)
            assert clips.wants(0)
            if second <= 60:
                clips.take(pictures()[0])
                clips.end(-12.6)
    assert said == []
    assert begun[:5] == [0, 60, 120, 180, 240]
    gaps = np.diff(begun)
    assert gaps.min() == 60
    assert 600 <= gaps.max() <= 720  # a tenth of two hours
    names = sorted(path.name for path in (tmp_path / "video").iterdir())
    assert names == ["0000.0-return--13.mp4", "0001.0-return--13.mp4"]


def test_a_clip_ends_after_twenty_seconds_and_one_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    clips = Clips(tmp_path, 0.01, Clock(), print)
    assert clips.begin()
    assert [step for step in range(10) if clips.wants(step)] == [0, 4, 8]
    assert clips.wants(2_000)
    assert not clips.wants(2_004)
    clips.take(pictures()[0])
    clips.drop()
    assert list((tmp_path / "video").iterdir()) == []
    (tmp_path / "video" / ".clip.123.mp4").touch()  # by one who was killed
    Clips(tmp_path, 0.01, Clock(), print)
    assert list((tmp_path / "video").iterdir()) == []


def test_a_disk_that_refuses_costs_a_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    clips = Clips(tmp_path, 0.1, Clock(), said.append)

    def full(*_: object) -> None:
        raise SpreezeError("No space left")

    monkeypatch.setattr(Film, "take", full)
    assert clips.begin()
    clips.take(pictures()[0])
    assert said == ["No space left"]
    assert not clips.wants(1)
    clips.end(1.0)
    assert list((tmp_path / "video").iterdir()) == []
