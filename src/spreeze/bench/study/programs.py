"""A program with all that it starts, run to its end while its memory and CPU time are watched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_LOOK_EVERY_S = 1.0
_AFTER_ASKED_S = 20.0  # a program that was asked to end may still save


@dataclass(frozen=True)
class Ended:
    exit_code: int | None  # None: it did not end by itself and was stopped
    took_s: float
    cpu_s: float  # of the program and everybody it started
    peak_bytes: int  # the most memory that they took together, what they share counted once


def run_program(command: Sequence[str], log: Path, within_s: float, environment: dict[str, str]) -> Ended:
    """Nothing that it started outlives this call."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment, process_group=0
        )
        tree = _Tree(process.pid)
        code: int | None = None
        try:
            while (code := process.poll()) is None and time.monotonic() - start < within_s:
                tree.look()
                time.sleep(_LOOK_EVERY_S if time.monotonic() - start > 2 else 0.1)
        finally:
            took_s = time.monotonic() - start
            if code is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_AFTER_ASKED_S)
            tree.kill()
            process.kill()
            process.wait()
    return Ended(code, took_s, tree.cpu_s, tree.peak_bytes)


class _Tree:
    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[int, psutil.Process] = {pid: self._root}
        self._cpu_s: dict[int, float] = {}
        self.peak_bytes = 0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def look(self) -> None:
        try:
            self._known |= {child.pid: child for child in self._root.children(recursive=True)}
        except psutil.Error:
            return
        self.peak_bytes = max(self.peak_bytes, sum(self._look_at(process) for process in self._known.values()))

    def _look_at(self, process: psutil.Process) -> int:
        try:
            with process.oneshot():
                times = process.cpu_times()
                self._cpu_s[process.pid] = times.user + times.system
                memory = process.memory_full_info()
                return int(getattr(memory, "pss", 0) or memory.rss)
        except psutil.Error:
            return 0

    def kill(self) -> None:
        for process in self._known.values():
            if process.pid == os.getpid():
                continue
            try:
                process.kill()  # psutil looks whether the number is still the same process's
            except psutil.Error:
                continue
