"""What holds for every test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def floating_point_mode() -> Iterator[None]:
    """A bench that runs here sets this process up as a learner's, which flushes denormals; other tests need them."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
