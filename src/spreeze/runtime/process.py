"""A role's process, seen from the supervisor: a plain child program with inherited descriptors, never a fork of the
user's process, so that CUDA is safe, no `__main__` guard is needed and a sampler does not pay for importing torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import spreeze
from spreeze.cpu import has_avx512
from spreeze.roles.job import Job, write_job
from spreeze.runtime.topology import wired_descriptors

SHOW_STACKS = signal.SIGUSR1  # to a role: write into log.txt where every thread of yours stands
_STACKS_WITHIN_S = 0.1


class Child:
    """A role's process is the leader of a process group of its own: what its environments start ends with it."""

    def __init__(self, job: Job, threads: int, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: further variables of its environment."""
        self.role = job.role
        self.started_at = time.monotonic()
        self._popen = _spawn(job, threads, environment or {})

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative: killed by that signal."""
        if self._popen.returncode is None and _has_ended(self.pid):
            self._kill_group()  # before it is reaped: until then nobody else can have its number
        return self._popen.poll()

    def kill(self) -> None:
        if self.exit_code() is None:
            self._kill_group()

    def show_stacks(self) -> None:
        """Of a role that hangs, before it is killed: the only witness of what it waits for."""
        if self.exit_code() is None:
            self._popen.send_signal(SHOW_STACKS)
            time.sleep(_STACKS_WITHIN_S)

    def wait_gone(self, timeout_s: float) -> bool:
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:  # between fork and exec it has no group yet
            self._popen.kill()


def _has_ended(pid: int) -> bool:
    """It has, and waits to be reaped. (macOS cannot tell, and leaves its group alone.)"""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else in this process has reaped it
        return False


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _spawn(job: Job, threads: int, environment: Mapping[str, str]) -> subprocess.Popen:
    job_fd = write_job(job)
    try:
        with open(job.run_dir / "log.txt", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "spreeze.runtime.child", job.role, str(job_fd)],
                stdin=subprocess.DEVNULL,
                stdout=log,  # simulators print; the user's terminal and `--json` stay clean
                stderr=log,
                pass_fds=[job_fd, *wired_descriptors(job.wiring)],
                env={**_environment(threads), **environment},
                process_group=0,  # Ctrl-C in the terminal reaches the supervisor alone; see _kill_group
            )
    finally:
        os.close(job_fd)


def _environment(threads: int) -> dict[str, str]:
    """Thread pools of the numeric libraries are sized before they are loaded; by default each takes every core, and
    two of them beside each other on the same cores collapse."""
    env = dict(os.environ)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        env[name] = str(threads)
    if has_avx512():
        # NumPy's OpenBLAS takes its AVX2 kernels on AMD CPUs that have AVX-512. With the others a policy of 256-256
        # acts for 8 observations in 24 us, not 45, and for 32 in 64, not 93 (AMD Zen 5, numpy 2.4).
        env.setdefault("OPENBLAS_CORETYPE", "SKYLAKEX")
    env["PYTHONPATH"] = os.pathsep.join(_import_path())
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _import_path() -> list[str]:
    """The child finds every module where this process finds it: the same places in the same order, and with `-P`
    nothing of the working directory before them."""
    places = [str(place) or os.getcwd() for place in sys.path]
    source = str(Path(spreeze.__file__).resolve().parent.parent)
    return places if source in places else [source, *places]
