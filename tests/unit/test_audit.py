"""What `make audit` makes of the answers: silence is not a clean bill."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

judge = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "audit.py"))["judge"]
CLEAN = {"name": "numpy", "version": "2.4.0", "vulns": []}
HOLE = {"name": "old", "version": "1.0", "vulns": [{"id": "CVE-2020-1", "fix_versions": ["1.1"]}]}
UNKNOWN = {"name": "torch", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        ([CLEAN, UNKNOWN], 0, "1 packages looked up, 0 known holes; not known there: torch"),
        ([CLEAN, HOLE], 1, "old 1.0: CVE-2020-1; fixed in 1.1"),
        ([UNKNOWN], 1, "0 packages looked up"),
    ],
)
def test_the_verdict(found: list, code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge(found) == code
    assert says in capsys.readouterr().out
