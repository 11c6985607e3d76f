"""The plots of a report, as PNG for a page and PDF for a paper. Each function returns its caption.

Figures are made without pyplot: no window, no state shared with a notebook that has figures of its own. Names that
come from files are drawn as they are, never as formulas.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spreeze.errors import ConfigError, SpreezeError
from spreeze.report.groups import Group
from spreeze.report.solving import middle_and_ends, solved_at_s, threshold_of
from spreeze.report.spread import QUARTILES_FROM, Curve, Spread, band_name, spread_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PNG_DPI = 200
WIDTH_INCHES = 7.0  # the text width of a page of two columns
# Okabe and Ito's colours, told apart by the colour-blind; in grey the dashes and markers tell them apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX"
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.6,
    "axes.formatter.useoffset": False,
    "pdf.fonttype": 42,  # letters stay letters
    "text.parse_math": False,
}
RATES = (
    ("sample_hz", "env steps per s"),
    ("update_hz", "updates per s"),
    ("update_frames_hz", "update frames per s"),
    ("replay_ratio", "replay ratio"),
)
LAGS = (
    ("staleness_updates_p50", "staleness (updates)"),
    ("transfer_age_ms_p50", "age of a row (ms)"),
)
LOGARITHMIC = ("transfer_age_ms_p50",)
MINUS = "\N{MINUS SIGN}"
_SIZES = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))
_LONGEST_LABEL = 48


class Plots:
    """Draws into `folder`. A style belongs to a group's label, so that it looks the same in every panel."""

    def __init__(self, folder: Path, groups: Sequence[Group], thresholds: Mapping[str, float]) -> None:
        self._folder, self._groups, self._thresholds = folder, groups, thresholds
        labels = list(dict.fromkeys(group.label for group in groups))
        self._place = {label: place for place, label in enumerate(labels)}
        several = [len(group.runs) for group in groups if len(group.runs) > 1]
        self._quartiles = bool(several) and min(several) >= QUARTILES_FROM
        self._several = bool(several)

    def return_over_time(self) -> str | None:
        return self._returns("return_over_time", "wall_s", "wall-clock time since the command (s)")

    def return_over_steps(self) -> str | None:
        return self._returns("return_over_steps", "env_steps", "env steps")

    def _returns(self, name: str, key: str, x_label: str) -> str | None:
        spreads = {
            place: spread_of(
                [_curve(run.evaluations, key, "return_mean") for run in group.runs], self._quartiles, hold=True
            )
            for place, group in enumerate(self._groups)
        }
        envs = list(dict.fromkeys(group.env for place, group in enumerate(self._groups) if spreads[place] is not None))
        if not envs:
            return None
        with self._figure(name, _panels(len(envs))) as (figure, axes):
            for axis, env in zip(axes, envs, strict=False):
                axis.set_title(_text(env))
                axis.set_xlabel(x_label)
                axis.set_ylabel("return of an evaluation")
                for place, group in enumerate(self._groups):
                    spread = spreads[place]
                    if group.env == env and spread is not None:
                        self._draw_spread(axis, group, spread)
                self._draw_threshold(axis, env)
                axis.set_xlim(left=0)
                axis.xaxis.set_major_formatter(_short_thousands)
                axis.yaxis.set_major_formatter(_thousands)
            self._legend(figure, axes)
        held = "; it keeps its last return from there on." if self._several else ""
        clock = " Time includes the start-up." if key == "wall_s" else ""
        return self._curve_words("mean return of evaluations").removesuffix("." if held else "") + held + clock

    def rates_over_time(self) -> str | None:
        shown = [(key, label) for key, label in (*RATES, *LAGS) if self._any_rate(key)]
        if not shown:
            return None
        with self._figure("rates_over_time", _panels(len(shown), height=2.1)) as (figure, axes):
            for axis, (key, label) in zip(axes, shown, strict=False):
                axis.set_ylabel(label)
                axis.set_xlabel("wall-clock time (s)")
                for group in self._groups:
                    curves = [_curve(run.rates, "wall_s", key) for run in group.runs]
                    spread = spread_of(curves, self._quartiles, hold=False)
                    if spread is not None:
                        self._draw_spread(axis, group, spread, with_env=True)
                axis.set_xlim(left=0)
                axis.xaxis.set_major_formatter(_short_thousands)
                if key in LOGARITHMIC:
                    axis.set_yscale("log")
                else:
                    axis.set_ylim(bottom=0)
                axis.yaxis.set_major_formatter(_short_thousands)
            self._legend(figure, axes)
        return self._curve_words("figures that a run wrote once a second") + (
            " Update frames are updates x batch size; the replay ratio is update frames per env step; staleness is how "
            "many updates the acting weights are behind."
        )

    def throughput(self) -> str | None:
        shown = [
            (key, label)
            for key, label in RATES
            if any(run.steady[key] is not None for group in self._groups for run in group.runs)
        ]
        if not shown:
            return None
        rows = len(self._groups)
        size = (WIDTH_INCHES, 0.9 + 0.3 * rows)
        with self._figure("throughput", (1, len(shown), size), share_rows=True) as (_, axes):
            for axis, (key, label) in zip(axes, shown, strict=False):
                values = [[run.steady[key] for run in group.runs] for group in self._groups]
                self._draw_dots(axis, values, unsolved=None)
                axis.set_xlabel(label.replace(" per ", "\nper "))
                axis.set_xlim(0, axis.get_xlim()[1] * 1.05)
                axis.xaxis.set_major_formatter(_short_thousands)
                axis.locator_params(axis="x", nbins=4)
                axis.tick_params(axis="y", length=0)
            self._name_rows(axes[0])
        return (
            "Steady figures: one mark a run, the line is the group's median. Update frames are updates x batch size; "
            "the replay ratio is update frames per env step."
        )

    def time_to_solve(self) -> str | None:
        goals = [threshold_of(group, self._thresholds) for group in self._groups]
        if all(goal is None for goal in goals):
            return None
        times = [
            [None if goal is None else solved_at_s(run, goal) for run in group.runs]
            for group, goal in zip(self._groups, goals, strict=True)
        ]
        waited = [
            [
                run.wall_s if goal is not None and at_s is None else None
                for run, at_s in zip(group.runs, row, strict=True)
            ]
            for group, goal, row in zip(self._groups, goals, times, strict=True)
        ]
        size = (WIDTH_INCHES, 1.0 + 0.3 * len(self._groups))
        with self._figure("time_to_solve", (1, 1, size)) as (_, axes):
            self._draw_dots(axes[0], times, waited)
            axes[0].set_xlabel("wall-clock time since the command, start-up included (s)")
            axes[0].set_xlim(left=0)
            axes[0].xaxis.set_major_formatter(_short_thousands)
            self._name_rows(axes[0])
        missed = any(at_s is not None for row in waited for at_s in row)
        return (
            "Time until the first evaluation with at least the return that counts as solved (in the table) had ended. "
            "One mark a run, the line is the median of the runs that solved it."
            + (" An open triangle is a run that had not solved it when it ended." if missed else "")
        )

    # one group in one panel

    def _draw_spread(self, axis: Axes, group: Group, spread: Spread, with_env: bool = False) -> None:
        style = self._style(group.label)
        label = f"{group.env}: {group.label}" if with_env and len({g.env for g in self._groups}) > 1 else group.label
        seeds = f" ({len(group.runs)} runs)" if self._several else ""
        whole = spread.runs == len(group.runs)
        lone = np.isfinite(spread.median).sum() == 1  # a line through one point is nothing to look at
        axis.plot(
            spread.x,
            spread.median if lone else np.where(whole, spread.median, np.nan),
            color=style["color"],
            linestyle=style["linestyle"],
            marker=style["marker"] if lone else None,
            label=_text(label + seeds),
        )
        part = np.where(_beside(whole), spread.median, np.nan)
        axis.plot(spread.x, part, color=style["color"], linestyle=style["linestyle"], linewidth=0.8)
        axis.fill_between(spread.x, spread.low, spread.high, color=style["color"], alpha=0.18, linewidth=0)

    def _draw_threshold(self, axis: Axes, env: str) -> None:
        goals = {threshold_of(group, self._thresholds) for group in self._groups if group.env == env}
        for goal in sorted(goal for goal in goals if goal is not None):
            axis.axhline(goal, color="#555555", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axis.annotate(
                f"solved: {goal:,g}".replace("-", MINUS),
                (0, goal),
                xycoords=("axes fraction", "data"),
                xytext=(3, 2),
                textcoords="offset points",
                ha="left",
                va="bottom",
                fontsize=7,
                color="#555555",
            )

    def _draw_dots(
        self,
        axis: Axes,
        values: Sequence[Sequence[float | None]],
        unsolved: Sequence[Sequence[float | None]] | None,
    ) -> None:
        """A row a group, the first on top: a mark a run, a stroke at the median."""
        for row, group in enumerate(self._groups):
            style, known = self._style(group.label), [value for value in values[row] if value is not None]
            offsets = (np.arange(len(known)) - (len(known) - 1) / 2) * min(0.5 / max(len(known), 1), 0.12)
            look = {"color": style["color"], "marker": style["marker"], "linestyle": "", "clip_on": False}
            axis.plot(known, row + offsets, **look, markersize=4.5, alpha=0.75, markeredgewidth=0)
            if (middle := middle_and_ends(known)) is not None:
                axis.plot([middle[0]] * 2, [row - 0.36, row + 0.36], color=style["color"], linewidth=1.6)
            if unsolved is not None:
                late = [value for value in unsolved[row] if value is not None]
                axis.plot(late, [row] * len(late), **{**look, "marker": ">"}, markersize=5, fillstyle="none")
        axis.set_ylim(len(self._groups) - 0.4, -0.6)
        axis.grid(visible=False, axis="y")

    def _name_rows(self, axis: Axes) -> None:
        several = len({group.env for group in self._groups}) > 1
        names = [_text(f"{group.env}\n{group.label}" if several else group.label) for group in self._groups]
        axis.set_yticks(range(len(names)), names)
        axis.tick_params(axis="y", length=0)

    def _style(self, label: str) -> dict[str, Any]:
        place = self._place[label]
        return {
            "color": COLOURS[place % len(COLOURS)],
            "linestyle": DASHES[place % len(DASHES)],
            "marker": MARKERS[place % len(MARKERS)],
        }

    # words and files

    def _curve_words(self, of_what: str) -> str:
        if not self._several:
            return f"Curves show the {of_what}."
        return (
            f"Lines: median over the runs of a group of the {of_what}. Band: {band_name(self._quartiles)}. "
            "The line is thin where some of the group's runs had not begun or had ended."
        )

    def _any_rate(self, key: str) -> bool:
        return any(np.isfinite(run.rates[key]).any() for group in self._groups for run in group.runs)

    @staticmethod
    def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
        handles: dict[str, Any] = {}
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        longest = max(map(len, handles), default=1)
        columns = max(1, min(len(handles), 110 // (longest + 8)))
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False, handlelength=2.6
        )

    @contextmanager
    def _figure(
        self, name: str, shape: tuple[int, int, tuple[float, float]], share_rows: bool = False
    ) -> Iterator[tuple[Figure, list[Axes]]]:
        matplotlib, figure_class = load_matplotlib()
        rows, columns, size = shape
        with matplotlib.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a name with letters that the font has not
            figure = figure_class(figsize=size, layout="constrained")
            grid = figure.subplots(rows, columns, squeeze=False, sharey=share_rows)
            axes = list(grid.flat)
            yield figure, axes
            for axis in axes:
                axis.set_visible(axis.has_data() or bool(axis.get_xlabel()))
            for ending in ("png", "pdf"):
                path = self._folder / f"{name}.{ending}"
                try:
                    figure.savefig(
                        path, dpi=PNG_DPI, metadata={"Creator": "spreeze report"} if ending == "pdf" else None
                    )
                except OSError as error:
                    raise SpreezeError(f"{path}: could not be written ({error.strerror})") from error


def load_matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("plots need matplotlib: pip install 'spreeze[report]'; --no-plots leaves them out") from None
    return matplotlib, Figure


def _panels(count: int, height: float = 2.9) -> tuple[int, int, tuple[float, float]]:
    """Rows, columns and inches for so many panels."""
    columns = min(count, 2)
    rows = math.ceil(count / 2)
    return rows, columns, (WIDTH_INCHES if columns > 1 else 5.0, rows * (height if columns > 1 else 3.2) + 0.3)


def _curve(columns: Mapping[str, np.ndarray], x: str, y: str) -> Curve:
    known = ~(np.isnan(columns[x]) | np.isnan(columns[y]))
    order = np.argsort(columns[x][known], kind="stable")
    return columns[x][known][order], columns[y][known][order]


def _beside(whole: np.ndarray) -> np.ndarray:
    """Where not all runs are, and one cell further so that both lines meet."""
    part = ~whole
    return part | np.roll(part, 1) | np.roll(part, -1)


def _thousands(value: float, _: float) -> str:
    """12000 -> '12,000'"""
    return f"{value:,g}".replace("-", MINUS)


def _short_thousands(value: float, _: float) -> str:
    """12000 -> '12 k'"""
    size, letter = next(((size, letter) for size, letter in _SIZES if abs(value) >= size), (1.0, ""))
    return f"{value / size:g}{letter}".replace("-", MINUS)


def _text(text: str) -> str:
    """A label as it is: a leading underscore would hide it from a legend."""
    lines = [line if len(line) <= _LONGEST_LABEL else f"{line[: _LONGEST_LABEL - 3]}..." for line in text.split("\n")]
    joined = "\n".join(lines)
    return f" {joined}" if joined.startswith("_") else joined
