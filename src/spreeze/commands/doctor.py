"""spreeze doctor"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import DONE, add_json_argument, print_result

USAGE = ""
HELP = "what this machine has, and what is missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from spreeze import doctor

    found = doctor.doctor()
    print_result(found, arguments.json, lambda: doctor.render(found))
    return DONE
