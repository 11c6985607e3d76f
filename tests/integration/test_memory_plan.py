"""Runs in little memory: the plan fits and the run works, or it is refused before anything starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running import Run

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to ulimit -v")

MIB_IN_KIB = 1024
ROW_BYTES = 4 * (3 + 1 + 3 + 2)  # of Pendulum-v1


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(**settings: object) -> Run:
        started.append(Run(tmp_path / "run", **settings))  # type: ignore[arg-type]
        return started[-1]

    yield make
    for run in started:
        run.end()


def test_four_gib_shrink_replay_and_the_run_works(start: Callable[..., Run]) -> None:
    run = start(address_kib=4096 * MIB_IN_KIB, replay_size=100_000_000, steps=600)
    assert run.wait_end() == 0, run.stderr.read_text()
    config = json.loads((run.run_dir / "config.json").read_text())
    assert config["replay_size"] == 2**31 // ROW_BYTES
    assert "address space of the learner is short" in config["adjusted"]["replay_size"]["reason"]
    assert run.summary()["env_steps"] >= 600
    assert config["plan"]["line"] in run.stderr.read_text()
    assert any("address space" in event["reason"] for event in run.events("warning"))


def test_too_little_is_refused_with_the_bytes_and_leaves_nothing(start: Callable[..., Run]) -> None:
    run = start(address_kib=768 * MIB_IN_KIB)
    assert run.wait_end() == 2
    words = run.stderr.read_text()
    assert "too little address space of the learner: this run needs at least 8" in words
    assert f"of {768 * 2**20:,} free ones" in words
    assert not run.run_dir.exists()
