"""Figures as people read them. What is not known is a dash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNKNOWN = "-"
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def whole(value: float | None) -> str:
    """1234567.8 -> '1,234,568'"""
    return UNKNOWN if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Three significant digits: 51.23 -> '51.2', 11_060_000 -> '11.1 M'; whole below a million: '221,034'."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1e6:
        return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    size, letter = next((size, letter) for size, letter in _STEPS if abs(value) >= size)
    return f"{_three_digits(value / size)} {letter}"


def score(value: float | None) -> str:
    """A return: one decimal where it is small enough to matter."""
    if value is None:
        return UNKNOWN
    if abs(value) >= 1e7:
        return short(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def size(value: float | None) -> str:
    """Bytes: '1.23 GB'."""
    if value is None:
        return UNKNOWN
    return f"{_three_digits(value / 1e9)} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def clock(seconds: float | None) -> str:
    """'0:42', '12:05', '3:02:11'"""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def with_unit(figure: str, unit: str) -> str:
    return figure if figure == UNKNOWN else f"{figure} {unit}"


def pair(p50: float | None, p95: float | None) -> str:
    """Median and 95th percentile: '12 / 31'."""
    return UNKNOWN if p50 is None or p95 is None else f"{_two_digits(p50)} / {_two_digits(p95)}"


def describe_event(event: Mapping[str, Any]) -> str:
    """'restart sampler-3: it was silent for 10 s'"""
    subject = f"{event['kind']} {event['role']}" if event.get("role") else str(event["kind"])
    return f"{subject}: {event['reason']}"


def one_line(text: str) -> str:
    """Text from elsewhere (names, messages) without line breaks and without anything a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def _two_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
