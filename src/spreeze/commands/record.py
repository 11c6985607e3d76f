"""spreeze record RUN"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import DONE, add_run_argument, add_trust_argument, count, count_or_zero
from spreeze.envs.quiet import stdout_to_stderr

USAGE = "RUN"
HELP = "a video file of the trained policy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument(
        "--out", metavar="FILE", default=None, help="the video, .mp4 or .gif (default: RUN/video/<run>-<seed>.mp4)"
    )
    parser.add_argument("--episodes", metavar="N", type=count, default=1, help="episodes (default: 1)")
    parser.add_argument("--seed", metavar="N", type=count_or_zero, default=0, help="of the first episode (default: 0)")
    add_trust_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_to_stderr():
        from spreeze import play

        path = play.record_run(arguments.run, arguments.out, arguments.episodes, arguments.seed, arguments.trust)
    print(path)
    return DONE
