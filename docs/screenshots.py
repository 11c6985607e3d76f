"""The README's pictures: `make screenshots`, or `python docs/screenshots.py [RUNS]`.

RUNS: a folder with runs that are over; without one, some are trained first. One more run trains while the pictures are
taken, so that they show it live. Needs the system's Chromium.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pictures import take_report, take_terminal
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SPREEZE = [sys.executable, "-m", "spreeze"]
LIVE_ENV, LIVE_S = "HalfCheetah-v5", 45.0
DESK, PHONE = {"width": 1280, "height": 860}, {"width": 360, "height": 760}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spreeze-") as folder:
        runs = Path(folder) / "runs"
        if len(sys.argv) > 1:
            shutil.copytree(sys.argv[1], runs)
        else:
            train_some(runs)
        take_report([config.parent for config in sorted(runs.glob("*/config.json"))])
        dashboard = ["dashboard", str(runs), "--port", "0", "--no-open"]
        with (
            program("train", LIVE_ENV, "--run-dir", str(runs / "live"), "--visualize", "web", "--quiet"),
            program(*dashboard, stdout=subprocess.PIPE) as server,
            sync_playwright() as playwright,
        ):
            assert server.stdout is not None
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
            take_all(browser, server.stdout.readline().decode().strip())
            take_terminal(browser, runs / "live")
            browser.close()


def train_some(runs: Path) -> None:
    for algo, seed in (("sac", 0), ("sac", 1), ("sac", 2), ("td3", 0), ("td3", 1)):
        limits = ["--seconds", "40", "--replay-ratio", "8", "--seed", str(seed), "--algo", algo]
        run = [*SPREEZE, "train", "Pendulum-v1", "--run-dir", str(runs / f"pendulum-{algo}-{seed}"), "--quiet", *limits]
        subprocess.run(run, check=True)


def take_all(browser: Browser, link: str) -> None:
    first = True
    for scheme in ("dark", "light"):
        for name, size in (("desk", DESK), ("phone", PHONE)):
            page = open_page(browser, link, scheme, size)
            page.wait_for_selector(".charts path.line")
            if first:
                page.wait_for_timeout(LIVE_S * 1000)  # the live run gets somewhere
                first = False
            page.wait_for_timeout(1500)
            take(page, f"runs-{scheme}-{name}")
            page.locator("table.runs tbody tr", has_text="live").get_by_role("link").click()
            page.wait_for_selector(".return path.line", state="attached")
            page.locator(".picture").scroll_into_view_if_needed()  # it plays where it is seen
            page.wait_for_selector("canvas[data-stamp]")
            page.wait_for_timeout(1500)
            if size is DESK:
                page.evaluate("scrollTo(0, 0)")
            take(page, f"run-{scheme}-{name}")
            page.context.close()


def take(page: Page, name: str) -> None:
    """In 256 colours: a third of the bytes."""
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(256).save(IMAGES / f"{name}.png", optimize=True)


def open_page(browser: Browser, link: str, scheme: Any, size: Any) -> Page:
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
    page.goto(link)
    return page


@contextlib.contextmanager
def program(*words: str, stdout: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([*SPREEZE, *words], stdout=stdout)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        started.wait()


if __name__ == "__main__":
    main()
