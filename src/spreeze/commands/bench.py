"""spreeze bench WHAT"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import DONE, add_json_argument, print_result
from spreeze.envs.quiet import stdout_to_stderr

USAGE = "WHAT"
HELP = "measure a part of Spreeze on this machine"
PASSES_ON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from spreeze.bench import BENCHES

    parser.usage = "spreeze bench WHAT [ENV] [flags of that bench] [--json]"
    parser.add_argument("what", metavar="WHAT", help=f"one of {', '.join(BENCHES)}")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from spreeze import bench

    with stdout_to_stderr():
        result = bench.run_bench(arguments.what, arguments.rest)
    print_result(result, arguments.json, lambda: bench.render(result))
    return DONE
