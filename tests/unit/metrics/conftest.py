from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import spreeze

LargestFile = Callable[[int], AbstractContextManager[None]]


@pytest.fixture
def child_env() -> dict[str, str]:
    """For Python programs of their own: they find the package, and these tests, wherever pytest found them."""
    assert spreeze.__file__ is not None
    folders = [str(Path(spreeze.__file__).parents[1]), str(Path(__file__).parent)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


@contextmanager
def _largest_file(size_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def largest_file() -> LargestFile:
    """Within it no file can grow beyond so many bytes, as on a full disk: the last write is cut short."""
    return _largest_file
