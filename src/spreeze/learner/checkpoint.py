"""A checkpoint is a folder that is complete or absent: written aside, synced, renamed. No pickle in it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import torch

CHECKPOINTS = "checkpoints"


def save_checkpoint(run_dir: Path, number: int, tensors: dict[str, torch.Tensor], counters: dict[str, int]) -> Path:
    from safetensors.torch import save_file

    place = run_dir / CHECKPOINTS / str(number)
    aside = place.with_name(f".writing-{number}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, aside / "state.safetensors")
    (aside / "counters.json").write_text(json.dumps(counters), encoding="utf-8")
    for path in (*aside.iterdir(), aside):
        _sync(path)
    os.replace(aside, place)
    _sync(place.parent)
    return place


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
