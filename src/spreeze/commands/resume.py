"""spreeze resume RUN"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import add_run_argument, add_trust_argument
from spreeze.commands.train import add_setting_arguments, given_settings, typed_at_ns
from spreeze.config import KEPT_SETTINGS

USAGE = "RUN"
HELP = "go on from a run's last checkpoint, replay included"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "spreeze resume RUN [flags that win over the run's settings]"
    add_run_argument(parser)
    add_trust_argument(parser)
    add_setting_arguments(parser, left_out=KEPT_SETTINGS, defaults=False)


def run(arguments: argparse.Namespace) -> int:
    started_ns = typed_at_ns()
    settings = given_settings(arguments)
    from spreeze.runtime import supervisor

    return supervisor.resume(
        arguments.run, settings, trust=arguments.trust, quiet=arguments.quiet, started_ns=started_ns
    ).exit_code
