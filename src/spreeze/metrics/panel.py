"""The progress panel as rich text. Pure: a view and a size in, a renderable out; it fits that size or is cut to it.

╭─ spreeze  HalfCheetah-v5  sac  cuda:0  seed 0 ─────╮
│ phase, elapsed, bar, limit                         │
│ returns in words                                   │
│ curve of evaluation returns, in what height is left│
│ figures, in as many columns as fit                 │
│ roles with their health                            │
│ last event                                         │
╰──────────────────────────────────────── run folder ╯
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest

from rich import box
from rich.panel import Panel
from rich.text import Text

from spreeze.metrics.curve import draw_curve
from spreeze.metrics.readable import clock, describe_event, one_line, pair, score, short, size, whole, with_unit
from spreeze.metrics.view import Role, State, View

WIDEST = 132
_FRAME_ROWS, _FRAME_COLUMNS = 2, 4
_CURVE_ROWS = (3, 8)  # at least, at most
_AXIS_ROWS = 2  # the times below the curve, an empty line above it
_COLUMN_GAP = 3
_GLYPHS: dict[State, tuple[str, str]] = {
    "starting": ("○", "cyan"),
    "ok": ("●", "green"),
    "parked": ("◦", "dim"),
    "silent": ("◐", "yellow"),
    "restarting": ("◔", "yellow"),
    "stopping": ("◌", "cyan"),
    "ended": ("◌", "dim"),
    "dead": ("✖", "red"),
}
_PHASE_STYLES = {"starting": "cyan", "collecting": "cyan", "training": "bold green", "stopping": "yellow"}
_EVENT_STYLES = {"warning": "yellow", "restart": "yellow", "failure": "red", "error": "red"}
_LABEL, _VALUE = "dim", "bold"  # no grey by number: some colour schemes give it the background's colour
_CURVE_BOTTOM, _CURVE_TOP = (58, 110, 220), (64, 214, 150)  # red, green, blue
Cell = tuple[str, str]  # label, value


def render_panel(view: View, width: int, height: int) -> Panel | Text:
    """The whole panel; a single line where the terminal is too small for a frame."""
    width = min(width, WIDEST)
    inner = width - _FRAME_COLUMNS
    if inner < 30 or height < 6:
        return _fit(_summary_line(view), max(width, 1))
    body = _body(view, inner, height - _FRAME_ROWS)
    return Panel(
        Text("\n").join(_fit(line, inner) for line in body),
        title=_title(view, inner),
        title_align="left",
        subtitle=_shorten(one_line(view.header.run_dir), inner - 2, _LABEL),
        subtitle_align="right",
        border_style=_LABEL,
        box=box.ROUNDED,
        width=width,
    )


def _body(view: View, inner: int, rows: int) -> list[Text]:
    """What does not fit is left out, the machine's figures first; the curve takes what is left over."""
    top = [_progress_line(view, inner), _returns_line(view, inner)]
    bottom = [Text(), *_roles_lines(view.roles, inner), *_event_lines(view)]
    blocks = _figure_blocks(view, inner)
    while blocks and len(top) + _rows_of(blocks) + len(bottom) > rows:
        blocks.pop()
    middle = [line for block in blocks for line in (Text(), *block)] or [_in_a_line(_key_figures(view))]
    left = rows - len(top) - len(middle) - len(bottom) - _AXIS_ROWS
    curve = _curve_lines(view, inner, min(left, _CURVE_ROWS[1])) if left >= _CURVE_ROWS[0] else []
    body = [*top, *curve, *middle, *bottom]
    return body if len(body) <= rows else [line for line in body if line.plain][:rows]


def _rows_of(blocks: Sequence[Sequence[Text]]) -> int:
    return sum(len(block) + 1 for block in blocks)


def _title(view: View, inner: int) -> Text:
    header = view.header
    title = _piece("spreeze", "bold cyan not dim")
    title.append(f"  {one_line(header.env)}", style="bold not dim")
    for word in (header.algo, header.device, f"seed {header.seed}"):
        title.append(f"  {one_line(word)}", style="not dim")
    return _fit(title, inner - 2)


def _summary_line(view: View) -> Text:
    latest = view.returns[-1][1] if view.returns else None
    steps = f"{short(view.figure('env_steps'))} env steps"
    return Text(f"{clock(view.wall_s)}  return {score(latest)}  {steps}  {short(view.figure('sample_hz'))}/s")


def _progress_line(view: View, inner: int) -> Text:
    line = _piece(f"{view.phase:<10}", _PHASE_STYLES[view.phase])
    line.append(f"  {clock(view.wall_s)}", style=_VALUE)
    limit = _limit_words(view)
    share = view.progress
    if share is None:
        return line.append(f"  {limit}", style=_LABEL)
    bar = inner - line.cell_len - len(limit) - 4
    if bar >= 8:
        done = round(share * bar)
        line.append("  ").append("━" * done, style="cyan").append("─" * (bar - done), style=_LABEL)
    return line.append(f"  {limit}", style=_LABEL)


def _limit_words(view: View) -> str:
    header = view.header
    limits = [
        f"{clock(header.seconds)}" if header.seconds else "",
        f"{short(header.steps)} env steps" if header.steps else "",
        f"return {score(header.until_return)}" if header.until_return is not None else "",
    ]
    named = [limit for limit in limits if limit]
    return f"until {' or '.join(named)}" if named else "until Ctrl-C"


def _returns_line(view: View, inner: int) -> Text:
    values = [value for _, value in view.returns]
    cells = [
        ("return", score(values[-1] if values else None)),
        ("best", score(max(values, default=None))),
        ("target", score(view.header.until_return)),
    ]
    line = Text()
    for label, value in cells:
        if label == "target" and view.header.until_return is None:
            continue
        cell = _piece(f"{label} ", _LABEL).append(value, style="bold cyan" if label == "return" else _VALUE)
        if line.cell_len + cell.cell_len + 3 <= inner:
            line.append("   " if line else "").append(cell)
    return line


def _curve_lines(view: View, inner: int, rows: int) -> list[Text]:
    """Evaluation returns over the time since the start, with the target as a dotted line; then the axis."""
    points, target = view.returns, view.header.until_return
    if not points:
        return []
    levels = [value for _, value in points] + ([target] if target is not None else [])
    low, high = min(levels), max(levels)
    margin = max(len(score(low)), len(score(high)))
    width, end = inner - margin - 2, max(view.wall_s, points[-1][0])
    drawn = draw_curve(points, width, rows, end, low, high)
    names = [score(high), *[""] * (rows - 2), score(low)]
    target_row = None if target is None or high == low else round((high - target) / (high - low) * (rows - 1))
    lines = []
    for row, (name, blocks) in enumerate(zip(names, drawn, strict=True)):
        line = _piece(f"{name:>{margin}} {'┤' if name else '│'}", _LABEL)
        lines.append(line.append(_curve_row(blocks, _gradient(row, rows), dotted=row == target_row)))
    ends = f"0:00{clock(end):>{max(width - 4, 0)}}"
    return [Text(), *lines, Text(" " * (margin + 2) + ends, style=_LABEL)]


def _curve_row(blocks: str, color: str, dotted: bool) -> Text:
    row = Text()
    for empty, letters in groupby(blocks, key=" ".__eq__):
        part = "".join(letters)
        row.append("┄" * len(part) if dotted and empty else part, style="yellow" if empty else color)
    return row


def _gradient(row: int, rows: int) -> str:
    share = 1 - row / max(rows - 1, 1)
    mixed = (round(low + share * (high - low)) for low, high in zip(_CURVE_BOTTOM, _CURVE_TOP, strict=True))
    return "rgb({},{},{})".format(*mixed)


def _figure_blocks(view: View, inner: int) -> list[list[Text]]:
    """Groups of figures side by side: four, three with the machine in a line below, two by two, or one."""
    sampling, learning, lag, machine = _figure_groups(view)
    if inner >= 108:
        return [_columns([sampling, learning, lag, machine], inner)]
    if inner >= 74:
        return [_columns([sampling, learning, lag], inner), [_in_a_line(machine)]]
    if inner >= 48:
        return [_columns([sampling, learning], inner), _columns([lag, machine], inner)]
    return [_columns([[*sampling[:2], *learning[1:3], learning[4]]], inner)]


def _figure_groups(view: View) -> tuple[list[Cell], list[Cell], list[Cell], list[Cell]]:
    figure = view.figure
    sampling = [
        ("env steps", whole(figure("env_steps"))),
        ("sampling", with_unit(short(figure("sample_hz")), "/s")),
        ("samplers", with_unit(whole(figure("samplers")), f"x {whole(figure('envs_per_sampler'))} envs")),
        ("ring full", with_unit(short(figure("ring_full_s")), "s")),
        ("episode return", score(figure("episode_return_mean"))),
    ]
    learning = [
        ("updates", whole(figure("updates"))),
        ("updating", with_unit(short(figure("update_hz")), "/s")),
        ("frames", with_unit(short(figure("update_frames_hz")), "/s")),
        ("batch", whole(figure("batch_size"))),
        ("replay ratio", short(figure("replay_ratio"))),
    ]
    lag = [
        ("row age", _lag(view, "transfer_age_ms", "ms")),
        ("weights age", _lag(view, "weights_age_ms", "ms")),
        ("staleness", _lag(view, "staleness_updates", "upd")),
        ("weights", with_unit(whole(figure("weights_version")), "published")),
        ("lost rows", whole(figure("lost_rows"))),
    ]
    machine = [
        ("cpu", with_unit(whole(figure("cpu_pct")), "%")),
        ("memory", size(figure("rss_bytes"))),
        ("gpu", with_unit(whole(figure("gpu_pct")), "%")),
        ("gpu memory", size(figure("gpu_bytes"))),
    ]
    has_gpu = figure("gpu_pct") is not None
    return sampling, learning, lag, machine if has_gpu else machine[:2]


def _key_figures(view: View) -> list[Cell]:
    figure = view.figure
    return [
        ("env steps", short(figure("env_steps"))),
        ("sampling", with_unit(short(figure("sample_hz")), "/s")),
        ("updating", with_unit(short(figure("update_hz")), "/s")),
        ("ratio", short(figure("replay_ratio"))),
    ]


def _lag(view: View, name: str, unit: str) -> str:
    return with_unit(pair(view.figure(f"{name}_p50"), view.figure(f"{name}_p95")), unit)


def _columns(groups: Sequence[Sequence[Cell]], inner: int) -> list[Text]:
    """Side by side, the last column up to the frame."""
    width = (inner - _COLUMN_GAP * (len(groups) - 1)) // len(groups)
    widths = [width] * (len(groups) - 1) + [inner - (width + _COLUMN_GAP) * (len(groups) - 1)]
    rows = zip_longest(*groups, fillvalue=("", ""))
    return [Text(" " * _COLUMN_GAP).join(map(_cell, cells, widths)) for cells in rows]


def _cell(cell: Cell, width: int) -> Text:
    label, value = cell
    text = _piece(label, _LABEL)
    text.append(" " * max(1, width - len(label) - len(value))).append(value, style=_VALUE)
    return _fit(text, width)


def _in_a_line(cells: Iterable[Cell]) -> Text:
    return Text("   ").join(_piece(f"{label} ", _LABEL).append(value, style=_VALUE) for label, value in cells)


def _roles_lines(roles: Sequence[Role], inner: int) -> list[Text]:
    """At most two lines; samplers that fare alike stand together."""
    lines: list[Text] = []
    for part in map(_role_text, group_roles(roles)):
        if lines and lines[-1].cell_len + 3 + part.cell_len <= inner:
            lines[-1].append("   ").append(part)
        else:
            lines.append(part)
    if len(lines) > 2:
        lines = [lines[0], lines[1].append(" …")]
    return lines


def group_roles(roles: Sequence[Role]) -> list[Role]:
    """Samplers of one state and as many restarts become one entry, 'samplers 0-2, 4-13', at the place of the first."""
    groups: dict[tuple[str, State, int], list[str]] = {}
    for role in roles:
        kind, _, number = role.name.partition("-")
        groups.setdefault((kind, role.state, role.restarts), []).append(number)
    return [Role(_group_name(kind, numbers), state, restarts) for (kind, state, restarts), numbers in groups.items()]


def _group_name(kind: str, numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return f"{kind}-{numbers[0]}" if numbers[0] else kind
    runs: list[list[int]] = []
    for number in sorted(map(int, numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return f"{kind}s " + ", ".join("-".join(map(str, run)) for run in runs)


def _role_text(role: Role) -> Text:
    glyph, style = _GLYPHS[role.state]
    text = _piece(f"{glyph} ", style).append(role.name, style="")
    if role.state != "ok":
        text.append(f" {role.state}", style=style)
    if role.restarts:
        text.append(f" ({role.restarts} restart{'s' * (role.restarts > 1)})", style="yellow")
    return text


def _event_lines(view: View) -> list[Text]:
    if view.event is None:
        return []
    line = _piece(f"{clock(view.event['wall_s'])}  ", _LABEL)
    style = _EVENT_STYLES.get(str(view.event["kind"]), _LABEL)
    return [line.append(one_line(describe_event(view.event)), style=style)]


def _shorten(text: str, width: int, style: str) -> Text:
    """Keeps the end, which tells run folders apart."""
    return Text(text if len(text) <= width else "…" + text[len(text) - width + 1 :], style=style)


def _piece(text: str, style: str) -> Text:
    """A styled beginning: what is appended has its own style, where Text(text, style) would hand its style on."""
    return Text().append(text, style=style)


def _fit(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
