"""Whether a run lives: each of its processes holds a lock on a file in its folder, and the kernel takes that back when
last of them is gone, however it went."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from spreeze.errors import ConfigError
from spreeze.run_folder import LOCK_FILE

_GONE_WITHIN_S = 10.0  # processes of a run that was just killed


class RunLock:
    """Held until `close` here and in every process that inherited `fd`. Raises ConfigError where the run lives."""

    def __init__(self, run_dir: Path) -> None:
        try:
            self.fd = os.open(run_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise ConfigError(f"{run_dir}: a run must be able to write here ({error.strerror})") from None
        deadline = time.monotonic() + _GONE_WITHIN_S
        while not _try_lock(self.fd):
            if time.monotonic() >= deadline:
                self.close()
                raise ConfigError(f"{run_dir}: this run is alive, its processes still work; stop it first, or watch it")
            time.sleep(0.05)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network disk without locks: nothing can be told
        return True
    return True
