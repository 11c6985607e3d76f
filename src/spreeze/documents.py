"""JSON documents that others may have written: read with a bound, refused with one sentence.

A run folder is data. What stands under a name in it may be a pipe that never ends, a link to a device, ten gigabytes,
or lists nested deeper than Python counts; all of that ends here as a ConfigError, and nothing waits for it.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from spreeze.errors import ConfigError

MOST_BYTES = 1 << 20  # a run's own config.json has a few thousand


def read_document(path: Path, what: str, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The JSON object in a file. `what`: what was expected there, for the message."""
    data = read_bounded(path, what, most_bytes)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not {what}: not a JSON file ({error})") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not {what}: a JSON {type(document).__name__}, expected an object")
    return document


def open_at_once(path: str, flags: int) -> int:
    """For open(): a pipe without a writer does not hold the caller."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_bounded(path: Path, what: str, most_bytes: int) -> bytes:
    try:
        with open(path, "rb", opener=open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path}: not a regular file; expected {what}")
            if status.st_size > most_bytes:
                raise ConfigError(f"{path}: {status.st_size:,} bytes; {what} has at most {most_bytes:,}")
            return file.read(most_bytes)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; expected {what}") from None
