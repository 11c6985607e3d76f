"""Where runs lie on the disk: a new run's folder is claimed here, and 'latest' is found here."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from pathlib import Path

from spreeze.errors import ConfigError

RUNS = Path("runs")
CONFIG_FILE = "config.json"  # its presence makes a folder a run
LATEST = "latest"
LOCK_FILE = ".lock"  # held by every process of a run (runtime/run_lock.py)
LEAST_FREE_BYTES = 64 << 20  # logs, curves and two policies of a short run; a checkpoint asks for its own room
_MOST_NAMES = 1000


def make_run_dir(asked: str | None, env_id: str, algo: str, started: time.struct_time | None = None) -> Path:
    """Makes the folder and gives its path. Made, not only named: two runs started in one second never share one."""
    if asked is not None:
        return _make_named(Path(asked).expanduser())
    stamp = time.strftime("%Y%m%d-%H%M%S", started or time.localtime())
    name = f"{safe_name(env_id)}-{algo}-{stamp}"
    for attempt in range(1, _MOST_NAMES):
        path = RUNS / (name if attempt == 1 else f"{name}-{attempt}")
        if _make(path):
            return path
    raise ConfigError(f"{RUNS / name}: {_MOST_NAMES} runs of that name exist; name a folder with --run-dir")


def _make_named(path: Path) -> Path:
    empty = path.is_dir() and not any(path.iterdir())
    if empty:
        _check_room(path)
    elif not _make(path):
        raise ConfigError(f"--run-dir {path}: exists already, and a run never writes over another; name a new folder")
    return path


def _make(path: Path) -> bool:
    """False where something of that name is there already."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_room(path.parent)
    except OSError as error:
        raise ConfigError(f"--run-dir {path}: cannot be made ({error.strerror})") from None
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigError(f"--run-dir {path}: cannot be made ({error.strerror})") from None
    return True


def _check_room(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < LEAST_FREE_BYTES:
        raise ConfigError(
            f"{path}: {free:,} bytes are free on this disk, a run needs at least {LEAST_FREE_BYTES:,}; "
            "make room or choose another disk with --run-dir"
        )


def safe_name(env_id: str) -> str:
    """The id as a file name: 'my.module:make_env' -> 'my.module_make_env'."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", env_id).strip("._-")[:80] or "env"


def find_run(run: str | Path) -> Path:
    """A run's folder by its path; 'latest' is the newest in runs/, and 'FOLDER/latest' the newest in that folder."""
    path = Path(run).expanduser()
    if path.name == LATEST and not path.exists():
        folder = RUNS if path == Path(LATEST) else path.parent
        return _newest_run(folder)
    if not path.is_dir():
        raise ConfigError(f"{path}: no such run folder; give one that 'spreeze train' made, or 'latest'")
    if not (path / CONFIG_FILE).is_file():
        inside = f"; the newest run in it is '{path / LATEST}'" if _runs_in(path) else ""
        raise ConfigError(f"{path}: not a run folder, {CONFIG_FILE} is missing{inside}")
    return path


def lives(run_dir: Path) -> bool:
    """Whether a process of this run still works, as its lock says; where there are no locks, whether it has no end."""
    try:
        fd = os.open(run_dir / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return not (run_dir / "summary.json").exists()
    finally:
        os.close(fd)
    return False


def _newest_run(folder: Path) -> Path:
    configs = _runs_in(folder)
    if not configs:
        raise ConfigError(f"{folder}: no run here yet; 'spreeze train ENV' makes one")
    return max(configs, key=lambda config: config.stat().st_mtime).parent


def _runs_in(folder: Path) -> list[Path]:
    """The config.json of each run in a folder of runs."""
    return list(folder.glob(f"*/{CONFIG_FILE}"))
