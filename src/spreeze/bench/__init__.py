"""What this machine does, part by part: `spreeze bench WHAT`. One file is one bench.

A bench gives one JSON document. Its rows carry their settings, the median over at least five windows, the spread over
those windows, and their share of a limit that was measured in the same run, window against window: machines drift, and
only what was measured side by side can be divided.
"""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from spreeze.errors import ConfigError, nearest

# Imported when asked for: a bench of rows needs no torch.
BENCHES = {
    "sampling": "spreeze.bench.sampling",
    "learner": "spreeze.bench.learner",
    "transfer": "spreeze.bench.transfer",
    "weights": "spreeze.bench.weights",
    "run": "spreeze.bench.run",
    "ablation": "spreeze.bench.ablation",
    "compare": "spreeze.bench.compare",
}


class Bench(Protocol):
    """What the module of a bench offers."""

    def run(self, words: list[str]) -> dict[str, Any]: ...  # the words after its name -> the document


def run_bench(what: str, options: list[str]) -> dict[str, Any]:
    """`options`: the words after WHAT on the command line. Raises ConfigError before anything is measured."""
    if what not in BENCHES:
        raise ConfigError(f"unknown bench {what!r}.{nearest(what, BENCHES)}")
    with _terminated_in_order():
        return cast(Bench, importlib.import_module(BENCHES[what])).run(options)


def render(document: dict[str, Any]) -> str:
    """The document as a table for people."""
    from spreeze.bench.table import render_document

    return render_document(document)


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C, so that helpers and folders go before this process does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
