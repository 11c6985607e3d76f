"""A checkpoint is complete or absent, and nothing in it runs code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from spreeze.learner.checkpoint import CHECKPOINTS, save_checkpoint  # noqa: E402

COUNTERS = {"updates": 7, "env_steps": 90}


def tensors() -> dict[str, torch.Tensor]:
    flat = torch.arange(12.0)
    return {
        "actor": flat,
        "steps": torch.tensor(7),
        "generator": torch.Generator().get_state(),
        "not contiguous": torch.arange(6.0).reshape(2, 3).T,
        "learning": torch.ones(2, requires_grad=True),
    }


def complete(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / CHECKPOINTS).iterdir() if not path.name.startswith("."))


def test_what_was_saved_is_there(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, 7, tensors(), COUNTERS)
    assert place == tmp_path / CHECKPOINTS / "7"
    assert json.loads((place / "counters.json").read_text()) == COUNTERS
    loaded = load_file(place / "state.safetensors")
    assert loaded.keys() == tensors().keys()
    for name, value in tensors().items():
        assert torch.equal(loaded[name], value), name
    assert sorted(path.name for path in place.iterdir()) == ["counters.json", "state.safetensors"]
    assert sorted(path.name for path in place.parent.iterdir()) == ["7"]


@pytest.mark.parametrize("breaks", ["fsync", "replace"])
def test_a_save_that_breaks_leaves_only_what_was_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    save_checkpoint(tmp_path, 7, tensors(), COUNTERS)

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, breaks, full)
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(tmp_path, 8, tensors(), COUNTERS)
    assert complete(tmp_path) == ["7"]
    save_checkpoint(tmp_path, 8, tensors(), COUNTERS)  # what the broken one left is not in the way
    assert complete(tmp_path) == ["7", "8"]
    assert sorted(path.name for path in (tmp_path / CHECKPOINTS).iterdir()) == ["7", "8"]


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
    save_checkpoint(tmp_path, 7, tensors(), COUNTERS)
    assert set(acts[:3]) == {"state.safetensors", "counters.json", ".writing-7"}
    assert acts[2:] == [".writing-7", ".writing-7 -> 7", CHECKPOINTS]


def test_the_state_of_every_algorithm_can_be_saved(tmp_path: Path) -> None:
    """safetensors refuses tensors that share memory, as views of one flat vector would."""
    from spreeze.algos import make_algorithm
    from spreeze.config import RunConfig

    config = RunConfig.of({"hidden": "8,8", "target_entropy": -1.0})
    for number, name in enumerate(("sac", "td3", "ddpg")):
        algorithm = make_algorithm(name, 3, 1, config, torch.device("cpu"), 0, engine="fused", precision="float32")
        place = save_checkpoint(tmp_path, number, algorithm.state(), COUNTERS)
        loaded = load_file(place / "state.safetensors")
        algorithm.load(loaded)
        assert loaded.keys() == algorithm.state().keys()
