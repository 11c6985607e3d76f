"""Progress on the terminal: a live panel, or plain lines where nobody looks at a terminal, or nothing.

What goes wrong with the terminal (closed, a broken pipe) ends the display, never the run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from spreeze.metrics.readable import clock, describe_event, one_line, pair, score, short, whole
from spreeze.metrics.view import Header, Role, View

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

PLAIN_EVERY_S = 5.0
DISK_REFUSES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the output goes to a file, and may again be taken later
_STATUS_GLYPHS = {"solved": ("✔", "bold green"), "finished": ("✔", "bold cyan"), "failed": ("✖", "bold red")}


class Display(Protocol):
    """open(), then show() about once a second, then close(). say() puts a lasting line out in between."""

    def open(self, header: Header) -> None: ...
    def show(
        self,
        record: Mapping[str, Any] | None,  # the latest line of metrics.jsonl; None before the first
        roles: Sequence[Role],
        evals: Sequence[Mapping[str, Any]],  # lines of eval.jsonl, thinned where they are many
        event: Mapping[str, Any] | None,  # the latest line of events.jsonl
    ) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self, summary: Mapping[str, Any] | None) -> None: ...  # None: ended before there was a summary


def make_display(quiet: bool, stream: TextIO) -> Display:
    if quiet:
        return QuietDisplay(stream)
    return TerminalDisplay(stream) if can_draw(stream) else PlainDisplay(stream)


def can_draw(stream: TextIO) -> bool:
    """A terminal that moves its cursor and knows the block characters."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "") and encoding == "utf8"


class QuietDisplay:
    """Silent, but for a run that failed: that is never only an exit code."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def open(self, header: Header) -> None:
        pass

    def show(self, record: Any, roles: Any, evals: Any, event: Any) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None and summary["status"] == "failed":
            with contextlib.suppress(OSError, ValueError):  # the reader is gone, or the stream was closed
                print(f"spreeze: failed: {one_line(str(summary['reason']))}", file=self._stream, flush=True)


class PlainDisplay:
    """A line every few seconds under the contract's names, and one for each event; ASCII, no colour."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self._header: Header | None = None
        self._next_s = 0.0
        self._event: Mapping[str, Any] | None = None

    def open(self, header: Header) -> None:
        self._header = header
        run = f"{header.env}, {header.algo}, {header.device}, seed {header.seed}"
        self.say(f"spreeze: {run}; run folder {header.run_dir}")

    def show(
        self,
        record: Mapping[str, Any] | None,
        roles: Sequence[Role],
        evals: Sequence[Mapping[str, Any]],
        event: Mapping[str, Any] | None,
    ) -> None:
        if event is not None and event != self._event:
            self._event = event
            self.say(f"{clock(event['wall_s']):>8}  {describe_event(event)}")
        assert self._header is not None, "open() comes before show()"
        if record and record["wall_s"] >= self._next_s:
            self._next_s = record["wall_s"] + PLAIN_EVERY_S
            self.say(plain_line(View(self._header, record, roles, evals, event)))

    def say(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write("".join(f"{one_line(line)}\n" for line in text.splitlines()))
            self._stream.flush()
        except OSError as error:
            if error.errno not in DISK_REFUSES:  # the reader is gone
                self._stream = None
        except ValueError:  # the stream was closed
            self._stream = None

    def close(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None and self._header is not None:
            self.say("\n".join(f"{label:<14}{value}" for label, value in result_lines(self._header, summary)))


class TerminalDisplay:
    """The live panel; rich is imported by open(), 0.1 s that only a terminal pays."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._header: Header | None = None
        self._live: Live | None = None
        self._size: tuple[int, int] | None = None  # columns and rows at the last drawing

    def open(self, header: Header) -> None:
        from rich.console import Console

        self._header = header
        self._live = _make_live(Console(file=self._stream, highlight=False))
        self._draw(View(header))

    def show(
        self,
        record: Mapping[str, Any] | None,
        roles: Sequence[Role],
        evals: Sequence[Mapping[str, Any]],
        event: Mapping[str, Any] | None,
    ) -> None:
        assert self._header is not None, "open() comes before show()"
        self._draw(View(self._header, record or {}, roles, evals, event))

    def say(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text

            self._keep_going(lambda live: live.console.print(Text("\n".join(map(one_line, text.splitlines())))))

    def close(self, summary: Mapping[str, Any] | None) -> None:
        self._keep_going(lambda live: live.stop())
        if summary is not None and self._header is not None:
            block = _result_text(result_lines(self._header, summary), str(summary["status"]))
            self._keep_going(lambda live: live.console.print(block, soft_wrap=True))  # a path is copied in one piece
        self._live = None

    def _draw(self, view: View) -> None:
        from spreeze.metrics.panel import render_panel

        def draw(live: Live) -> None:
            columns, rows = live.console.size
            if self._size not in (None, (columns, rows)):
                live = self._live = _begin_anew(live)
            self._size = columns, rows
            live.update(render_panel(view, columns, rows - 1))  # the last line of a terminal is the cursor's
            live.refresh() if live.is_started else live.start(refresh=True)

        self._keep_going(draw)

    def _keep_going(self, act: Callable[[Live], None]) -> None:
        if self._live is None:
            return
        try:
            act(self._live)
        except (OSError, ValueError):  # the terminal is gone, or the stream was closed
            self._live = None


def _make_live(console: Console) -> Live:
    from rich.live import Live

    return Live(console=console, auto_refresh=False, redirect_stdout=False, vertical_overflow="crop")


def _begin_anew(live: Live) -> Live:
    """After the terminal changed its size it has wrapped the old panel in its own way: nobody knows where that begins,
    so the screen is cleared."""
    live.stop()
    live.console.clear()
    return _make_live(live.console)


def plain_line(view: View) -> str:
    """'    0:42  env_steps 110,000  sample_hz 22,000 ...': the important figures of one moment."""
    values = [value for _, value in view.returns]
    figure = view.figure
    figures = [
        ("env_steps", whole(figure("env_steps"))),
        ("sample_hz", short(figure("sample_hz"))),
        ("update_hz", short(figure("update_hz"))),
        ("update_frames_hz", short(figure("update_frames_hz"))),
        ("replay_ratio", short(figure("replay_ratio"))),
        ("staleness_updates", pair(figure("staleness_updates_p50"), figure("staleness_updates_p95"))),
        ("return_mean", f"{score(values[-1])} (best {score(max(values))})" if values else score(None)),
    ]
    return f"{clock(view.wall_s):>8}  " + "  ".join(f"{name} {value}" for name, value in figures)


def result_lines(header: Header, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, value) of what a run came to, and what to do with it next."""
    lines = [("status", f"{summary['status']}: {one_line(str(summary['reason']))}")]
    if summary["best_return"] is not None:
        lines.append(("return", f"{score(summary['final_return'])} (best {score(summary['best_return'])})"))
    if summary["solved_at_s"] is not None:
        lines.append(("solved after", f"{summary['solved_at_s']:.1f} s"))
    lines += [
        ("env steps", whole(summary["env_steps"]) + _sampling_rate(summary)),
        ("updates", whole(summary["updates"]) + _update_rates(summary)),
        ("time", clock(summary["wall_s"])),
        ("run folder", one_line(header.run_dir)),
    ]
    steps = next_steps(header, summary, command_name(sys.argv[0]))
    return lines + [("next" if place == 0 else "", step) for place, step in enumerate(steps)]


def next_steps(header: Header, summary: Mapping[str, Any], command: str) -> list[str]:
    """What to type now; `command`: what starts Spreeze here."""
    run, trust = shlex.quote(header.run_dir), " --trust" if ":" in header.env else ""
    steps = []
    if summary["best_return"] is not None:  # there is a policy
        if header.env_is_kept:
            steps += [f"{command} eval {run}{trust}", "  or record, watch, report, export, dashboard"]
        else:
            steps.append(f"spreeze.load_policy({header.run_dir!r}) in Python")
    if summary["status"] == "stopped" and summary["updates"] and header.env_is_kept:
        steps.append(f"{command} resume {run}{trust}")
    return steps


def command_name(program: str) -> str:
    """What starts Spreeze as this process was started: the command of a checkout lies in .venv/bin, on few paths."""
    path = Path(program)
    if path.parts[-2:] == ("spreeze", "__main__.py"):
        return "python -m spreeze"
    found = shutil.which("spreeze")
    if path.name != "spreeze" or not path.is_file() or (found is not None and path.samefile(found)):
        return "spreeze"
    return shlex.quote(min(program, os.path.relpath(program), key=len))


def _sampling_rate(summary: Mapping[str, Any]) -> str:
    return "" if summary["sample_hz"] is None else f" ({short(summary['sample_hz'])} /s)"


def _update_rates(summary: Mapping[str, Any]) -> str:
    """Nothing where the run ended before there was a rate."""
    if summary["update_hz"] is None:
        return ""
    frames = f"batch {whole(summary['batch_size'])}, {short(summary['update_frames_hz'])} frames/s"
    return f" ({short(summary['update_hz'])} /s, {frames})"


def _result_text(lines: Sequence[tuple[str, str]], status: str) -> Text:
    from rich.text import Text

    glyph, style = _STATUS_GLYPHS.get(status, ("■", "bold yellow"))
    text = Text().append(f"\n {glyph} ", style=style)
    for place, (label, value) in enumerate(lines):
        text.append("" if place == 0 else "   ").append(f"{label:<14}", style="dim")
        text.append(f"{value}\n", style=style if place == 0 else "")
    return text
