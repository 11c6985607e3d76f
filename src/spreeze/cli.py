"""The command line: read the words, then one call each (commands/). Importing it, and reading any flag, loads neither
torch nor gymnasium: `spreeze --help` answers at once, and the first env step of `train` comes sooner.

stdout carries results; everything else goes to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol, cast

from spreeze import __version__
from spreeze.commands.shared import DONE, FAILED, INTERRUPTED, READER_GONE, WRONG_USAGE
from spreeze.errors import ConfigError, SpreezeError, nearest

_LONGEST_MESSAGE = 1500
COMMANDS = ("train", "resume", "eval", "record", "watch", "dashboard", "report", "export", "bench", "doctor", "envs")


class Command(Protocol):
    """A module of spreeze.commands."""

    USAGE: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, arguments: argparse.Namespace) -> int: ...


class _Parser(argparse.ArgumentParser):
    """argparse, with its errors raised as ours and every flag written in full."""

    def __init__(self, command: str, help: str) -> None:
        super().__init__(f"spreeze {command}", description=help, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self.command = command

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.command}: {message}; 'spreeze {self.command} --help' shows what it takes")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except ConfigError as error:
        print(f"spreeze: {one_sentence(error)}", file=sys.stderr)
        return WRONG_USAGE
    except SpreezeError as error:
        print(f"spreeze: {one_sentence(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `spreeze envs | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def one_sentence(error: SpreezeError) -> str:
    """As it may be shown on a terminal: a message can quote what a stranger's file holds, however long and whatever it
    would do to a terminal."""
    text = "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in str(error))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}... ({len(text):,} characters)"


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
    if name not in COMMANDS:
        what = "flag" if name.startswith("-") else "command"
        raise ConfigError(f"unknown {what} {name!r}.{nearest(name, COMMANDS)}")
    return load_command(name).run(parse(name, words[1:]))


def load_command(name: str) -> Command:
    return cast(Command, importlib.import_module(f"spreeze.commands.{name}"))


def parse(name: str, words: list[str]) -> argparse.Namespace:
    """The words after the command's name, as that command wants them."""
    parser = make_parser(name)
    words = join_negative_numbers(words)
    if getattr(load_command(name), "PASSES_ON", False):
        arguments, rest = parser.parse_known_args(words)
        return argparse.Namespace(**vars(arguments), rest=rest)
    known = list(parser._option_string_actions)
    for word in words:
        flag = word.split("=")[0]
        if word.startswith("-") and flag not in known and word != "-":
            raise ConfigError(f"{name}: unknown flag {flag}.{nearest(flag, known)}")
    return parser.parse_args(words)


def make_parser(name: str) -> argparse.ArgumentParser:
    command = load_command(name)
    parser = _Parser(name, command.HELP)
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
    for name in COMMANDS:
        command = load_command(name)
        lines.append(f"  {f'{name} {command.USAGE}':<24}{command.HELP}")
    lines += ["", "'spreeze COMMAND --help' shows the flags of a command. To begin with:"]
    lines += ["", "  spreeze train Pendulum-v1 --until-return -200"]
    return "\n".join(lines)
