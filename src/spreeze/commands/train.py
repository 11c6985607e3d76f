"""spreeze train ENV"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Collection
from typing import Any

from spreeze.config import SECTIONS, OneOf, RunConfig, flag_of, load_config_file, switch

USAGE = "ENV"
HELP = "train a policy until a limit or Ctrl-C"


_SHOWN = {
    "run_dir": "DIR",
    "wandb": "PROJECT",
    "device": "DEVICE",
    "actor_device": "D",
    "critic_device": "D",
    "split_mode": "exact|pipelined",
}
_EXAMPLES = """
examples:
  spreeze train Pendulum-v1 --until-return -200
  spreeze train HalfCheetah-v5 --algo td3 --seconds 600 --seed 1
  spreeze train my_module:make_env --config runs/EARLIER/config.json --lr 3e-4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "spreeze train ENV [flags]"
    parser.epilog = _EXAMPLES
    parser.add_argument("env", metavar="ENV", help="a Gymnasium id, module:Id, or module:callable that returns an env")
    add_setting_arguments(parser)
    parser.add_argument("--config", metavar="FILE", help="config.json of an earlier run; flags given here win")


def add_setting_arguments(
    parser: argparse.ArgumentParser, left_out: Collection[str] = (), defaults: bool = True
) -> None:
    """A flag for each setting but those, in sections. `defaults`: whether what is not given is RunConfig's."""
    parser.formatter_class = _Layout
    parser.add_argument("--quiet", action="store_true", default=False, help="no progress display")
    group: Any = parser
    for setting in dataclasses.fields(RunConfig):
        if setting.name in SECTIONS:
            group = parser.add_argument_group(SECTIONS[setting.name])
        if setting.name in left_out:
            continue
        if setting.metadata["parse"] is switch:
            group.add_argument(
                flag_of(setting.name), action="store_const", const=True, help=_help_of(setting, defaults)
            )
        else:
            group.add_argument(flag_of(setting.name), metavar=_metavar_of(setting), help=_help_of(setting, defaults))


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Room for the longest flags beside what they do."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def _metavar_of(setting: dataclasses.Field) -> str:
    parse = setting.metadata["parse"]
    if setting.name in _SHOWN:
        return _SHOWN[setting.name]
    if isinstance(parse, OneOf):
        return "|".join(parse.choices)
    kinds = {"int": "N", "float": "X", "tuple": "N,N"}  # types are text here: config.py has postponed annotations
    return next((shown for kind, shown in kinds.items() if str(setting.type).startswith(kind)), "NAME")


def _help_of(setting: dataclasses.Field, defaults: bool) -> str:
    tell = defaults and setting.default is not None and setting.default is not False
    shown = f" (default: {_as_typed(setting.default)})" if tell else ""
    built = setting.metadata["built"]
    if built is not None:
        working = ", ".join(str(choice) for choice in built if choice not in (None, False))
        shown += f" [built so far: {working}]" if working else " [not built yet]"
    return (setting.metadata["help"] + shown).replace("%", "%%")


def _as_typed(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


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
