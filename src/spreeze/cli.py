"""The command line: read the words, then one call each. Importing it, and reading any flag, loads neither torch nor
gymnasium: `spreeze --help` answers at once, and the first env step of `train` comes sooner.

stdout carries results; everything else goes to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from spreeze import __version__
from spreeze.config import OneOf, RunConfig, flag_of, load_config_file, switch
from spreeze.envs.quiet import stdout_to_stderr
from spreeze.errors import ConfigError, SpreezeError, nearest

DONE, FAILED, WRONG_USAGE, INTERRUPTED, READER_GONE = 0, 1, 2, 130, 141


@dataclass(frozen=True)
class Command:
    usage: str  # what follows the command's name
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    passes_on: bool = False  # flags that it does not know belong to what it calls


class _Parser(argparse.ArgumentParser):
    """argparse, with its errors raised as ours and every flag written in full."""

    def __init__(self, command: str, help: str) -> None:
        super().__init__(f"spreeze {command}", description=help, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self.command = command

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.command}: {message}")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except ConfigError as error:
        print(f"spreeze: {error}", file=sys.stderr)
        return WRONG_USAGE
    except SpreezeError as error:
        print(f"spreeze: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `spreeze envs | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def _dispatch(words: list[str]) -> int:
    if sys.platform == "win32":
        raise ConfigError(
            "Spreeze does not run on Windows yet; it runs on Linux, macOS and the Windows Subsystem for Linux"
        )
    name = words[0] if words else "--help"
    if name in ("-h", "--help", "help"):
        print(overview())
        return DONE
    if name == "--version":
        print(f"spreeze {__version__}")
        return DONE
    if name in NOT_BUILT:
        raise ConfigError(f"'spreeze {name}' is not built yet; today there are: {', '.join(COMMANDS)}")
    if name not in COMMANDS:
        what = "flag" if name.startswith("-") else "command"
        raise ConfigError(f"unknown {what} {name!r}.{nearest(name, COMMANDS)}")
    return COMMANDS[name].run(parse(name, words[1:]))


def parse(name: str, words: list[str]) -> argparse.Namespace:
    """The words after the command's name, as that command wants them."""
    parser = make_parser(name)
    words = join_negative_numbers(words)
    if COMMANDS[name].passes_on:
        arguments, rest = parser.parse_known_args(words)
        return argparse.Namespace(**vars(arguments), rest=rest)
    known = list(parser._option_string_actions)
    for word in words:
        flag = word.split("=")[0]
        if word.startswith("-") and flag not in known and word != "-":
            raise ConfigError(f"{name}: unknown flag {flag}.{nearest(flag, known)}")
    return parser.parse_args(words)


def make_parser(name: str) -> argparse.ArgumentParser:
    command = COMMANDS[name]
    parser = _Parser(name, command.help)
    command.add_arguments(parser)
    return parser


def join_negative_numbers(words: Sequence[str]) -> list[str]:
    """['--until-return', '-2e2'] -> ['--until-return=-2e2']: argparse takes a word with a dash for a flag."""
    joined: list[str] = []
    for word in words:
        if (
            word.startswith("-")
            and _is_number(word)
            and joined
            and joined[-1].startswith("--")
            and "=" not in joined[-1]
        ):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def overview() -> str:
    lines = ["usage: spreeze COMMAND ...", "", "commands:"]
    lines += [f"  {f'{name} {command.usage}':<24}{command.help}" for name, command in COMMANDS.items()]
    lines += ["", "'spreeze COMMAND --help' shows the flags of a command.", f"Not built yet: {', '.join(NOT_BUILT)}."]
    return "\n".join(lines)


# train


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "spreeze train ENV [flags]"
    parser.add_argument("env", metavar="ENV", help="a Gymnasium id, module:Id, or module:callable that returns an env")
    parser.add_argument("--config", metavar="FILE", help="config.json of an earlier run; flags given here win")
    parser.add_argument("--quiet", action="store_true", default=False, help="no progress display")
    for setting in dataclasses.fields(RunConfig):
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
    names = {setting.name for setting in dataclasses.fields(RunConfig)}
    settings = load_config_file(arguments.config) if "config" in given else {}
    return RunConfig.of({**settings, **{name: value for name, value in given.items() if name in names}})


def _train(arguments: argparse.Namespace) -> int:
    # when the command was typed: what Python has computed until here it did since then
    started_ns = time.monotonic_ns() - time.process_time_ns()
    config = config_of(arguments)
    from spreeze.runtime import supervisor

    return supervisor.train(arguments.env, config, quiet=arguments.quiet, started_ns=started_ns).exit_code


# eval, record


def _add_eval_arguments(parser: argparse.ArgumentParser) -> None:
    _add_run_argument(parser)
    parser.add_argument("--episodes", metavar="N", type=_count, default=10, help="episodes (default: 10)")
    parser.add_argument("--seed", metavar="N", type=_count_or_zero, default=0, help="of the first episode (default: 0)")
    _add_json_argument(parser)


def _eval(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze import play

        figures = play.evaluate_run(arguments.run, arguments.episodes, arguments.seed)
    _print_result(figures, arguments.json, lambda: _lines(figures))
    return DONE


def _add_record_arguments(parser: argparse.ArgumentParser) -> None:
    _add_run_argument(parser)
    parser.add_argument("--out", metavar="FILE", default=None, help="the video (default: RUN/video/<env>-<seed>.mp4)")
    parser.add_argument("--episodes", metavar="N", type=_count, default=1, help="episodes (default: 1)")
    parser.add_argument("--seed", metavar="N", type=_count_or_zero, default=0, help="of the first episode (default: 0)")


def _record(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze import play

        path = play.record_run(arguments.run, arguments.out, arguments.episodes, arguments.seed)
    print(path)
    return DONE


# bench


def _add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    from spreeze.bench import BENCHES

    parser.usage = "spreeze bench WHAT [ENV] [flags of that bench] [--json]"
    parser.add_argument("what", metavar="WHAT", help=f"one of {', '.join(BENCHES)}")
    _add_json_argument(parser)


def _bench(arguments: argparse.Namespace) -> int:
    from spreeze import bench

    with stdout_to_stderr():
        result = bench.run_bench(arguments.what, arguments.rest)
    _print_result(result, arguments.json, lambda: bench.render(result))
    return DONE


# doctor, envs


def _doctor(arguments: argparse.Namespace) -> int:
    from spreeze import doctor

    found = doctor.doctor()
    _print_result(found, arguments.json, lambda: doctor.render(found))
    return DONE


def _add_envs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="only ids that contain it")
    _add_json_argument(parser)


def _envs(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze.envs.registry import list_envs

        found = list_envs(arguments.text)
    _print_result(found, arguments.json, lambda: _envs_table(found, arguments.text))
    return DONE


def _envs_table(found: list[dict[str, Any]], text: str) -> str:
    from spreeze.tables import table

    if not found:
        return f"no environment whose id contains {text!r} can be trained here; 'spreeze doctor' names what is missing"
    columns = ("env_id", "obs_size", "action_size", "max_episode_steps", "backends")
    return table(columns, [[env[column] for column in columns] for env in found])


# shared by the commands


def _add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or 'latest'")


def _add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=False, help="one JSON document on stdout, nothing else")


def _count(word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number of at least 1")
    return int(word)


def _count_or_zero(word: str) -> int:
    return 0 if word == "0" else _count(word)


def _print_result(result: Any, as_json: bool, render: Callable[[], str]) -> None:
    print(json.dumps(result, indent=2) if as_json else render(), flush=True)


def _lines(figures: dict[str, Any]) -> str:
    return "\n".join(f"{name:<14}{value}" for name, value in figures.items())


COMMANDS = {
    "train": Command("ENV", "train a policy until a limit or Ctrl-C", _add_train_arguments, _train),
    "eval": Command("RUN", "episodes with the trained policy", _add_eval_arguments, _eval),
    "record": Command("RUN", "a video file of the trained policy", _add_record_arguments, _record),
    "bench": Command("WHAT", "measure a part of Spreeze on this machine", _add_bench_arguments, _bench, passes_on=True),
    "doctor": Command("", "what this machine has, and what is missing", _add_json_argument, _doctor),
    "envs": Command("[TEXT]", "environments that can be trained here", _add_envs_arguments, _envs),
}
NOT_BUILT = ("resume", "watch", "dashboard", "report", "export")
