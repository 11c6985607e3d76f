"""A second process for a bench: it is asked by a line of JSON and answers by one.

It lives on its standard input: when the bench ends, however it ends, the pipe closes and the helper with it. What
simulators print goes into its log and never between the answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import spreeze
from spreeze.errors import SpreezeError

START_WITHIN_S = 120.0
_END_WITHIN_S = 5.0
_LAST_LINES = 5

Answer = dict[str, Any]
Handler = Callable[[dict[str, Any]], Answer]


class Helper:
    """The bench's end. `module` calls `serve`; `setup` is its first request, answered when it is ready to work."""

    def __init__(self, module: str, setup: dict[str, Any], log: Path, descriptors: Sequence[int] = ()) -> None:
        self._module, self._log = module, log
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                pass_fds=descriptors,
                env=_environment(),
                process_group=0,  # Ctrl-C in the terminal reaches the bench alone
            )
        self.ask(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, request: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def answered(self, within_s: float = 0.0) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within_s)[0])

    def answer(self, within_s: float = START_WITHIN_S) -> Answer:
        if not self.answered(within_s):
            raise SpreezeError(f"{self._module} did not answer within {within_s:.0f} s")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _failed(self) -> SpreezeError:
        return SpreezeError(f"{self._module} ended: {last_lines(self._log)}")


def last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.is_file() else []
    return " / ".join(lines[-_LAST_LINES:]) or "it left no message"


def serve(prepare: Callable[[dict[str, Any]], Handler]) -> None:
    """The helper's end, until its standard input closes. `prepare` makes the handler from the first request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    handle = prepare(json.loads(sys.stdin.readline()))
    try:
        _answer(answers, {"ready": True})
        for line in sys.stdin:
            _answer(answers, handle(json.loads(line)))
    except BrokenPipeError:
        os._exit(1)  # the bench is gone: nobody is left to be told


def _answer(answers: Any, answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")


def _environment() -> dict[str, str]:
    """One thread for numeric libraries, as in a sampler; every module from where this process has it."""
    places = [place or os.getcwd() for place in sys.path]
    source = str(Path(spreeze.__file__).resolve().parent.parent)
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, **one_thread, "PYTHONPATH": os.pathsep.join([source, *places])}
