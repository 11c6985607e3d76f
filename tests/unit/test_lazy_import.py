"""What is imported when: a command answers at once because nothing heavy is loaded before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def loaded_after(statements: str) -> set[str]:
    """Top-level modules in a fresh interpreter after these statements."""
    program = f"{statements}\nimport sys; print(' '.join(sys.modules))"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    return {name.split(".")[0] for name in printed.stdout.split()}


@pytest.mark.parametrize(
    "statements",
    [
        "import spreeze; spreeze.__version__",
        "import spreeze; spreeze.RunConfig(gamma=0.9)",
        "from spreeze import cli; cli.parse('train', ['Pendulum-v1', '--samplers', '2'])",
        "from spreeze import cli; cli.overview(); cli.main(['tran'])",
    ],
)
def test_the_front_door_is_light(statements: str) -> None:
    assert not {"torch", "numpy", "gymnasium", "rich", "psutil"} & loaded_after(statements)


@pytest.mark.parametrize(
    "statements",
    [
        "from spreeze import load_policy",
        "from spreeze.tuning.hardware import find_machine; find_machine()",
        "from spreeze import doctor; doctor.doctor()",
        "import spreeze.resolve",
        "import spreeze.roles.sampler",
        "import spreeze.play",
    ],
)
def test_torch_is_the_learners_alone(statements: str) -> None:
    assert "torch" not in loaded_after(statements)


def test_what_an_update_is_compared_with_brings_no_symbolic_algebra_along() -> None:
    pytest.importorskip("torch")
    program = """
import torch
from spreeze.algos import make_algorithm
from spreeze.config import RunConfig
from spreeze.spec import Layout
layout = Layout(3, 1)
make_algorithm("sac", 3, 1, RunConfig(), torch.device("cpu"), 0, engine="reference").update(
    layout.split(torch.zeros(4, layout.row_size)), 0
)
"""
    assert "sympy" not in loaded_after(program)
