"""What a machine's memory gives back, and what it does not let in."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spreeze.config import RunConfig
from spreeze.errors import ConfigError
from spreeze.spec import EnvSpec
from spreeze.tuning.hardware import find_machine
from spreeze.tuning.remembered import Remembered, cache_dir
from spreeze.tuning.search import Setting, Space

SPEC = EnvSpec("Ant-v5", 105, 8, (-1.0,) * 8, (1.0,) * 8)
MACHINE = find_machine()
SPACE = Space(14, None, (1024, 2048, 4096), None, 16)
CONFIG = RunConfig(samplers=14, envs_per_sampler=16, batch_size=2048, device="cuda:0")
FOUND = Setting(11, 4096)


def remembered(
    folder: Path, config: RunConfig = CONFIG, spec: EnvSpec = SPEC, space: Space = SPACE, **machine: Any
) -> Remembered:
    return Remembered(config, spec, replace(MACHINE, **machine), space, folder)


def the_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_nothing_was_found_yet(tmp_path: Path) -> None:
    assert remembered(tmp_path / "none").recall() is None
    remembered(tmp_path / "none").forget()


def test_what_was_kept_comes_back_with_its_day_until_it_is_forgotten(tmp_path: Path) -> None:
    remembered(tmp_path).keep(Setting(3, 1024))
    remembered(tmp_path).keep(FOUND)
    setting, why = remembered(tmp_path).recall() or (None, "")
    assert setting == FOUND
    assert why.startswith("found here on 20")
    assert "--retune" in why
    remembered(tmp_path).forget()
    assert remembered(tmp_path).recall() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "other",
    [
        {"config": CONFIG.replace(algo="td3")},
        {"config": CONFIG.replace(hidden=(64, 64))},
        {"config": CONFIG.replace(samplers=13)},
        {"config": CONFIG.replace(device="cpu")},
        {"spec": replace(SPEC, env_id="Hopper-v5")},
        {"space": replace(SPACE, batch_sizes=(4096,))},
        {"cpu_model": "another"},
        {"cores_allowed": 3, "cores_quota": None},
    ],
)
def test_another_kind_of_run_or_machine_has_a_memory_of_its_own(tmp_path: Path, other: dict[str, Any]) -> None:
    remembered(tmp_path).keep(FOUND)
    assert remembered(tmp_path, **other).recall() is None


def test_settings_that_make_no_run_faster_share_a_memory(tmp_path: Path) -> None:
    remembered(tmp_path).keep(FOUND)
    other = CONFIG.replace(seed=7, lr=1e-4, run_dir="elsewhere", steps=10, retune=True)
    assert (remembered(tmp_path, config=other).recall() or (None,))[0] == FOUND


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samplers": 0}, "'0' is not one of"),
        ({"samplers": 15}, "'15' is not one of"),
        ({"samplers": True}, "'True' is not one of"),
        ({"samplers": 3.0}, "'3.0' is not one of"),
        ({"batch_size": 8192}, "'8192' is not one of"),
        ({"batch_size": "4096; rm -rf"}, "is not one of"),
        ({"batch_size": None}, "is not one of"),
        ({"key": {}}, "another kind of run"),
    ],
)
def test_what_the_run_cannot_do_is_refused_with_the_file_named(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    remembered(tmp_path).keep(FOUND)
    path = the_file(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=words) as refused:
        remembered(tmp_path).recall()
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b" " * 100_000])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    remembered(tmp_path).keep(FOUND)
    the_file(tmp_path).write_bytes(content)
    with pytest.raises(ConfigError):
        remembered(tmp_path).recall()


def test_a_pipe_in_its_place_holds_nobody(tmp_path: Path) -> None:
    remembered(tmp_path).keep(FOUND)
    path = the_file(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a regular file"):
        remembered(tmp_path).recall()


def test_a_day_that_is_no_day_is_not_repeated(tmp_path: Path) -> None:
    remembered(tmp_path).keep(FOUND)
    path = the_file(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "day": "\x1b[2J2026"}))
    assert (remembered(tmp_path).recall() or ("", ""))[1].startswith("found here earlier")


def test_a_cache_that_cannot_be_written_raises_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        remembered(tmp_path / "file" / "tuned").keep(FOUND)


def test_the_cache_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "spreeze"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_dir() == Path.home() / ".cache" / "spreeze"
