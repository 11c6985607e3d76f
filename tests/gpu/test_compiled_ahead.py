"""Kernels that forked processes compiled are the ones that the learner then launches: it compiles nothing more.

Run by `make gpu` on a machine with an NVIDIA GPU; everywhere else these tests are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

SOURCE = Path(__file__).parents[2] / "src"
# in a process of its own, which must not have touched the GPU before it forks
PROGRAM = """
import sys
from pathlib import Path

import torch

from spreeze.algos.choice import choose_update
from spreeze.algos.kernels.ahead import compile_ahead
from spreeze.config import RunConfig
from spreeze.learner.graphs import CapturedUpdates
from spreeze.replay import Replay
from spreeze.spec import Layout

name, cache = sys.argv[1], Path(sys.argv[2])


def kept():
    return {entry.name for entry in cache.iterdir()}


if __name__ == "__main__":
    layout, device = Layout(11, 3), torch.device("cuda:0")
    config = RunConfig(
        algo=name, device="cuda:0", precision="bfloat16", compile="on", batch_size=512, target_entropy=-3.0,
        replay_size=1_024,
    )
    print(compile_ahead(layout, config, (9, 0)))
    ahead = kept()
    choice = choose_update(layout, config, device)
    assert choice.kernels is not None, choice.reason
    CapturedUpdates(choice.algorithm, Replay(layout, config.replay_size, device), 512).run(8)
    torch.cuda.synchronize()
    print("compiled afterwards:", len(kept() - ahead))
    print("again:", compile_ahead(layout, config, (9, 0)))
"""


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_the_learner_compiles_nothing_more(name: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    cache = tmp_path / "cache"
    cache.mkdir()
    told = subprocess.run(
        [sys.executable, program, name, cache],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": f"{SOURCE}:{os.environ.get('PYTHONPATH', '')}",
            "TRITON_CACHE_DIR": str(cache),
        },
    )
    assert told.returncode == 0, told.stderr
    first, *others = told.stdout.splitlines()
    assert "were compiled in" in first, told.stderr
    assert others == ["compiled afterwards: 0", "again: None"]
