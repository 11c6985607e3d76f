"""What a learner in two places learns, by the script that compares it with one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "two_devices_learning.py"


@pytest.mark.learning
@pytest.mark.parametrize("mode", ["exact", "pipelined"])
def test_pendulum_is_solved_in_two_places(mode: str) -> None:
    command = [sys.executable, str(SCRIPT), "--modes", mode, "--seeds", "0"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    name, value, *_ = [cell.strip() for cell in lines[-1].strip("|").split("|")]
    assert name == mode
    assert float(value) >= -200
