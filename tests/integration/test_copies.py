"""A copy of the figures that fails, or that hangs, is an event of the run and nothing more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import COUNTING, SMALL

import spreeze

pytest.importorskip("torch")


@pytest.mark.parametrize("fault", ["raise OSError('no network')", "import os; os._exit(3)"])
def test_a_failing_copy_never_hurts_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    package = tmp_path / "packages" / "wandb.py"
    package.parent.mkdir()
    package.write_text(f"def init(**settings): {fault}")
    monkeypatch.syspath_prepend(str(package.parent))
    run_dir = tmp_path / "run"
    result = spreeze.train(COUNTING, wandb="my-project", quiet=True, run_dir=str(run_dir), steps=1000, **SMALL)
    assert (result.exit_code, result.status) == (0, "finished")
    events = [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]
    told = [event["reason"] for event in events if "Weights & Biases" in event["reason"]]
    assert len(told) == 1
    assert "training goes on" in told[0]
    assert json.loads((run_dir / "summary.json").read_text())["status"] == "finished"
