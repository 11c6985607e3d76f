"""What a sampler does about an environment that broke."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from spreeze.board import Section
from spreeze.envs.fault import EnvFault
from spreeze.errors import EnvError
from spreeze.metrics.lines import append_line
from spreeze.spec import VecEnv

ENV_ERRORS_PER_LIFE = 100  # broken environments that one sampler replaces before it gives up


class EnvFaults:
    """A broken environment is written down and replaced, within a budget."""

    def __init__(self, run_dir: Path, role: str, section: Section) -> None:
        self._path = run_dir / "errors" / f"{role}-env.jsonl"
        self._section = section
        self._count = 0

    def recover(self, vec: VecEnv, fault: EnvFault) -> np.ndarray:
        """-> the first observations (K, O) of new episodes; a replacement that breaks at once is a fault as well."""
        while True:
            self._note(fault)
            try:
                return vec.recover(fault)
            except EnvFault as another:
                fault = another

    def _note(self, fault: EnvFault) -> None:
        self._count += 1
        self._section.add("env_errors", 1)
        self._section.add("lost_rows", fault.lost_rows)
        with contextlib.suppress(OSError):  # a full disk loses the note, not the training
            self._path.parent.mkdir(exist_ok=True)
            append_line(self._path, fault.as_json())
        if self._count > ENV_ERRORS_PER_LIFE:
            raise EnvError(f"{self._count} broken environments in one sampler, the last: {fault}") from fault
