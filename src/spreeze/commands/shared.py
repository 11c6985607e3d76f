"""What several commands have in common: exit codes, arguments, and one JSON document on stdout."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

DONE, FAILED, WRONG_USAGE, INTERRUPTED, READER_GONE = 0, 1, 2, 130, 141


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or 'latest'")


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", default=False, help="import the code that the run's folder names as its ENV"
    )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=False, help="one JSON document on stdout, nothing else")


def count(word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 1")
    return int(word)


def count_or_zero(word: str) -> int:
    return 0 if word == "0" else count(word)


def print_result(result: Any, as_json: bool, render: Callable[[], str]) -> None:
    print(json.dumps(result, indent=2) if as_json else render(), flush=True)


def lines(figures: dict[str, Any]) -> str:
    """Figures for people: six digits are more than a return has."""
    shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in figures.items()}
    return "\n".join(f"{name:<14}{value}" for name, value in shown.items())
