"""Which runs lie in a folder, and the only way to a file of theirs.

No name from a request ever touches the disk. A request names an id; ids are made here from what a scan found. Opening
follows no link below the folder, at any place of the path, and gives regular files only: what a stranger put into a
run folder leads nowhere else.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.documents import MOST_BYTES
from spreeze.run_folder import CONFIG_FILE

DEEPEST = 3  # runs/<study>/<env>/<run>
MOST_FOLDERS = 5_000  # looked into per scan


@dataclass(frozen=True)
class Place:
    """A folder below the one that is served. `parts`: the way to it, () for the served folder itself."""

    root: Path
    parts: tuple[str, ...]

    @property
    def id(self) -> str:
        """Made from the whole way, so that it is the same for every server over this folder."""
        return name_id("/".join(self.parts))

    @property
    def name(self) -> str:
        return shown("/".join(self.parts) or self.root.resolve().name)

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def open(self, *names: str) -> int:
        """A descriptor to read a regular file below this folder. Raises OSError, for a link on the way as well."""
        fd = self._open_folder(*names[:-1])
        try:
            found = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        finally:
            os.close(fd)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise OSError(errno.EINVAL, "not a regular file")
        return found

    def status(self, *names: str) -> os.stat_result | None:
        try:
            fd = self.open(*names)
        except OSError:
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def read(self, *names: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """None where there is no such file, or a longer one."""
        try:
            with open(self.open(*names), "rb") as file:
                data = file.read(most_bytes + 1)
        except OSError:
            return None
        return data if len(data) <= most_bytes else None

    def read_document(self, *names: str) -> dict[str, Any] | None:
        """The JSON object in a file; None for whatever else is there."""
        data = self.read(*names)
        try:
            document = None if data is None else json.loads(data)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def files(self, *folder: str) -> list[str]:
        """Names of the regular files in a folder below this one, links left out."""
        try:
            fd = self._open_folder(*folder)
        except OSError:
            return []
        try:
            with os.scandir(fd) as entries:
                return sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError:
            return []
        finally:
            os.close(fd)

    def folders(self) -> list[str]:
        try:
            with os.scandir(self.path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def has_real_folder(self, name: str) -> bool:
        """False for a link, and for what is not there."""
        try:
            os.close(self._open_folder(name))
        except OSError:
            return False
        return True

    def below(self, name: str) -> Place:
        return Place(self.root, (*self.parts, name))

    def _open_folder(self, *names: str) -> int:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in (*self.parts, *names):
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd


def find_places(root: Path) -> list[Place]:
    """The runs in a folder, and the folder itself where it is one."""
    return list(_walk(Place(root, ()), [MOST_FOLDERS]))


def _walk(place: Place, left: list[int]) -> Iterator[Place]:
    left[0] -= 1
    if left[0] < 0:
        return
    if place.status(CONFIG_FILE) is not None:
        yield place  # what lies inside a run is its own
    elif len(place.parts) < DEEPEST:
        for name in place.folders():
            if not name.startswith("."):
                yield from _walk(place.below(name), left)


def name_id(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def shown(name: str) -> str:
    """A file's name as text: bytes that are no UTF-8 become replacement characters, as JSON needs."""
    return os.fsencode(name).decode("utf-8", errors="replace")
