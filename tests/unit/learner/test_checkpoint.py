"""A checkpoint is complete or absent, shares what it can with the one before, and nothing in it runs code."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spreeze.errors import CheckpointError
from spreeze.learner import checkpoint as checkpoints
from spreeze.learner.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    CheckpointWriter,
    clear_remains,
    find_checkpoint,
    next_number,
    put_away_newer,
    read_checkpoint,
    remove_old,
)

ROW_SIZE = 3
COUNTERS = {"updates": 7, "env_steps": 90}
STATE = {
    "actor": np.arange(12, dtype=np.float32),
    "steps": np.array(7.0, np.float32),
    "draws": np.arange(16, dtype=np.uint8),
    "not contiguous": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight rows a file; one with fewer than two is copied into the next."""
    monkeypatch.setattr(checkpoints, "SEGMENT_BYTES", 8 * ROW_SIZE * 4)


def rows_of(first: int, end: int) -> np.ndarray:
    """Each number tells which row it is of."""
    return (np.arange(first, end, dtype=np.float32)[:, None] * 10 + np.arange(ROW_SIZE)).astype(np.float32)


def save(run_dir: Path, first: int, end: int, before: Checkpoint | None = None, at_once: int = 5) -> Checkpoint:
    writer = CheckpointWriter(run_dir, next_number(run_dir), ROW_SIZE, first, end, before)
    writer.add_state(STATE)
    missing = first if before is None else max(first, before.end_row)
    for start in range(missing, end, at_once):
        writer.add_rows(rows_of(start, min(end, start + at_once)))
    return writer.finish({**COUNTERS, "env_steps": end})


def loaded_rows(checkpoint: Checkpoint) -> np.ndarray:
    pieces = list(checkpoint.pieces())
    return np.concatenate(pieces) if pieces else np.zeros((0, ROW_SIZE), np.float32)


def complete(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / CHECKPOINTS).iterdir() if not path.name.startswith("."))


def test_what_was_saved_is_there(tmp_path: Path) -> None:
    saved = save(tmp_path, 4, 31)
    found, damages = find_checkpoint(tmp_path)
    assert (found, damages) == (saved, [])
    assert found.counters == {"updates": 7, "env_steps": 31}
    assert np.array_equal(loaded_rows(found), rows_of(4, 31))
    state = found.state()
    assert state.keys() == STATE.keys()
    for name, value in STATE.items():
        assert state[name].dtype == value.dtype
        assert state[name].shape == value.shape
        assert np.array_equal(state[name], value), name


def test_a_checkpoint_of_no_rows(tmp_path: Path) -> None:
    save(tmp_path, 0, 0)
    assert len(loaded_rows(find_checkpoint(tmp_path)[0])) == 0


def test_rows_are_appended_and_files_shared(tmp_path: Path) -> None:
    """Rows 0-7, 8-15 and 16-23, then 24: the last file of the second has one row, which the third takes over."""
    first = save(tmp_path, 0, 24)
    second = save(tmp_path, 10, 25, first)
    third = save(tmp_path, 10, 30, second)
    assert [segment.name for segment in second.segments] == ["rows-8.npy", "rows-16.npy", "rows-24.npy"]
    assert [(segment.name, segment.rows) for segment in third.segments] == [
        ("rows-8.npy", 8), ("rows-16.npy", 8), ("rows-24.npy", 6)
    ]  # fmt: skip
    for name, same in (("rows-8.npy", True), ("rows-16.npy", True), ("rows-24.npy", False)):
        assert os.path.samefile(second.path / name, third.path / name) is same
    assert np.array_equal(loaded_rows(second), rows_of(10, 25))
    assert np.array_equal(loaded_rows(third), rows_of(10, 30))


def test_rows_that_replay_lost_between_two_checkpoints_leave_the_second(tmp_path: Path) -> None:
    second = save(tmp_path, 100, 110, save(tmp_path, 0, 24))
    assert np.array_equal(loaded_rows(read_checkpoint(second.path)), rows_of(100, 110))


def test_only_the_newest_stay_and_each_is_whole_without_the_others(tmp_path: Path) -> None:
    saved = None
    for end in range(5, 60, 5):
        saved = save(tmp_path, max(0, end - 20), end, saved)
        remove_old(tmp_path, saved)
    assert saved is not None
    assert complete(tmp_path) == ["10", "11"]
    shutil.rmtree(tmp_path / CHECKPOINTS / "10")
    assert np.array_equal(loaded_rows(find_checkpoint(tmp_path)[0]), rows_of(35, 55))


def test_a_disk_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    second = save(tmp_path, 0, 30, save(tmp_path, 0, 24))
    shutil.rmtree(tmp_path / CHECKPOINTS / "1")
    assert np.array_equal(loaded_rows(read_checkpoint(second.path)), rows_of(0, 30))


@pytest.mark.parametrize("breaks", ["fsync", "replace", "link"])
def test_a_save_that_breaks_leaves_what_was_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    before = save(tmp_path, 0, 24)

    def full(*args: Any, **settings: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, breaks, full)
        broken.setattr(shutil, "copyfile", full)
        with pytest.raises(OSError, match="No space"):
            save(tmp_path, 0, 30, before)
    assert complete(tmp_path) == ["1"]
    clear_remains(tmp_path)
    save(tmp_path, 0, 30, before)
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["1", "2"]


def test_too_little_room_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    with pytest.raises(OSError, match="bytes are needed and 100 are free"):
        CheckpointWriter(tmp_path, 1, ROW_SIZE, 0, 24, None)


def test_everything_is_on_the_disk_before_the_name_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[str] = []
    fsync, replace = os.fsync, os.replace

    def sync(fd: int) -> None:
        acts.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        fsync(fd)

    def move(source: Path, target: Path) -> None:
        acts.append(f"{Path(source).name} -> {Path(target).name}")
        replace(source, target)

    if not Path("/proc/self/fd").exists():
        pytest.skip("looks into /proc")
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    save(tmp_path, 0, 10)
    assert set(acts[:4]) == {"state.safetensors", "rows-0.npy", "rows-8.npy", "manifest.json"}
    assert acts[4:] == [".writing-1", ".writing-1 -> 1", CHECKPOINTS]


def test_whatever_byte_is_cut_or_changed_the_last_whole_one_is_found(tmp_path: Path) -> None:
    """Power loss: 300 times the newest checkpoint loses its tail, a stretch or a bit somewhere, or a whole file."""
    moments = random.Random(0)
    first = save(tmp_path, 0, 24)
    second = save(tmp_path, 4, 33, first)
    own = [path for path in sorted(second.path.iterdir()) if path.stat().st_nlink == 1]
    assert {path.name for path in own} == {"manifest.json", "state.safetensors", "rows-24.npy", "rows-32.npy"}
    for _ in range(300):
        path = moments.choice(own)
        whole = path.read_bytes()
        damage(path, whole, moments)
        found, damages = find_checkpoint(tmp_path)
        assert found == first
        assert len(damages) == 1
        assert path.name in damages[0] or "manifest" in damages[0]
        path.write_bytes(whole)
    assert find_checkpoint(tmp_path) == (second, [])


def damage(path: Path, whole: bytes, moments: random.Random) -> None:
    place = moments.randrange(len(whole))
    kind = moments.randrange(4)
    if kind == 0:
        path.write_bytes(whole[:place])
    elif kind == 1:
        changed = bytearray(whole)
        changed[place] ^= 1 << moments.randrange(8)
        path.write_bytes(changed)
    elif kind == 2:
        zeroed = whole[:place] + bytes(len(whole) - place)
        path.write_bytes(zeroed if zeroed != whole else b"")
    else:
        path.unlink()


def test_a_file_that_all_share_is_damaged(tmp_path: Path) -> None:
    second = save(tmp_path, 0, 30, save(tmp_path, 0, 24))
    (second.path / "rows-0.npy").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no complete checkpoint .*rows-0.npy: 0 bytes, expected"):
        find_checkpoint(tmp_path)


def test_a_missing_rename_is_no_checkpoint(tmp_path: Path) -> None:
    first = save(tmp_path, 0, 24)
    second = save(tmp_path, 0, 30, first)
    os.replace(second.path, second.path.with_name(".writing-2"))
    assert find_checkpoint(tmp_path) == (first, [])
    clear_remains(tmp_path)
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["1"]


def test_damaged_ones_are_never_taken_for_newer_ones(tmp_path: Path) -> None:
    first = save(tmp_path, 0, 24)
    second = save(tmp_path, 0, 30, first)
    (second.path / "manifest.json").write_text("{")
    put_away_newer(tmp_path, first)
    assert complete(tmp_path) == ["1"]
    again = save(tmp_path, 0, 28, first)
    assert again.number == 2
    assert find_checkpoint(tmp_path) == (again, [])


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        find_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"row_size": 2**40}, {"segments": []}, {"end_row": 10**30}, {"first_row": -1}, {"counters": {"updates": "x"}},
        {"segments": [{"name": "../../x", "first": 0, "rows": 1, "bytes": 1, "crc32": 1}]}, {"state": None},
        {"segments": "rows"}, {"counters": 3},
    ],
    ids=str,
)  # fmt: skip
def test_a_manifest_that_lies_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """By somebody who knows how to compute the checksum."""
    path = save(tmp_path, 0, 10).path
    document = {**json.loads((path / "manifest.json").read_text()), **change}
    document.pop("crc32")
    (path / "manifest.json").write_text(json.dumps({**document, "crc32": checkpoints._checksum(document)}))
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_an_array_of_objects_is_never_loaded(tmp_path: Path) -> None:
    """Loading one would run the code in its pickle."""
    path = save(tmp_path, 0, 5).path
    np.save(path / "rows-0.npy", np.array([{}], object), allow_pickle=True)
    data = (path / "rows-0.npy").read_bytes()
    document = json.loads((path / "manifest.json").read_text())
    document.pop("crc32")
    document["segments"][0] |= {"bytes": len(data), "crc32": checkpoints.zlib.crc32(data)}
    (path / "manifest.json").write_text(json.dumps({**document, "crc32": checkpoints._checksum(document)}))
    with pytest.raises(CheckpointError, match="not a file of rows"):
        read_checkpoint(path)
