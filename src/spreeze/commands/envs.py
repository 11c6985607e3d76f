"""spreeze envs [TEXT]"""

from __future__ import annotations

import argparse
from typing import Any

from spreeze.commands.shared import DONE, add_json_argument, print_result
from spreeze.envs.quiet import stdout_to_stderr

USAGE = "[TEXT]"
HELP = "environments that can be trained here"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="only ids that contain it")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze.envs.registry import list_envs

        found = list_envs(arguments.text)
    print_result(found, arguments.json, lambda: _envs_table(found, arguments.text))
    return DONE


def _envs_table(found: list[dict[str, Any]], text: str) -> str:
    from spreeze.tables import table

    if not found:
        return f"no environment whose id contains {text!r} can be trained here; 'spreeze doctor' names what is missing"
    columns = ("env_id", "obs_size", "action_size", "max_episode_steps", "backends")
    return table(columns, [[env[column] for column in columns] for env in found])
