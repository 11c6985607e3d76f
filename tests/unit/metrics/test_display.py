"""The display on a terminal, on a file, and quiet; the panel as plain text in every size."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spreeze.metrics.curve import draw_curve, hold_by_column, level_of
from spreeze.metrics.display import (
    PLAIN_EVERY_S,
    PlainDisplay,
    QuietDisplay,
    command_name,
    make_display,
    next_steps,
    plain_line,
)
from spreeze.metrics.panel import WIDEST, group_roles, render_panel
from spreeze.metrics.readable import clock, one_line, pair, score, short, size
from spreeze.metrics.view import Header, Role, View

HEADER = Header("HalfCheetah-v5", "sac", "cuda:0", 0, "runs/HalfCheetah-v5-sac-1", seconds=60.0, until_return=10_000.0)
RECORD: dict[str, Any] = {
    "wall_s": 42.3, "env_steps": 7_345_678, "updates": 48_123, "sample_hz": 221034.2, "update_hz": 1350.4,
    "update_frames_hz": 11.06e6, "replay_ratio": 50.05, "transfer_age_ms_p50": 12.3, "transfer_age_ms_p95": 31.2,
    "weights_version": 1203, "weights_age_ms_p50": 45.1, "weights_age_ms_p95": 90.2, "staleness_updates_p50": 31.0,
    "staleness_updates_p95": 92.0, "ring_full_s": 0.0, "batch_size": 8192, "samplers": 14, "envs_per_sampler": 64,
    "cpu_pct": 1532.3, "gpu_pct": 93.0, "rss_bytes": 4_120_000_000, "gpu_bytes": 9_210_000_000,
    "episode_return_mean": 8400.2, "restarts": {"sampler-3": 2}, "lost_rows": 0,
}  # fmt: skip
EVALS = [{"wall_s": 5.0 * n, "return_mean": -280.0 + 1000 * n} for n in range(1, 9)]
ROLES = [Role("learner", "ok"), Role("evaluator", "silent")] + [Role(f"sampler-{k}", "ok") for k in range(14)]
EVENT = {"wall_s": 40.1, "kind": "restart", "role": "sampler-3", "reason": "exit code -9"}
SUMMARY = {
    "status": "solved", "reason": "return 10,012 reached", "wall_s": 36.2, "solved_at_s": 35.21, "env_steps": 7_345_678,
    "updates": 48_123, "batch_size": 8192, "sample_hz": 221034.2, "update_hz": 1350.4, "update_frames_hz": 11.06e6,
    "best_return": 10_012.0, "final_return": 10_012.0,
}  # fmt: skip
OTHERS = "  or record, watch, report, export, dashboard"
FULL = View(HEADER, RECORD, ROLES, EVALS, EVENT)


def text_of(view: View, width: int, height: int) -> list[str]:
    console = Console(width=max(width, 1), file=io.StringIO(), color_system=None)
    console.print(render_panel(view, width, height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [1, 10, 25, 34, 40, 52, 60, 79, 80, 112, 120, 132, 200])
@pytest.mark.parametrize("height", [1, 3, 6, 8, 10, 16, 24, 40])
@pytest.mark.parametrize("view", [View(HEADER), FULL, replace(FULL, header=replace(HEADER, until_return=None))])
def test_the_panel_fits_every_terminal(view: View, width: int, height: int) -> None:
    lines = text_of(view, width, height)
    assert len(lines) <= height
    if len(lines) > 1:
        assert {len(line) for line in lines} == {min(width, WIDEST)}  # the frame is straight


@pytest.mark.parametrize(("width", "height"), [(60, 40), (80, 24), (120, 40), (200, 50)])
def test_the_panel_tells_what_people_look_for(width: int, height: int) -> None:
    text = "\n".join(text_of(FULL, width, height))
    for part in (
        "HalfCheetah-v5", "sac", "cuda:0", "training", "0:42", "until 1:00 or return 10,000", "return 7,720",
        "7,345,678", "221,034 /s", "1,350 /s", "11.1 M /s", "replay ratio", "12 / 31 ms", "31 / 92 upd", "45 / 90 ms",
        "14 x 64 envs", "8,400", "1,532 %", "4.12 GB", "█", "● learner", "◐ evaluator silent", "● samplers 0-13",
        "restart sampler-3: exit code -9", "runs/HalfCheetah-v5-sac-1",
    ):  # fmt: skip
        assert part in text


def test_a_low_terminal_keeps_returns_roles_and_the_main_rates() -> None:
    text = "\n".join(text_of(FULL, 80, 10))
    for part in ("return 7,720", "env steps 7.35 M", "221,034 /s", "● learner", "exit code -9"):
        assert part in text


def test_what_comes_from_elsewhere_cannot_command_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;gotcha\x07[red]x\nnext"
    view = View(replace(HEADER, env=evil, run_dir=evil), RECORD, ROLES, EVALS, {**EVENT, "reason": evil})
    lines = text_of(view, 80, 24)
    assert not any("\x1b" in line or "\x07" in line for line in lines)
    assert "[red]x" in "\n".join(lines)
    assert len(lines) <= 24


def test_curve_by_hand() -> None:
    points = [(2.0, 0.0), (5.0, 50.0), (7.0, 100.0)]
    assert draw_curve(points, width=5, height=1, end=10.0, low=0.0, high=100.0) == [" ▁▅██"]
    assert draw_curve(points, width=5, height=2, end=10.0, low=0.0, high=100.0) == ["  ▁██", " ▁███"]


def test_a_column_shows_the_latest_value_at_its_end() -> None:
    assert hold_by_column([(1.0, 5.0), (1.5, 6.0), (4.0, 7.0)], width=3, end=6.0) == [6.0, 6.0, 7.0]
    assert hold_by_column([(0.0, 5.0)], width=2, end=0.0) == [5.0, 5.0]
    assert hold_by_column([], width=2, end=1.0) == [None, None]


def test_levels_run_from_one_eighth_to_full() -> None:
    assert [level_of(value, 1, 0.0, 1.0) for value in (None, -1.0, 0.0, 1.0, 2.0)] == [0, 1, 1, 8, 8]
    assert level_of(3.0, 1, 3.0, 3.0) == 5  # a flat curve stands in the middle


def test_roles_that_fare_alike_stand_together() -> None:
    roles = [Role("learner", "ok"), Role("sampler-0", "ok"), Role("sampler-1", "ok"), Role("sampler-2", "dead", 3)]
    roles += [Role("sampler-3", "ok"), Role("sampler-4", "ok"), Role("sampler-5", "ok", 1)]
    assert group_roles(roles) == [
        Role("learner", "ok"),
        Role("samplers 0-1, 3-4", "ok"),
        Role("sampler-2", "dead", 3),
        Role("sampler-5", "ok", 1),
    ]


@pytest.mark.parametrize(
    ("record", "roles", "phase"),
    [
        ({}, [], "starting"),
        ({"env_steps": 10, "updates": 0}, [], "collecting"),
        ({"env_steps": 10, "updates": 1}, [], "training"),
        ({"env_steps": 10, "updates": 1}, [Role("learner", "stopping")], "stopping"),
    ],
)
def test_phase(record: dict[str, Any], roles: list[Role], phase: str) -> None:
    assert View(HEADER, record, roles).phase == phase


def test_progress_is_that_of_the_nearest_limit() -> None:
    header = replace(HEADER, seconds=100.0, steps=1000)
    assert View(header, {"wall_s": 20.0, "env_steps": 900}).progress == 0.9
    assert View(header, {"wall_s": 200.0, "env_steps": 900}).progress == 1.0
    assert View(replace(header, seconds=None, steps=None), RECORD).progress is None


def test_readable_numbers() -> None:
    assert [short(value) for value in (None, 0.0, 2.431, 93.4, 221034.2, 11.06e6, 2.5e9)] == [
        "-", "0", "2.43", "93.4", "221,034", "11.1 M", "2.50 G",
    ]  # fmt: skip
    assert [score(value) for value in (None, -0.5, -145.23, 9812.4, 4.2e7)] == [
        "-",
        "-0.50",
        "-145.2",
        "9,812",
        "42.0 M",
    ]
    assert [clock(value) for value in (None, 42.9, 725, 10931)] == ["-", "0:42", "12:05", "3:02:11"]
    assert [size(value) for value in (None, 7.3e8, 4.12e9, 1.39e11)] == ["-", "730 MB", "4.12 GB", "139 GB"]
    assert [pair(3.0, 9.25), pair(12.3, 31.2), pair(None, 1.0)] == ["3 / 9.2", "12 / 31", "-"]
    assert one_line("a\nb\x1bc") == "a b c"


def test_plain_lines_come_every_few_seconds_and_events_at_once() -> None:
    stream = io.StringIO()
    display = make_display(quiet=False, stream=stream)
    assert isinstance(display, PlainDisplay)
    display.open(HEADER)
    display.show(None, ROLES, [], None)
    for second in range(1, 1 + int(2 * PLAIN_EVERY_S)):
        display.show({**RECORD, "wall_s": float(second)}, ROLES, EVALS, EVENT if second >= 3 else None)
    display.close(SUMMARY)
    text = stream.getvalue()
    assert text.isascii()
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "spreeze: HalfCheetah-v5, sac, cuda:0, seed 0; run folder runs/HalfCheetah-v5-sac-1"
    assert [line[:8] for line in lines[1:4]] == ["    0:01", "    0:40", "    0:06"]
    assert " ".join(lines[1].split()) == (
        "0:01 env_steps 7,345,678 sample_hz 221,034 update_hz 1,350 update_frames_hz 11.1 M replay_ratio 50 "
        "staleness_updates 31 / 92 return_mean 7,720 (best 7,720)"
    )
    assert lines[4:] == [
        "status        solved: return 10,012 reached",
        "return        10,012 (best 10,012)",
        "solved after  35.2 s",
        "env steps     7,345,678 (221,034 /s)",
        "updates       48,123 (1,350 /s, batch 8,192, 11.1 M frames/s)",
        "time          0:36",
        "run folder    runs/HalfCheetah-v5-sac-1",
        "next          spreeze eval runs/HalfCheetah-v5-sac-1",
        "                or record, watch, report, export, dashboard",
    ]


def test_a_run_that_failed_early_has_a_result_too() -> None:
    stream = io.StringIO()
    display = make_display(quiet=False, stream=stream)
    display.open(replace(HEADER, run_dir="runs/my run"))
    unknown = dict.fromkeys(
        ("solved_at_s", "sample_hz", "update_hz", "update_frames_hz", "best_return", "final_return")
    )
    display.close({**SUMMARY, **unknown, "status": "failed", "reason": "learner: exit code 1", "updates": 0})
    assert "status        failed: learner: exit code 1\n" in stream.getvalue()
    assert "env steps     7,345,678\nupdates       0\ntime" in stream.getvalue()
    assert "next" not in stream.getvalue()


@pytest.mark.parametrize(
    ("header", "summary", "steps"),
    [
        ({}, {}, ["spreeze eval 'my runs/a'", OTHERS]),
        (
            {"env": "mine:make"},
            {},
            ["spreeze eval 'my runs/a' --trust", OTHERS],
        ),
        ({"env_is_kept": False}, {}, ["spreeze.load_policy('my runs/a') in Python"]),
        ({}, {"best_return": None}, []),
        ({}, {"best_return": None, "status": "stopped"}, ["spreeze resume 'my runs/a'"]),
        ({"env_is_kept": False}, {"best_return": None, "status": "stopped"}, []),
    ],
)
def test_what_to_type_next(header: dict[str, Any], summary: dict[str, Any], steps: list[str]) -> None:
    assert next_steps(replace(HEADER, run_dir="my runs/a", **header), {**SUMMARY, **summary}, "spreeze") == steps


def test_the_command_is_named_as_it_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path, beside = tmp_path / "bin" / "spreeze", tmp_path / "checkout" / ".venv" / "bin" / "spreeze"
    for path in (on_path, beside):
        path.parent.mkdir(parents=True)
        path.write_text("")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.chdir(tmp_path / "checkout")
    assert command_name(str(on_path)) == "spreeze"
    assert command_name(".venv/bin/spreeze") == ".venv/bin/spreeze"
    assert command_name(str(beside)) == ".venv/bin/spreeze"
    assert command_name("/site/spreeze/__main__.py") == "python -m spreeze"
    assert command_name("my_script.py") == "spreeze"


def test_quiet_is_silent_unless_the_run_failed() -> None:
    stream = io.StringIO()
    display = make_display(quiet=True, stream=stream)
    assert isinstance(display, QuietDisplay)
    display.open(HEADER)
    display.show(RECORD, ROLES, EVALS, EVENT)
    display.say("nobody hears this")
    display.close(SUMMARY)
    assert stream.getvalue() == ""
    display.close({**SUMMARY, "status": "failed", "reason": "learner: exit code 1"})
    assert stream.getvalue() == "spreeze: failed: learner: exit code 1\n"


def test_a_reader_that_went_away_ends_the_display_only() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", buffering=1)
    display = make_display(quiet=False, stream=stream)
    display.open(HEADER)
    display.show(RECORD, ROLES, EVALS, EVENT)
    display.close(SUMMARY)
    with pytest.raises(BrokenPipeError):
        stream.close()


class FullDisk(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_output_into_a_file_comes_back_when_the_disk_has_room_again() -> None:
    stream = FullDisk()
    display = make_display(quiet=False, stream=stream)
    display.open(HEADER)
    display.show(RECORD, ROLES, EVALS, EVENT)
    stream.full = False
    display.close(SUMMARY)
    assert "run folder" in stream.getvalue()


BEGINNING = """
import sys
from spreeze.metrics.display import make_display
from test_display import EVALS, EVENT, HEADER, RECORD, ROLES, SUMMARY
display = make_display(quiet=False, stream=sys.stderr)
display.open(HEADER)
"""
CLEAR = "\x1b[2J"
PROGRAM = f"""{BEGINNING}
display.show(None, ROLES, [], None)
display.say("samplers: 14, one a core")
display.show(RECORD, ROLES, EVALS, EVENT)
display.close(SUMMARY)
"""


def run_on_a_terminal(env: dict[str, str], program: str = PROGRAM, **more: str) -> str:
    """What a program with the display writes to a terminal of 80 columns and 30 lines."""
    terminal, theirs = pty.openpty()
    variables = {**env, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "30", **more}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, "-c", program], stdin=quiet, stdout=quiet, stderr=theirs, env=variables)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(terminal, 65536):
            written += part
    except OSError:
        pass  # Linux's way to say that the other end was closed
    finally:
        os.close(terminal)
    assert process.wait() == 0
    return written.decode()


def test_a_terminal_gets_the_live_panel_and_then_the_result(child_env: dict[str, str]) -> None:
    written = run_on_a_terminal(child_env)
    assert "samplers: 14, one a core" in written
    assert "╭─" in written
    assert "█" in written
    assert "✔" in written
    assert "\x1b[38" in written  # colours
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor came back
    assert "spreeze eval runs/HalfCheetah-v5-sac-1" in written


RESIZED = f"""
import fcntl, struct, termios
def resize(columns):
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("4H", 30, columns, 0, 0))
resize(80)
{BEGINNING}
for columns in (80, 60, 60):
    resize(columns)
    display.show(RECORD, ROLES, EVALS, EVENT)
display.close(SUMMARY)
"""


def test_a_terminal_that_changed_its_size_is_cleared_of_the_old_panel(child_env: dict[str, str]) -> None:
    written = run_on_a_terminal(child_env, RESIZED, COLUMNS="", LINES="")  # it is asked for its size
    panels = re.sub(r"\x1b\[[\d;]*m", "", written).split("\x1b[2J")
    widths = [{len(line) for line in re.findall("╭.*╮", part)} for part in panels]
    assert len(widths) == 2, "cleared once, at the change"
    assert 80 in widths[0]
    assert widths[1] == {60}


def test_no_color_is_respected(child_env: dict[str, str]) -> None:
    written = run_on_a_terminal(child_env, NO_COLOR="1")
    assert "╭─" in written
    colours = [code for codes in re.findall(r"\x1b\[([\d;]*)m", written) for code in codes.split(";")]
    assert not [code for code in colours if code.startswith(("3", "4", "9")) and len(code) > 1]


def test_a_dumb_terminal_gets_plain_lines(child_env: dict[str, str]) -> None:
    written = run_on_a_terminal(child_env, TERM="dumb")
    assert "╭" not in written
    assert "\x1b" not in written
    assert "env_steps 7,345,678" in written


def test_plain_line_before_the_first_evaluation() -> None:
    assert plain_line(View(HEADER, {"wall_s": 1.0, "env_steps": 5})).endswith("return_mean -")
