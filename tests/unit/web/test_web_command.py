"""`spreeze dashboard`: what it refuses, and in which words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spreeze import cli


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--port 99999", "'99999' is not a port between 0 and 65535"),
        ("--port x", "'x' is not a port"),
        ("/no/such/folder", "/no/such/folder: no such folder"),
        ("--prot 1", "Did you mean '--port'?"),
        ("--host no.such.host.invalid --port 0", "--host no.such.host.invalid: "),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: str, expected: str) -> None:
    assert cli.main(["dashboard", *words.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert expected in printed.err
    assert printed.err.count("\n") == 1, "one sentence"


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named_with_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("spreeze.web") or name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert cli.main(["dashboard", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(f"the dashboard needs {missing}: pip install 'spreeze[web]'\n")
