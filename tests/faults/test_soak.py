"""The soak in its short form, and that its judgement sees what leaks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import soak
from running import Run
from soak import LIGHT, Series, judge, judge_rate

MIB = 1 << 20


def series(bytes_an_hour: float = 0.0, descriptors_an_hour: float = 0.0, threads_an_hour: float = 0.0) -> Series:
    """An hour of a process of 100 MiB."""
    at_s = [5.0 * look for look in range(720)]
    return Series(
        at_s,
        [int(100 * MIB + bytes_an_hour * at / 3600) for at in at_s],
        [int(7 + look % 2 + descriptors_an_hour * at / 3600) for look, at in enumerate(at_s)],
        [int(3 + threads_an_hour * at / 3600) for at in at_s],
    )


def test_what_is_flat_is_judged_flat() -> None:
    assert judge("learner", series()) == []
    assert judge("learner", series(bytes_an_hour=0.9 * MIB)) == []
    assert series(bytes_an_hour=2 * MIB).growth_an_hour() == pytest.approx(0.02, rel=0.01)


def test_what_leaks_is_named() -> None:
    assert judge("learner", series(bytes_an_hour=2 * MIB)) == ["learner: resident memory grows by 2.0% an hour"]
    assert judge("learner", series(descriptors_an_hour=30)) == ["learner: from 7 to 36 descriptors"]
    assert judge("learner", series(threads_an_hour=2)) == ["learner: from 3 to 4 threads"]
    assert judge("learner", Series()) == ["learner: 0 looks after it had settled, which say nothing"]


def test_a_rate_that_falls_is_named() -> None:
    assert judge_rate("update_hz", [100.0, 101.0, 99.0, 98.0] * 10) == []
    assert judge_rate("update_hz", [100.0] * 20 + [50.0] * 20) == ["update_hz: 100 at first, 50 at last"]


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_a_short_soak_is_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(soak, "SPARE_BYTES", 16 * MIB)  # what is imported late in a start, for curves, is no leak
    run = Run(tmp_path / "r", soak.ENV, **LIGHT)
    try:
        table, found = soak.soak(run, seconds=6.0, kill_every_s=2.5)
    finally:
        run.end()
    assert found == [], table
    assert table.count("\n") >= 7
