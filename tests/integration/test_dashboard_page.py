"""The real page in a real browser, over a run that trains while the test looks."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import SRC, WITHIN_S, Run, wait_for

from spreeze.watching.live import LiveFiles

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'spreeze[dev]'")
Image = pytest.importorskip("PIL.Image", reason="pictures for the test are made with Pillow")
pytest.importorskip("uvicorn", reason="the dashboard's server is not installed: pip install 'spreeze[web]'")
pytest.importorskip("torch")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
HOSTILE = """<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>"""
WITHIN_MS = WITHIN_S * 1000


class Server:
    """`spreeze dashboard` as a program of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "spreeze", "dashboard", str(folder), "--port", "0", "--no-open", *flags]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(SRC)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        self.address, _, self.token = self.link.partition("#token=")

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(WITHIN_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    served = Server(folder)
    yield served
    served.process.kill()
    served.process.wait()


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Run]:
    started = Run(folder / "live")
    yield started
    started.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        sync_api.expect.set_options(timeout=WITHIN_MS)
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    contexts, complaints = [], []

    def open_page(link: str, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(WITHIN_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(link)
        return page

    yield open_page
    for context in contexts:
        context.close()
    refusals = "Failed to load resource: the server responded with a status of 40"  # a wrong token, as it should
    assert [said for said in complaints if not said.startswith(refusals)] == []


def chart_of(page: Any, title: str) -> Any:
    return page.locator("figure.chart", has=page.get_by_role("heading", name=title, exact=True))


def path_of(page: Any, chart: str) -> str | None:
    """The drawn line of the chart with that title."""
    found = chart_of(page, chart).locator("path.line")
    return found.last.get_attribute("d") if found.count() else None


def wait_for_moves(page: Any, *charts: str) -> None:
    before = {chart: wait_for(f"{chart} to appear", lambda chart=chart: path_of(page, chart)) for chart in charts}
    for chart in charts:
        wait_for(f"{chart} to move", lambda chart=chart: path_of(page, chart) not in (None, before[chart]))


def picture(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (32, 24), (shade, 255 - shade, 0)).save(file, "JPEG")
    return file.getvalue()


# The tests below follow one run from its start to its end: they are in order.


def test_a_run_appears_and_its_curves_move(server: Server, open_page: Callable[..., Any], request: Any) -> None:
    page = open_page(server.link)
    sync_api.expect(page.get_by_text("No runs here yet")).to_be_visible()
    run: Run = request.getfixturevalue("run")
    row = page.locator("table.runs tbody tr", has_text="live")
    sync_api.expect(row).to_be_visible()
    run.wait_learning()
    sync_api.expect(row.get_by_text("training")).to_be_visible()
    wait_for_moves(page, "Pendulum-v1")
    row.get_by_role("link").click()
    sync_api.expect(page.get_by_role("heading", name="Pendulum-v1")).to_be_visible()
    wait_for_moves(page, "Mean return", "Sampling", "Updates", "CPU")
    sync_api.expect(page.locator("table.roles tr", has_text="learner")).to_contain_text("ok")
    sync_api.expect(page.get_by_role("log")).to_contain_text("choice")
    sync_api.expect(page.get_by_role("heading", name="Chosen automatically, and why")).to_be_visible()


def test_the_picture_changes(server: Server, folder: Path, open_page: Callable[..., Any]) -> None:
    drawn = folder / "drawn"
    drawn.mkdir()
    (drawn / "config.json").write_text(json.dumps({"env": "Drawn-v0", "algo": "sac"}))
    live = LiveFiles(drawn)
    page = open_page(server.link)
    page.locator("table.runs tbody tr", has_text="drawn").get_by_role("link").click()
    color = "canvas => [...canvas.getContext('2d').getImageData(5, 5, 1, 1).data]"
    for shade in (20, 200, 90):
        live.write(picture(shade), {"state": "playing", "episode": 3, "episode_return": -12.5})

        def shows(shade: int = shade) -> bool:
            canvas = page.locator("canvas")
            return canvas.is_visible() and abs(canvas.evaluate(color)[0] - shade) < 8

        wait_for(f"the picture of shade {shade}", shows)
    sync_api.expect(page.locator(".picture .caption")).to_contain_text("episode 3")


def test_the_picture_of_the_run_starts_and_stops(server: Server, run: Run, open_page: Callable[..., Any]) -> None:
    pytest.importorskip("pygame", reason="what draws Pendulum is not installed: pip install 'spreeze[video]'")
    page = open_page(server.link)
    page.locator("table.runs tbody tr", has_text="live").get_by_role("link").click()
    page.get_by_role("button", name="Start the picture").click()
    stamp = wait_for("a picture", lambda: stamp_of(page))
    wait_for("another picture", lambda: stamp_of(page) != stamp)
    page.get_by_role("button", name="Stop the picture").click()
    sync_api.expect(page.get_by_role("button", name="Start the picture")).to_be_visible()
    assert page.locator("canvas").is_visible(), "the last picture stays"


def stamp_of(page: Any) -> str | None:
    return page.locator("canvas").get_attribute("data-stamp")


def test_a_wrong_token_is_refused_and_the_right_one_acts(
    server: Server, run: Run, open_page: Callable[..., Any]
) -> None:
    page = open_page(server.address)
    page.locator("table.runs tbody tr", has_text="live").get_by_role("link").click()
    page.get_by_role("button", name="Save a checkpoint").click()
    page.locator("#token").fill("not-this-one")
    page.get_by_role("button", name="Go on").click()
    sync_api.expect(page.get_by_role("alert")).to_contain_text("wrong token")
    assert not checkpoints_asked(run)
    page.locator("#token").fill(server.token)
    page.keyboard.press("Enter")
    wait_for("the run to hear of it", lambda: checkpoints_asked(run))
    sync_api.expect(page.get_by_role("log")).to_contain_text("a checkpoint was asked for by the dashboard")
    assert server.token not in page.url


def checkpoints_asked(run: Run) -> list[dict[str, Any]]:
    return [event for event in run.events("request") if event["request"] == "checkpoint"]


def test_a_hostile_name_is_harmless(server: Server, folder: Path, open_page: Callable[..., Any]) -> None:
    bad = folder / HOSTILE.replace("/", "\u2215")
    bad.mkdir()
    (bad / "config.json").write_text(
        json.dumps({"env": HOSTILE, "algo": HOSTILE, "auto": {HOSTILE: {"reason": HOSTILE}}})
    )
    (bad / "events.jsonl").write_text(
        json.dumps({"wall_s": 1, "kind": HOSTILE, "role": HOSTILE, "reason": HOSTILE}) + "\n"
    )
    (bad / "metrics.jsonl").write_text(json.dumps({"wall_s": 1, "env_steps": 2, "roles": {HOSTILE: HOSTILE}}) + "\n")
    (bad / "eval.jsonl").write_text(json.dumps({"wall_s": 1, "env_steps": 2, "return_mean": 1}) + "\n")
    page = open_page(server.link)
    row = page.locator("table.runs tbody tr", has_text="window.hurt")
    sync_api.expect(row.locator("td").nth(2)).to_have_text(HOSTILE)
    sync_api.expect(page.get_by_role("heading", name="<img").first).to_be_visible()
    row.get_by_role("link").click()
    sync_api.expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    sync_api.expect(page.get_by_role("log")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, main script").count() == 0


def test_narrow_and_by_keyboard(server: Server, run: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(server.link, viewport={"width": 360, "height": 740}, color_scheme="dark")
    width = "document.documentElement.scrollWidth"
    page.locator("table.runs tbody tr", has_text="live").get_by_role("link").wait_for()
    assert page.evaluate(width) <= 360
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    theme = page.get_by_role("button", name="Theme")
    theme.focus()
    for _ in range(2):  # auto, dark, light
        page.keyboard.press("Enter")
    assert page.evaluate(ground) != dark
    page.locator("table.runs tbody tr", has_text="live").get_by_role("link").focus()
    page.keyboard.press("Enter")
    plot = page.get_by_role("group", name="Mean return")
    plot.focus()
    wait_for("a curve", lambda: path_of(page, "Mean return"))
    page.keyboard.press("ArrowLeft")
    sync_api.expect(plot.get_by_role("status")).to_contain_text("evaluation")
    assert page.evaluate(width) <= 360


def test_seeds_become_one_curve(server: Server, open_page: Callable[..., Any]) -> None:
    page = open_page(server.address)
    page.locator("table.runs tbody tr").first.wait_for()
    together = """async (curves) => (await import("/static/series.js")).together(curves)"""
    made = page.evaluate(together, [{"x": [0, 10], "y": [0, 10]}, {"x": [0, 10], "y": [10, 20]}])
    middle = made["x"].index(5)
    assert [made[name][middle] for name in ("y", "low", "high")] == [10, 5, 15]
    # one of three is alone at the end: no mean there; a single seed is itself
    made = page.evaluate(
        together, [{"x": [0, 10], "y": [1, 1]}, {"x": [0, 5], "y": [3, 3]}, {"x": [0, 5], "y": [2, 2]}]
    )
    assert max(made["x"]) == 5
    assert made["y"][0] == 2
    assert page.evaluate(together, [{"x": [], "y": []}, {"x": [1, 2], "y": [3, 4]}])["y"][-1] == 4


def highest(chart: Any, line: str) -> float:
    """The place of a line's highest point; the plot's top is 0."""
    return min(float(y) for y in re.findall(r"[ML]\S+ ([-\d.]+)", chart.locator(line).get_attribute("d")))


@pytest.mark.parametrize(
    ("name", "raw", "limit", "tip"),
    [
        ("near", {"raw_hz": 200.0}, "raw: the environments alone 200", ["Sampling103", "raw200"]),
        ("far", {"raw_hz": 9000.0}, "raw: the environments alone 9 k↑", ["Sampling103", "raw9 k"]),
        ("unknown", {"raw_hz": None}, "fastest so far 103", ["Sampling103"]),
        ("older", {}, "fastest so far 103", ["Sampling103"]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}])
def test_sampling_beside_its_limit(
    server: Server, folder: Path, open_page: Callable[..., Any], options: Any, name: str, raw: dict[str, Any],
    limit: str, tip: list[str],
) -> None:  # fmt: skip
    run = folder / f"raw-{name}"
    run.mkdir(exist_ok=True)
    (run / "config.json").write_text(json.dumps({"env": "Drawn-v0", "algo": "sac"}))
    lines = [{"wall_s": n, "env_steps": 100 * n, "sample_hz": 100.0 + n, "update_hz": 5.0} for n in (1, 2, 3)]
    (run / "metrics.jsonl").write_text("".join(json.dumps({**line, **raw}) + "\n" for line in lines))
    page = open_page(server.link, **options)
    page.locator("table.runs tbody tr", has_text=run.name).get_by_role("link").click()
    chart = chart_of(page, "Sampling")
    sync_api.expect(chart.locator(".legend li")).to_have_text(["Sampling", limit])
    assert chart.locator("path.limit").count() == len(tip) - 1
    if name == "near":
        assert 0 < highest(chart, "path.limit") < highest(chart, "path.line")
    if name == "far":
        assert highest(chart, "path.limit") < 0 < highest(chart, "path.line") < 30  # the plot is not stretched for it
    chart.get_by_role("group", name="Sampling").focus()
    page.keyboard.press("End")
    sync_api.expect(chart.locator(".tip div")).to_have_text(tip)
    sync_api.expect(chart_of(page, "Updates").locator(".legend li")).to_have_text(["Updates", "fastest so far 5"])
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_stop_stops(server: Server, run: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(server.link)
    page.locator("table.runs tbody tr", has_text="live").get_by_role("link").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop it").click()
    assert run.wait_end() == 0
    assert run.summary()["status"] == "stopped"
    sync_api.expect(page.locator(".title .badge")).to_have_text("stopped")
    sync_api.expect(page.get_by_role("button", name="Save a checkpoint")).to_be_hidden()
    run.assert_nobody_left()


def test_ctrl_c_and_a_port_in_use(tmp_path: Path) -> None:
    first = Server(tmp_path)
    port = first.address.rstrip("/").rpartition(":")[2]
    second = Server(tmp_path, "--port", port)
    assert second.process.wait(WITHIN_S) == 2
    assert f"--port {port}: in use on 127.0.0.1" in second.process.stderr.read()
    assert first.end() == 130
    assert "Traceback" not in first.process.stderr.read()
