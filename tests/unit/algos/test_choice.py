"""Which code computes the updates, and what is said about it."""

from __future__ import annotations

import pytest
import torch

from spreeze.algos.choice import choose_update, why_no_kernels
from spreeze.config import RunConfig
from spreeze.spec import Layout

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("compiled", "precision", "words"),
    [
        ("off", "float32", "the reference engine: compile is off"),
        ("on", "bfloat16", "the fused engine: the Triton kernels are for NVIDIA GPUs, the learner's device is cpu"),
    ],
)
def test_the_choice_says_its_reason(compiled: str, precision: str, words: str) -> None:
    config = RunConfig(compile=compiled, precision=precision, batch_size=8, hidden=(16, 16))
    choice = choose_update(Layout(4, 2), config, CPU)
    assert choice.reason == words
    assert choice.kernels is None
    assert choice.algorithm.name == "sac"


def test_what_the_kernels_do_not_fit_is_named() -> None:
    assert "NVIDIA" in str(why_no_kernels((256, 256), CPU, "bfloat16"))
    gpu = torch.device("cuda:0")
    assert "float32" in str(why_no_kernels((256, 256), gpu, "float32"))
