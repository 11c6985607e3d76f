"""A run never writes over another, and 'latest' is the newest."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spreeze import run_folder
from spreeze.errors import ConfigError
from spreeze.run_folder import find_run, lives, make_run_dir, safe_name
from spreeze.runtime.run_lock import RunLock

MORNING = time.struct_time((2026, 3, 4, 5, 6, 7, 0, 0, 0))


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_run(path: Path, modified_s: float) -> Path:
    path.mkdir(parents=True)
    config = path / "config.json"
    config.write_text("{}", encoding="utf-8")
    os.utime(config, (modified_s, modified_s))
    return path


def test_the_default_name_and_its_successors() -> None:
    made = [make_run_dir(None, "Pendulum-v1", "sac", MORNING) for _ in range(3)]
    base = "runs/Pendulum-v1-sac-20260304-050607"
    assert [str(path) for path in made] == [base, f"{base}-2", f"{base}-3"]
    assert all(path.is_dir() for path in made)


def test_a_named_folder_is_made_with_its_parents() -> None:
    assert make_run_dir("a/b/c", "Pendulum-v1", "sac") == Path("a/b/c")
    assert Path("a/b/c").is_dir()


def test_an_empty_folder_may_be_used_and_a_full_one_may_not() -> None:
    Path("empty").mkdir()
    assert make_run_dir("empty", "Pendulum-v1", "sac") == Path("empty")
    make_run(Path("taken"), 1.0)
    with pytest.raises(ConfigError, match="--run-dir taken: exists already"):
        make_run_dir("taken", "Pendulum-v1", "sac")


def test_a_file_in_the_way_is_refused() -> None:
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="exists already"):
        make_run_dir("file", "Pendulum-v1", "sac")
    with pytest.raises(ConfigError, match="--run-dir file/below: cannot be made"):
        make_run_dir("file/below", "Pendulum-v1", "sac")


def test_a_full_disk_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(ConfigError, match="bytes are free on this disk"):
        make_run_dir("new", "Pendulum-v1", "sac")
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("HalfCheetah-v5", "HalfCheetah-v5"),
        ("my.module:make_env", "my.module_make_env"),
        ("../../etc", "etc"),
        ("<lambda>", "lambda"),
        ("///", "env"),
    ],
)
def test_names_of_environments_become_names_of_folders(env_id: str, name: str) -> None:
    assert safe_name(env_id) == name


def test_latest_is_the_newest_run() -> None:
    old, new = make_run(Path("runs/z-old"), 100.0), make_run(Path("runs/a-new"), 200.0)
    elsewhere = make_run(Path("elsewhere/run"), 50.0)
    assert find_run("latest") == new
    assert find_run("runs/latest") == new
    assert find_run("elsewhere/latest") == elsewhere
    assert find_run(old) == old


@pytest.mark.parametrize(("run", "words"), [("latest", "no run here yet"), ("gone", "no such run"), (".", "not a run")])
def test_what_is_not_a_run_is_refused(run: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        find_run(run)


def test_a_folder_of_runs_is_no_run_and_the_message_names_the_newest() -> None:
    make_run(Path("runs/a"), 1.0)
    with pytest.raises(ConfigError, match=r"not a run folder.*the newest run in it is 'runs/latest'"):
        find_run("runs")
    assert find_run("runs/latest") == Path("runs/a")
    with pytest.raises(ConfigError, match=r"config.json is missing$"):
        find_run(".")


def test_a_run_lives_while_its_lock_is_held(tmp_path: Path) -> None:
    assert not lives(tmp_path)
    lock = RunLock(tmp_path)
    assert lives(tmp_path)
    lock.close()
    assert not lives(tmp_path)
    RunLock(tmp_path).close()  # who looked holds nothing
