"""The launches of an update, written down on a machine without a GPU.

That they are those of a GPU is shown by tests/gpu/test_compiled_ahead.py.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs the package triton")

SOURCE = Path(__file__).parents[3] / "src"
PROGRAM = """
import json, sys
from spreeze.algos.kernels.ahead import launches_of_updates
from spreeze.config import RunConfig
from spreeze.spec import Layout

def launches(batch_size):
    config = RunConfig(
        algo=sys.argv[1], precision="bfloat16", target_entropy=-3.0, batch_size=batch_size, replay_size=1_024
    )
    return launches_of_updates(Layout(11, 3), config)

few, many = launches(64), launches(4_096)
shared = {launch.variant for launch in few} & {launch.variant for launch in many}
print(json.dumps({"kernels": sorted(launch.kernel.fn.__name__ for launch in few), "shared": len(shared)}))
"""
ONCE = ("actor_backward", "actor_gradients", "critic_errors", "critic_gradients", "gather")


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("sac", {"actor_forward": 1, "critic_pass": 3, "finish": 1, "optimise": 2}),
        # of two turns: in the first the actor does not learn, and the targets stay
        ("td3", {"actor_forward": 2, "critic_pass": 3, "finish": 2, "optimise": 3}),
        ("ddpg", {"actor_forward": 1, "critic_pass": 3, "finish": 1, "optimise": 2}),
    ],
)
def test_every_kernel_of_an_update_is_written_down_once_for_each_of_its_variants(
    name: str, further: dict[str, int]
) -> None:
    """In a process of its own: here Triton may be interpreting."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": str(SOURCE)},
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    expected = [*ONCE, *(kernel for kernel, count in further.items() for _ in range(count))]
    assert found["kernels"] == sorted(expected)
    assert 0 < found["shared"] < len(expected)  # another batch size cuts some of them otherwise
