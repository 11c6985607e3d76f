"""The flags of a bench: fields of a dataclass, read by the same parsers as the settings of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from spreeze.config import Parse, flag_of, parse_setting, switch, text
from spreeze.errors import ConfigError, nearest

Options = TypeVar("Options")
Fields = Mapping[str, dataclasses.Field]


def several(parse: Parse) -> Parse:
    """'64,256' -> (64, 256): a row of the document for each."""
    return lambda value: tuple(parse(part) for part in text(value).split(","))


def read_options(what: str, words: list[str], kind: type[Options]) -> Options:
    """For a bench without an environment."""
    positional, given = split_words(what, words, fields_of(kind))
    if positional:
        raise ConfigError(f"bench {what}: {positional[0]!r} was given, expected only flags; it steps no environment")
    return parse_options(kind, given)


def read_env_and_options(what: str, words: list[str], kind: type[Options]) -> tuple[str, Options]:
    positional, given = split_words(what, words, fields_of(kind))
    return the_env(what, positional), parse_options(kind, given)


def the_env(what: str, positional: list[str]) -> str:
    if len(positional) != 1:
        got = " ".join(positional) or "nothing"
        raise ConfigError(
            f"bench {what}: expected one environment, as in 'spreeze bench {what} Pendulum-v1', got {got}"
        )
    return positional[0]


def fields_of(kind: type) -> dict[str, dataclasses.Field]:
    return {field.name: field for field in dataclasses.fields(kind)}


def parse_options(kind: type[Options], given: Mapping[str, Any]) -> Options:
    known = fields_of(kind)
    return kind(**{name: parse_setting(known[name], value) for name, value in given.items()})


def split_words(what: str, words: list[str], known: Fields) -> tuple[list[str], dict[str, Any]]:
    """-> the words that belong to no flag, and what was given by flags, not parsed yet."""
    flags = {flag_of(name): field for name, field in known.items()}
    positional, given = [], {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in flags:
            raise ConfigError(f"bench {what}: unknown flag {flag}.{nearest(flag, flags)}")
        field = flags[flag]
        if not equals:
            value = "true" if field.metadata["parse"] is switch else _value_of(what, flag, left)
        given[field.name] = value
    return positional, given


def _value_of(what: str, flag: str, left: list[str]) -> str:
    if not left or left[0].startswith("--"):
        raise ConfigError(f"bench {what}: {flag} needs a value")
    return left.pop(0)
