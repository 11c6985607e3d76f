"""spreeze train ENV"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Collection
from typing import Any

from spreeze.config import OneOf, RunConfig, flag_of, load_config_file, switch

USAGE = "ENV"
HELP = "train a policy until a limit or Ctrl-C"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "spreeze train ENV [flags]"
    parser.add_argument("env", metavar="ENV", help="a Gymnasium id, module:Id, or module:callable that returns an env")
    parser.add_argument("--config", metavar="FILE", help="config.json of an earlier run; flags given here win")
    add_setting_arguments(parser)


def add_setting_arguments(parser: argparse.ArgumentParser, left_out: Collection[str] = ()) -> None:
    """A flag for each setting but those."""
    parser.add_argument("--quiet", action="store_true", default=False, help="no progress display")
    for setting in dataclasses.fields(RunConfig):
        if setting.name in left_out:
            continue
        if setting.metadata["parse"] is switch:
            parser.add_argument(flag_of(setting.name), action="store_const", const=True, help=_help_of(setting))
        else:
            parser.add_argument(flag_of(setting.name), metavar=_metavar_of(setting), help=_help_of(setting))


def _metavar_of(setting: dataclasses.Field) -> str:
    parse = setting.metadata["parse"]
    if isinstance(parse, OneOf):
        return "|".join(parse.choices)
    kinds = {"int": "N", "float": "X", "tuple": "N,N"}  # types are text here: config.py has postponed annotations
    return next((shown for kind, shown in kinds.items() if str(setting.type).startswith(kind)), "NAME")


def _help_of(setting: dataclasses.Field) -> str:
    default = ",".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
    shown = "" if default is None or default is False else f" (default: {default})"
    built = setting.metadata["built"]
    if built is not None:
        working = ", ".join(str(choice) for choice in built if choice not in (None, False))
        shown += f" [built so far: {working}]" if working else " [not built yet]"
    return (setting.metadata["help"] + shown).replace("%", "%%")


def config_of(arguments: argparse.Namespace) -> RunConfig:
    """The settings of --config, and over them those that were given as flags."""
    given = vars(arguments)
    settings = load_config_file(arguments.config) if "config" in given else {}
    return RunConfig.of({**settings, **given_settings(arguments)})


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    names = {setting.name for setting in dataclasses.fields(RunConfig)}
    return {name: value for name, value in vars(arguments).items() if name in names}


def typed_at_ns() -> int:
    """When the command was typed: what Python has computed until here it did since then."""
    return time.monotonic_ns() - time.process_time_ns()


def run(arguments: argparse.Namespace) -> int:
    started_ns = typed_at_ns()
    config = config_of(arguments)
    from spreeze.runtime import supervisor

    return supervisor.train(arguments.env, config, quiet=arguments.quiet, started_ns=started_ns).exit_code
