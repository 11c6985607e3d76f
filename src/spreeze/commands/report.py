"""spreeze report RUN..."""

from __future__ import annotations

import argparse

from spreeze.commands.shared import DONE, add_json_argument, print_result

USAGE = "RUN..."
HELP = "plots and a table from runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="runs' folders, or 'latest'; seeds are put together")
    parser.add_argument("--out", metavar="DIR", default=None, help="the report's folder (default: reports/<time>)")
    parser.add_argument("--title", metavar="TEXT", default=None, help="its title (default: the environments)")
    parser.add_argument(
        "--threshold",
        metavar="[ENV=]R",
        action="append",
        default=[],
        help="the return that counts as solved (default: the runs' own --until-return); once for each ENV",
    )
    parser.add_argument("--no-plots", action="store_true", default=False, help="the table alone; needs no matplotlib")
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    from spreeze.report.document import write_report

    document = write_report(
        arguments.runs, arguments.out, arguments.title, arguments.threshold, plots=not arguments.no_plots
    )
    print_result(document, arguments.json, lambda: document["page"])
    return DONE
