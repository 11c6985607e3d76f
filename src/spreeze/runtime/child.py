"""`python -m spreeze.runtime.child ROLE DESCRIPTOR`: the first lines of every child."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from spreeze.board import Life, role_kind
from spreeze.roles.job import Job, read_job
from spreeze.runtime import topology
from spreeze.runtime.process import SHOW_STACKS


def main(role: str, job_fd: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor hears Ctrl-C and stops everybody in order
    sys.stdout = sys.stderr = _lenient_stream(sys.stderr.fileno())
    faulthandler.register(SHOW_STACKS, file=sys.stderr.fileno(), all_threads=True)  # to log.txt, whatever holds it up
    job = read_job(job_fd)
    _die_with_parent(role, job.parent_pid)
    try:
        _run(job)
    except Exception:
        _leave_traceback(job.run_dir, role)
        return 1
    return 0


def _run(job: Job) -> None:
    board = topology.open_board(job.wiring)
    life = Life(board, job.role, job.parent_pid)
    kind, count = role_kind(job.role), job.policy.weight_count
    if kind == "sampler":
        from spreeze.roles import sampler

        sampler.run(job, topology.open_sampler_links(job.wiring, board, job.run_dir, count), life)
    elif kind == "learner":
        from spreeze.roles import learner

        learner.run(job, topology.open_learner_links(job.wiring, board, job.run_dir, count), life)
    elif kind == "evaluator":
        from spreeze.roles import evaluator

        evaluator.run(job, topology.open_evaluator_links(job.wiring, board, job.run_dir, count), life)
    elif kind == "visualizer":
        from spreeze.roles import visualizer

        visualizer.run(job, topology.open_visualizer_links(job.wiring, board, job.run_dir, count), life)
    else:
        raise ValueError(f"{job.role!r} is not a role that runs as a process")


class _LenientFile(io.FileIO):
    """What is printed goes into log.txt. A full disk loses the words, and neither the role that says that the disk is
    full nor a simulator that chats breaks over them."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            super().write(data)
        return len(data)


def _lenient_stream(fd: int) -> io.TextIOWrapper:
    raw = _LenientFile(fd, "w", closefd=False)
    # no buffer between: what a killed role said last has been written
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[type-var, unused-ignore]


def _die_with_parent(role: str, parent_pid: int) -> None:
    """The kernel kills this process when its parent ends, however that ends; elsewhere than on Linux the role notices
    by itself (Life.stopping)."""
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        set_pdeathsig, set_name = 1, 15  # PR_SET_PDEATHSIG, PR_SET_NAME
        libc.prctl(set_pdeathsig, signal.SIGKILL)
        libc.prctl(set_name, f"sz-{role}".encode()[:15])
    if os.getppid() != parent_pid:  # it died before the line above
        os._exit(1)


def _leave_traceback(run_dir: Path, role: str) -> None:
    text = traceback.format_exc()
    sys.stderr.write(f"[{role}] {text}")
    with contextlib.suppress(OSError):  # the disk may be the very trouble; stderr has it
        (run_dir / "errors").mkdir(exist_ok=True)
        (run_dir / "errors" / f"{role}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
