"""Numbers that a CPU computes with slowly count as zero, in the thread that asks for it and those it starts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spreeze.algos.denormals import flush_denormals

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny


def below_normal() -> float:
    return float(torch.full((64,), SMALLEST_NORMAL).mul_(0.25).mul_(4.0)[0])


def in_flushing_thread() -> tuple[bool, float, float]:
    flushes = flush_denormals()
    with ThreadPoolExecutor(1) as inherits:
        return flushes, below_normal(), inherits.submit(below_normal).result()


def test_what_is_below_the_normal_numbers_becomes_zero() -> None:
    """In a thread of its own: the setting belongs to threads, and the other tests keep theirs."""
    with ThreadPoolExecutor(1) as apart:
        flushes, here, in_thread_started_here = apart.submit(in_flushing_thread).result()
    if not flushes:
        pytest.skip("this CPU cannot flush")
    assert (here, in_thread_started_here) == (0.0, 0.0)
    assert below_normal() > 0.0
