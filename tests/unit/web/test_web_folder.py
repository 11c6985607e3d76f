"""Which runs are found, and that nothing outside the folder can be opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from web_run_folders import make_run

from spreeze.web.folder import Place, find_places


def test_runs_are_found_with_their_way(tmp_path: Path) -> None:
    for way in ("a", "study/cheetah/b", ".hidden/c", "study/d", "a/checkpoints/e", "1/2/3/4/too-deep"):
        make_run(tmp_path / way) if not (tmp_path / way).exists() else None
    assert sorted(place.name for place in find_places(tmp_path)) == ["a", "study/cheetah/b", "study/d"]


def test_a_folder_that_is_a_run_is_shown_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path / "alone")
    assert [place.name for place in find_places(run)] == ["alone"]
    assert find_places(tmp_path / "nowhere") == []


def test_links_lead_nowhere(tmp_path: Path) -> None:
    secret = make_run(tmp_path / "outside")
    served = tmp_path / "served"
    run = make_run(served / "run")
    (served / "linked-run").symlink_to(secret)
    (run / "linked.json").symlink_to(secret / "config.json")
    (run / "video").symlink_to(secret)
    os.mkfifo(run / "pipe.json")
    assert [place.name for place in find_places(served)] == ["run"]
    place = Place(served, ("run",))
    assert place.read("config.json") is not None
    for names in (("linked.json",), ("video", "config.json"), ("pipe.json",), ("..", "..", "outside", "config.json")):
        if names[0] != "..":  # a name from a scan is never '..'
            assert place.read(*names) is None, names
    assert place.files("video") == []
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        Place(served, ("linked-run",)).open("config.json")


def test_a_served_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    make_run(tmp_path / "disk" / "run")
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    assert [place.name for place in find_places(tmp_path / "runs")] == ["run"]
