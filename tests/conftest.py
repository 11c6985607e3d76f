"""What holds for every test."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):  # a machine with a GPU may have no more than the tests there need
    from hypothesis import settings

    settings.register_profile("no deadline", deadline=None)  # other work on the machine is no fault of the code
    settings.load_profile("no deadline")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run neither learns from the user's machine memory nor adds to it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def floating_point_mode() -> Iterator[None]:
    """A bench that runs here sets this process up as a learner's, which flushes denormals; other tests need them."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
