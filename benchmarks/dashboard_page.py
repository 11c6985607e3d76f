"""How fast the dashboard's page is there, how soon it follows, and what it keeps in the browser.

    python benchmarks/dashboard_page.py                  a run of 10 hours among 20 runs
    python benchmarks/dashboard_page.py --follow 3600    and an hour of following it, a line a second
    python benchmarks/dashboard_page.py --all-long       20 runs of 10 hours each

Drives the system's Chromium. Prints one JSON document: seconds until list and long run are drawn (`list_s`: from the
address to curves of all runs; `run_s`: from the click to all points), seconds from a line in metrics.jsonl to its
point on the page, and MB of the page's processes at the end of following.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page, sync_playwright

LONG, SHORT, RUNS = 36_000, 1_800, 20
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
FOLLOWED = 20  # lines, each timed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--follow", type=float, default=30.0, help="seconds")
    parser.add_argument("--all-long", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        for number in range(RUNS):
            make_run(runs / f"run-{number:02}", LONG if number == 0 or options.all_long else SHORT, number)
        server = subprocess.Popen(
            [sys.executable, "-m", "spreeze", "dashboard", folder, "--port", "0", "--no-open"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            print(json.dumps(measure(server.stdout.readline().strip(), runs / "run-00", options.follow), indent=2))
        finally:
            server.terminate()
            server.wait()


def measure(link: str, long_run: Path, follow_s: float) -> dict[str, Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        page = browser.new_context(bypass_csp=True).new_page()  # waiting for a function needs eval
        page.goto("about:blank")
        began = time.monotonic()
        page.goto(link)
        page.wait_for_selector("table.runs tbody tr")
        rows_s = time.monotonic() - began
        page.wait_for_function("document.querySelectorAll('.charts path.line').length > 0")
        list_s = time.monotonic() - began
        began = time.monotonic()
        page.get_by_role("link", name="run-00").click()
        page.wait_for_selector(".return path.line", state="attached")
        first_s = time.monotonic() - began
        page.wait_for_selector(".reading", state="hidden")
        run_s = time.monotonic() - began
        delays = [follow_one(page, long_run, LONG + number) for number in range(1, FOLLOWED + 1)]
        lines = LONG + FOLLOWED
        end = time.monotonic() + follow_s
        while time.monotonic() < end:
            lines += 1
            append(long_run, lines)
            time.sleep(1.0)
        page.wait_for_timeout(1000)
        found = {
            "list_rows_s": round(rows_s, 3),
            "list_s": round(list_s, 3),
            "run_first_curve_s": round(first_s, 3),
            "run_s": round(run_s, 3),
            "follow_s_median": round(statistics.median(delays), 3),
            "follow_s_max": round(max(delays), 3),
            "followed_s": follow_s,
            "page_mb": page_mb(),
            "heap_mb": round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6, 1),
        }
        browser.close()
        return found


def follow_one(page: Page, run: Path, number: int) -> float:
    append(run, number)
    began = time.monotonic()
    clock = f"{number // 3600}:{number // 60 % 60:02}:{number % 60:02}"  # the tile with the run's time
    page.wait_for_function(f"document.querySelector('.tiles').textContent.includes('{clock}')")
    return time.monotonic() - began


def page_mb() -> float:
    """Private memory of the largest renderer: this page's."""
    sizes = [
        process.memory_full_info().uss
        for process in psutil.process_iter()
        if any("--type=renderer" in word for word in _words(process))
    ]
    return round(max(sizes) / 1e6, 1)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def make_run(folder: Path, lines: int, seed: int) -> None:
    folder.mkdir()
    config = {"env": "HalfCheetah-v5" if seed % 2 else "Walker2d-v5", "algo": "sac", "seed": seed, "auto": {}}
    (folder / "config.json").write_text(json.dumps(config))
    for name, line in (("metrics", metrics_line), ("eval", evaluation_line)):
        text = "".join(json.dumps(line(second)) + "\n" for second in range(1, lines + 1))
        (folder / f"{name}.jsonl").write_text(text)


def append(run: Path, number: int) -> None:
    for name, line in (("metrics", metrics_line), ("eval", evaluation_line)):
        with open(run / f"{name}.jsonl", "a") as file:
            file.write(json.dumps(line(number)) + "\n")


def metrics_line(second: int) -> dict[str, Any]:
    """With as many figures as a real line has."""
    wave = math.sin(second / 50)
    names = (
        "update_frames_hz", "replay_ratio", "transfer_hz", "transfer_age_ms_p50", "transfer_age_ms_p95",
        "weights_age_ms_p50", "weights_age_ms_p95", "staleness_updates_p50", "staleness_updates_p95", "ring_full_s",
        "cpu_pct", "gpu_pct", "episode_return_mean", "critic_loss", "actor_loss", "q_mean", "temperature", "entropy",
    )  # fmt: skip
    return {
        "wall_s": float(second), "env_steps": second * 20_000, "updates": second * 100, "update_hz": 120 + wave,
        "sample_hz": 20_000 + 500 * wave, "raw_hz": 31_000 - 300 * wave, **dict.fromkeys(names, 10 + wave),
        "weights_version": second, "batch_size": 8192, "samplers": 13, "envs_per_sampler": 16,
        "rss_bytes": 2_000_000_000, "gpu_bytes": None,
        "restarts": {f"sampler-{number}": 0 for number in range(13)}, "lost_rows": 0,
        "roles": {f"sampler-{number}": "ok" for number in range(13)},
    }  # fmt: skip


def evaluation_line(second: int) -> dict[str, Any]:
    mean = 10_000 * (1 - math.exp(-second / 5000))
    return {
        "wall_s": second + 0.5, "env_steps": second * 20_000, "updates": second * 100, "weights_version": second,
        "return_mean": mean, "return_std": 100.0, "return_min": mean - 200, "return_max": mean + 200,
        "length_mean": 1000.0, "episodes": 10,
    }  # fmt: skip


if __name__ == "__main__":
    main()
