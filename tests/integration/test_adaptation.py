"""Whole runs that adapt while they go on: nothing is lost by it, an exact ratio stays exact, and it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from running import COUNTING, HERE, Run, wait_for

from spreeze.envs.counting_env import check_rows, episode_length, places
from spreeze.learner.checkpoint import find_checkpoint

CORES = 4  # as the runs are told: a learner and three samplers
NO_SAMPLERS_NAMED = {"samplers": "auto", "learner_threads": 1}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(mode: str = "plain", **settings: Any) -> Run:
        program = [sys.executable, str(HERE / "roomy_machine.py"), str(CORES), mode]
        started.append(Run(tmp_path / f"run-{len(started)}", COUNTING, program=program, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


def assert_no_row_is_missing(rows: np.ndarray) -> None:
    """Every environment's rows in their order, from its first step on, without a gap."""
    assert check_rows(rows) == []
    expected: dict[int, tuple[int, int]] = {}
    for instance, episode, step in places(rows).tolist():
        assert (episode, step) == expected.get(instance, (1, 0)), "a row is missing, or came twice"
        expected[instance] = (episode + 1, 0) if step + 1 == episode_length(episode) else (episode, step + 1)


def test_an_exact_ratio_stays_exact_while_samplers_are_parked_and_batches_change(start: Callable[..., Run]) -> None:
    ratio, learning_starts = 4.0, 200
    run = start("restless", **NO_SAMPLERS_NAMED, replay_ratio=ratio, learning_starts=learning_starts, steps=20_000)
    assert run.wait_end() == 0, run.stderr.read_text()
    checkpoint, _ = find_checkpoint(run.run_dir)
    done, summary, rows = checkpoint.counters, run.summary(), np.concatenate(list(checkpoint.pieces()))
    owed = ratio * (done["env_steps"] - learning_starts)
    assert 0 <= owed - done["update_frames"] < 128  # of the largest batch
    assert len(rows) == done["env_steps"] >= 20_000
    assert_no_row_is_missing(rows)
    assert (summary["status"], summary["lost_rows"], set(summary["restarts"].values())) == ("finished", 0, {0})
    asked = [(event["samplers"], event["batch_size"]) for event in run.events("adaptation")]
    assert len({samplers for samplers, _ in asked}) > 1
    assert len({batch_size for _, batch_size in asked}) > 1
    assert done["update_frames"] % done["updates"], "one batch size was in force all the time"
    assert done["updates"] * 8 < done["update_frames"] < done["updates"] * 128


def test_with_fixed_settings_nothing_is_tried_and_the_run_says_so(start: Callable[..., Run]) -> None:
    run = start(samplers=2, batch_size=32, steps=5_000)
    assert run.wait_end() == 0, run.stderr.read_text()
    (event,) = run.events("adaptation")
    assert event["reason"] == "nothing to try: samplers: as asked for; batch size: as asked for"
    assert {line["samplers"] for line in run.lines("metrics.jsonl")} == {2}
    adapts = json.loads((run.run_dir / "config.json").read_text())["adapts"]
    assert adapts == {"samplers": "as asked for", "batch_size": "as asked for"}


@pytest.mark.slow
def test_what_was_found_is_where_the_next_run_begins_until_it_is_to_look_again(start: Callable[..., Run]) -> None:
    def found_by(**settings: Any) -> tuple[str, dict[str, Any]]:
        run = start("quota", **NO_SAMPLERS_NAMED, **settings)
        event = wait_for("what was found", lambda: [e for e in run.events("adaptation") if e["phase"] == "found"])[0]
        run.process.terminate()
        run.wait_end()
        return event["reason"], event

    first, event = found_by()
    assert "found here" not in first
    again, event_again = found_by()
    assert "found here on" in again
    assert event_again["samplers"] == event["samplers"]
    assert "found here" not in found_by(retune=True)[0]


@pytest.mark.slow
def test_half_the_cores_are_left_to_another_program_and_taken_again(start: Callable[..., Run]) -> None:
    run = start(**NO_SAMPLERS_NAMED)
    wait_for("what was found", lambda: [e for e in run.events("adaptation") if e["phase"] == "found"])
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES // 2)]
    try:
        down = wait_for("fewer samplers", lambda: run.events("adaptation")[1:])[0]
    finally:
        for process in burning:
            process.kill()
            process.wait()
    assert down["samplers"] < CORES - 1
    assert "other programs have" in down["reason"]
    parked = f"sampler-{down['samplers']}"
    wait_for("it to be parked", lambda: (run.latest("roles") or {}).get(parked) == "parked")
    wait_for("all samplers", lambda: run.latest("samplers") == CORES - 1, within_s=120)
    run.process.terminate()
    assert run.wait_end() == 143
    assert run.summary()["lost_rows"] == 0
