"""A folder of a bench's own, gone when it ends."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

BENCH_DIR = "runs/.bench"  # beside the runs: on the disk that runs use, and not in a /tmp that may be memory


@contextlib.contextmanager
def bench_folder(parent: str, label: str) -> Iterator[Path]:
    place = Path(parent).expanduser()
    made = [path for path in (place, *place.parents) if not path.exists()]
    place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{label}-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for path in made:
            with contextlib.suppress(OSError):  # somebody else's files lie there by now
                path.rmdir()
