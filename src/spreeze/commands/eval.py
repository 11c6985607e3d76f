"""spreeze eval RUN"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import (
    DONE,
    add_json_argument,
    add_run_argument,
    add_trust_argument,
    count,
    count_or_zero,
    lines,
    print_result,
)
from spreeze.envs.quiet import stdout_to_stderr

USAGE = "RUN"
HELP = "episodes with the trained policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--episodes", metavar="N", type=count, default=10, help="episodes (default: 10)")
    parser.add_argument("--seed", metavar="N", type=count_or_zero, default=0, help="of the first episode (default: 0)")
    add_trust_argument(parser)
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze import play

        figures = play.evaluate_run(arguments.run, arguments.episodes, arguments.seed, arguments.trust)
    print_result(figures, arguments.json, lambda: lines(figures))
    return DONE
