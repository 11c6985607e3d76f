"""The README's pictures of the report and of the terminal, from run folders. docs/screenshots.py calls it."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from spreeze.metrics.lines import LineTail
from spreeze.metrics.panel import render_panel
from spreeze.metrics.view import Header, Role, View
from spreeze.report.document import write_report

IMAGES = Path(__file__).parent / "images"
COLUMNS, ROWS = 100, 28
PAGE = """<style>{stylesheet}</style><pre style="margin:0; padding:16px; width:max-content; background:{background};
color:{foreground}; font:15px/17.5px 'DejaVu Sans Mono', monospace">{code}</pre>"""


def take_report(runs: list[Path]) -> None:
    """The first plot of `spreeze report RUNS...`."""
    with tempfile.TemporaryDirectory() as folder:
        write_report([str(run) for run in runs], folder, None, [], plots=True)
        save(Image.open(Path(folder) / "return_over_time.png"), "report")


def take_terminal(browser: Browser, run: Path) -> None:
    """What `spreeze train` shows on a terminal, at the last of the run's lines at which every role was there."""
    view = view_of(run)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(render_panel(view, COLUMNS, ROWS))
    page = browser.new_page(device_scale_factor=1.5)
    page.set_content(console.export_html(theme=DIMMED_MONOKAI, code_format=PAGE))
    save(Image.open(io.BytesIO(page.locator("pre").screenshot())), "terminal")
    page.close()


def view_of(run: Path) -> View:
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    lines = [line for line in LineTail(run / "metrics.jsonl").read_new() if set(line["roles"].values()) == {"ok"}]
    record = lines[-1]
    evals = [line for line in LineTail(run / "eval.jsonl").read_new() if line["wall_s"] <= record["wall_s"]]
    header = {name: config[name] for name in ("env", "algo", "device", "seed", "steps", "seconds", "until_return")}
    roles = [Role(name, state) for name, state in record["roles"].items()]
    return View(Header(run_dir=f"runs/{run.name}", **header), record, roles, evals)


def save(picture: Any, name: str) -> None:
    """In 256 colours: a third of the bytes."""
    picture.convert("RGB").quantize(256).save(IMAGES / f"{name}.png", optimize=True)
