"""spreeze watch RUN"""

from __future__ import annotations

import argparse
import signal
import sys

from spreeze.commands.shared import DONE, add_run_argument, add_trust_argument
from spreeze.envs.quiet import stdout_to_stderr

USAGE = "RUN"
HELP = "the policy of a run, also while it trains"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--window", action="store_true", default=False, help="in a window (default with a screen)")
    shown.add_argument(
        "--web", action="store_true", default=False, help="for 'spreeze dashboard' (default without one)"
    )
    add_trust_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with stdout_to_stderr():
        from spreeze.watching import watch

        how = "window" if arguments.window else "web" if arguments.web else None
        watch.watch_run(arguments.run, how, arguments.trust, _say)
    return DONE


def _say(text: str) -> None:
    from spreeze.metrics.readable import one_line

    print(f"spreeze: {one_line(text)}", file=sys.stderr, flush=True)  # it may quote what a stranger's folder holds
