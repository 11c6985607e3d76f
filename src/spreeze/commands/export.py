"""spreeze export RUN"""

from __future__ import annotations

import argparse

from spreeze.commands.shared import DONE, add_json_argument, add_run_argument, print_result
from spreeze.errors import ConfigError, nearest

USAGE = "RUN"
HELP = "the policy as ONNX or TorchScript"
FORMATS = ("onnx", "torchscript")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument(
        "--format", metavar="onnx|torchscript", default="onnx", help="for which programs (default: onnx)"
    )
    parser.add_argument("--out", metavar="FILE", default=None, help="the file (default: ./<run>.onnx, ./<run>.pt)")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.format not in FORMATS:
        raise ConfigError(
            f"--format: {arguments.format!r} is not one of {', '.join(FORMATS)}.{nearest(arguments.format, FORMATS)}"
        )
    from spreeze.export import export_run

    exported = export_run(arguments.run, arguments.format, arguments.out)
    print_result(exported, arguments.json, lambda: exported["file"])
    return DONE
