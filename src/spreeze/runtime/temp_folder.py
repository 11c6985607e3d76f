"""Where simulators put their temporary files: into the run's folder, so that a killed one leaves nothing elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = "tmp"  # in the run folder, while the run lives
_LONGEST = 75  # a socket's path has at most 107 characters; multiprocessing puts 32 behind this


def temp_folder(run_dir: Path) -> dict[str, str]:
    """The variable of a process's environment that says so; none where sockets would not fit into so long a path.
    Raises OSError."""
    path = (run_dir / FOLDER).resolve()
    if len(str(path)) > _LONGEST:
        return {}
    path.mkdir(exist_ok=True)
    return {"TMPDIR": str(path)}


def remove_temp_folder(run_dir: Path) -> None:
    shutil.rmtree(run_dir / FOLDER, ignore_errors=True)
