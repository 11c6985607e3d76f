"""MPI as a row of `spreeze bench transfer`: the same rows, windows and checks, between the ranks of an MPI program.

It is started with mpiexec (mpi_ranks.py) where mpi4py and an MPI are installed. Wheels of both exist:
`pip install mpi4py mpich`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import spreeze
from spreeze.errors import SpreezeError

_START_WITHIN_S = 60.0


class MpiMissing(SpreezeError):
    """Says what is not installed."""


def measure_mpi(case: dict[str, Any]) -> list[dict[str, float]]:
    """-> the figures of each window."""
    command = [_mpiexec(), "-n", str(case["writers"] + 1), sys.executable, "-P", "-m", "spreeze.bench.mpi_ranks"]
    within_s = _START_WITHIN_S + 4 * case["windows"] * case["seconds"]
    # what Open MPI wants to be told before it starts more ranks than cores, or as root in a container
    open_mpi = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe")
    source = str(Path(spreeze.__file__).resolve().parent.parent)
    environment = {**os.environ, **dict.fromkeys(open_mpi, "1"), "PYTHONPATH": source}
    try:
        done = subprocess.run(
            [*command, json.dumps(case)], capture_output=True, text=True, timeout=within_s, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        raise SpreezeError(f"the ranks of MPI did not end within {within_s:.0f} s") from None
    if done.returncode:
        raise SpreezeError(f"the ranks of MPI ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _mpiexec() -> str:
    if importlib.util.find_spec("mpi4py") is None:
        raise MpiMissing("mpi4py is not installed: pip install mpi4py mpich")
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if found is None:
        raise MpiMissing("mpiexec is not installed: pip install mpich")
    return found
