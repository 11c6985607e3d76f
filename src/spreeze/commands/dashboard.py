"""spreeze dashboard [DIR]"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from spreeze.commands.shared import DONE
from spreeze.errors import ConfigError
from spreeze.run_folder import RUNS

USAGE = "[DIR]"
HELP = "a page in the browser over all runs in DIR"
PORT = 8420


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", metavar="DIR", nargs="?", default=None, help=f"a folder of runs (default: {RUNS})")
    parser.add_argument("--port", metavar="N", type=port, default=PORT, help=f"0: any that is free (default: {PORT})")
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="127.0.0.1",
        help="the address to listen on; 0.0.0.0: also for other machines, with the token (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="open the browser (default: where there is a screen and a terminal)",
    )


def port(word: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{word!r} is not a port between 0 and 65535")
    return int(word)


def run(arguments: argparse.Namespace) -> int:
    folder = RUNS if arguments.dir is None else Path(arguments.dir).expanduser()
    if arguments.dir is not None and not folder.is_dir():  # the default one comes with the first run
        raise ConfigError(f"{folder}: no such folder; 'spreeze train ENV' makes runs in {RUNS}")
    try:
        from spreeze.web.server import serve
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("starlette", "uvicorn", "anyio"):
            raise
        raise ConfigError(f"the dashboard needs {missing}: pip install 'spreeze[web]'") from None
    serve(folder, arguments.host, arguments.port, has_screen() if arguments.open is None else arguments.open)
    return DONE


def has_screen() -> bool:
    somewhere = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(somewhere) and sys.stdout.isatty()
