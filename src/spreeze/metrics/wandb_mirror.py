"""A run's figures on Weights & Biases, copied from its files by a process of its own.

The run never waits for the network and imports nothing for it. The copy follows metrics.jsonl and eval.jsonl, so
whatever goes wrong here (no key, no network, a fault of that package) ends the copy alone, and an event says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from spreeze.documents import read_document
from spreeze.errors import ConfigError
from spreeze.metrics.lines import LineTail
from spreeze.metrics.readable import one_line
from spreeze.metrics.scalars import EVALUATION_PREFIX, evaluation_curves, scalars_of

LOOK_EVERY_S = 2.0
FINISH_WITHIN_S = 30.0
LOG = "wandb.log"  # in the run folder: what that package says
_NICENESS = 10


def check_installed() -> None:
    found = importlib.util.find_spec("wandb")
    if found is None or found.origin is None:  # a mere folder of that name, which the package itself likes to make
        raise ConfigError("--wandb needs the package wandb: pip install 'spreeze[wandb]'")


class Mirror:
    """The run's end of it. Nothing here raises, and close() takes FINISH_WITHIN_S at most."""

    def __init__(self, run_dir: Path, project: str) -> None:
        self._log = run_dir / LOG
        self._process: subprocess.Popen | None = None
        self._told = False
        self._why = ""
        places = [place or os.getcwd() for place in sys.path]  # it finds modules where this process does
        try:
            with open(self._log, "wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __name__, str(run_dir), project],
                    stdin=subprocess.PIPE,  # its end is the run's end, however that comes
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
                    start_new_session=True,  # Ctrl-C is for the run; and its helpers end with it
                )
        except OSError as error:
            self._log.unlink(missing_ok=True)
            self._why = str(error)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def trouble(self) -> str | None:
        """Why the copy ended before the run, once."""
        if self._told or self.running:
            return None
        self._told = True
        why = self._why if self._process is None else f"exit code {self._process.returncode}, {self._last_words()}"
        return f"no copy on Weights & Biases any more: {why}; training goes on"

    def close(self) -> str | None:
        """After the last line was written. -> what went wrong, where that was not told yet"""
        if self._process is None:
            return self.trouble()
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        late = False
        try:
            self._process.wait(FINISH_WITHIN_S)
        except subprocess.TimeoutExpired:
            late = True
        with contextlib.suppress(OSError):  # what that package has started, too
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        if late:
            return f"Weights & Biases did not take everything within {FINISH_WITHIN_S:g} s"
        return self.trouble() if code != 0 else None

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            lines = []
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return f"{one_line(last)[:300]} ({self._log})"


def mirror(run_dir: Path, project: str) -> None:
    """The copy's own program: until stdin ends."""
    import wandb

    config = read_document(run_dir / "config.json", "the config.json of a run")
    run: Any = wandb.init(project=project, name=run_dir.name, dir=str(run_dir), config=config)
    run.define_metric("*", step_metric="env_steps")
    metrics, evaluations = LineTail(run_dir / "metrics.jsonl"), LineTail(run_dir / "eval.jsonl")
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], LOOK_EVERY_S)[0])
        for record in metrics.read_new():
            run.log(scalars_of(record))
        for record in evaluations.read_new():
            run.log({"env_steps": record.get("env_steps"), **scalars_of(evaluation_curves(record), EVALUATION_PREFIX)})
    signal.alarm(round(FINISH_WITHIN_S))  # also where nobody is left to end a package that waits for its network
    run.finish()


if __name__ == "__main__":
    os.nice(_NICENESS)
    mirror(Path(sys.argv[1]), sys.argv[2])
