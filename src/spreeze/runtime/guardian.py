"""Nothing that a run started outlives it, not even what an environment started.

The kernel ends the roles when the supervisor dies, and a role's process group ends with the role. What is left are
processes that an environment put elsewhere (a game engine in a session of its own), and those of a run whose supervisor
was killed. All of them inherit a mark in their environment, and a small process beside the run, the guardian, ends
whoever carries it as soon as the supervisor is gone, however it went. Linux only: it reads /proc.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from spreeze.runtime import sweep

MARK_NAME = "SPREEZE_RUN"
_GONE_WITHIN_S = 10.0


class Guardian:
    """Of one run. `environment` is what the roles' processes are given."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._process: subprocess.Popen | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {MARK_NAME: self._mark}

    @contextlib.contextmanager
    def marking(self) -> Iterator[None]:
        """What this very process starts meanwhile is marked as well: it makes an environment to look at its spaces."""
        os.environ |= self.environment
        try:
            yield
        finally:
            del os.environ[MARK_NAME]

    def start(self) -> None:
        """Raises OSError where no process can be started."""
        if sys.platform != "linux":
            return
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(sweep.__file__)), f"{MARK_NAME}={self._mark}"],
            stdin=subprocess.PIPE,  # its other end closes with this process
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a closed terminal does not reach it
            cwd="/",
        )

    def close(self) -> None:
        """Ends what is left of the run; waits until that is done."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_GONE_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
