"""What the Triton kernels are cut for; known here without torch, so that a run's settings can be resolved by it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

KERNEL_WIDTHS = (16, 32, 64, 128, 256)
LEAST_CAPABILITY = (9, 0)


def why_not_for(hidden: Sequence[int], precision: str) -> str | None:
    """None if there is nothing against the kernels on a GPU that they are for."""
    if precision != "bfloat16":
        return f"the Triton kernels multiply in bfloat16, precision is {precision}"
    if len(hidden) != 2 or any(width not in KERNEL_WIDTHS for width in hidden):
        known = ", ".join(map(str, KERNEL_WIDTHS))
        return f"the Triton kernels are for two hidden layers of {known} units, hidden is {tuple(hidden)}"
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed"
    return None
