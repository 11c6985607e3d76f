"""Runs that are killed altogether, and go on: no row of the checkpoint lost or doubled, every counter goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import COUNTING, SMALL, Run, is_gone, wait_for

import spreeze
from spreeze import cli
from spreeze.envs.counting_env import check_rows, places
from spreeze.learner.checkpoint import CHECKPOINTS, find_checkpoint
from spreeze.requests import CHECKPOINT, STOP, ask

pytest.importorskip("torch")

RATIO = 4


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(env: str = COUNTING, run: Run | None = None, **settings: Any) -> Run:
        if run is None:
            started.append(Run(tmp_path / f"run-{len(started)}", env, **settings))
        else:
            started.append(Run(run.run_dir, env, again=True, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


def kill_all(run: Run) -> None:
    """As the power cut does, all at once."""
    for pid in (run.process.pid, *run.all_pids()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    run.process.wait()
    wait_for("everybody to be gone", lambda: all(is_gone(pid) for pid in run.all_pids()))


def saved_places(run: Run) -> set[tuple[int, ...]]:
    """Every row in the newest checkpoint, proved one by one: instance, episode, step."""
    rows = np.concatenate(list(find_checkpoint(run.run_dir)[0].pieces()))
    assert check_rows(rows) == []
    found = {tuple(place) for place in places(rows).tolist()}
    assert len(found) == len(rows), "a row came twice"
    return found


def assert_goes_on(lines: list[dict[str, Any]], *names: str) -> None:
    for name in names:
        values = [line[name] for line in lines]
        assert values == sorted(values), name


def test_a_run_goes_on_after_everything_was_killed(start: Callable[..., Run]) -> None:
    run = start(replay_ratio=RATIO, samplers=2, checkpoint_every=0.3).wait_learning()
    wait_for("two checkpoints", lambda: len(run.events("checkpoint")) >= 2)
    wait_for("an evaluation", lambda: run.lines("eval.jsonl"))
    kill_all(run)
    with open(run.run_dir / "metrics.jsonl", "ab") as file:
        file.write(b'{"wall_s": 99')  # a line that was cut
    checkpoint = find_checkpoint(run.run_dir)[0]
    before = saved_places(run)
    assert len(before) == checkpoint.counters["env_steps"]

    steps = checkpoint.counters["env_steps"] + 3_000
    again = start(run=run, trust=True, steps=steps, samplers=1)
    assert again.wait_end() == 0, again.stderr.read_text()
    after = saved_places(again)
    assert before < after
    summary = again.summary()
    assert summary["status"] == "finished"
    assert steps <= summary["env_steps"] == len(after)
    owed = RATIO * (summary["env_steps"] - SMALL["learning_starts"])
    assert 0 <= owed - summary["updates"] * SMALL["batch_size"] < SMALL["batch_size"], "the ratio of the whole run"
    assert_goes_on(again.lines("metrics.jsonl"), "wall_s", "env_steps", "updates")
    assert_goes_on(again.lines("eval.jsonl"), "updates", "weights_version")
    assert_goes_on(again.lines("events.jsonl"), "wall_s")
    assert len(again.events("resume")) == 1
    lines = [line["updates"] for line in again.lines("eval.jsonl")]
    assert len(lines) == len(set(lines)), "an evaluation is told twice"


def test_the_policy_acts_from_the_first_step_on(start: Callable[..., Run], tmp_path: Path) -> None:
    """Neither random actions nor learning_starts again: the first line with new rows has updates as well."""
    run = start(replay_ratio=RATIO, steps=1_500)
    assert run.wait_end() == 0, run.stderr.read_text()
    before = find_checkpoint(run.run_dir)[0]
    again = start(run=run, trust=True, steps=2_100)
    assert again.wait_end() == 0, again.stderr.read_text()
    rows = np.concatenate(list(find_checkpoint(run.run_dir)[0].pieces()))[before.end_row :]
    assert len(rows) >= 600
    policy = spreeze.load_policy(run.run_dir)
    assert policy.spec.action_size == 2
    stamps = [line["weights_version"] for line in again.lines("metrics.jsonl")]
    assert stamps[-1] > before.counters["weights_version"]
    assert again.summary()["updates"] > before.counters["updates"]


def test_a_damaged_checkpoint_gives_way_to_the_one_before(start: Callable[..., Run]) -> None:
    run = start(replay_ratio=RATIO).wait_learning()
    ask(run.run_dir, CHECKPOINT)
    wait_for("the checkpoint that was asked for", lambda: run.events("checkpoint"))
    ask(run.run_dir, STOP)
    assert run.wait_end() == 0
    first, second = sorted(int(path.name) for path in (run.run_dir / CHECKPOINTS).iterdir())
    state = run.run_dir / CHECKPOINTS / str(second) / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    steps = run.summary()["env_steps"] + 500
    again = start(run=run, trust=True, steps=steps)
    assert again.wait_end() == 0, again.stderr.read_text()
    assert f"from checkpoint {first}" in again.events("resume")[0]["reason"]
    assert "state.safetensors" in again.events("warning")[0]["reason"]
    assert again.summary()["env_steps"] >= steps
    assert len(saved_places(again)) == again.summary()["env_steps"]


def test_what_cannot_go_on_says_why(start: Callable[..., Run], capsys: pytest.CaptureFixture[str]) -> None:
    def refusal(*words: str) -> str:
        capsys.readouterr()
        assert cli.main(["resume", *words]) == 2
        return capsys.readouterr().err

    run = start("Pendulum-v1", replay_ratio=RATIO, steps=600)
    folder = str(run.run_dir)
    assert run.wait_end() == 0
    assert "reached its 600 env steps" in refusal(folder)
    assert "--algo" in refusal(folder, "--algo", "td3")
    with pytest.raises(spreeze.errors.ConfigError, match="--hidden is part of what was saved"):
        spreeze.resume(folder, hidden=(8,))
    with pytest.raises(spreeze.errors.ConfigError, match="3 numbers in an observation and 1 in an action"):
        spreeze.resume(folder, env=COUNTING, steps=900)
    config = run.run_dir / "config.json"
    document = json.loads(config.read_text())
    for env, words in ((COUNTING, "--trust"), ("<lambda>", r"spreeze.resume(run, env=...)")):
        config.write_text(json.dumps({**document, "env": env}))
        assert words in refusal(folder, "--steps", "900")
    config.write_text(json.dumps(document))
    for path in (run.run_dir / CHECKPOINTS).iterdir():
        (path / "manifest.json").unlink()
    said = refusal(folder, "--steps", "900")
    assert "no complete checkpoint" in said
    assert "start anew with" in said


def test_a_run_that_lives_is_left_alone(
    start: Callable[..., Run], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spreeze.runtime import run_lock

    run = start("Pendulum-v1", replay_ratio=RATIO, checkpoint_every=0.2).wait_learning()
    wait_for("a checkpoint", lambda: run.events("checkpoint"))
    monkeypatch.setattr(run_lock, "_GONE_WITHIN_S", 0.0)
    assert cli.main(["resume", str(run.run_dir)]) == 2
    assert "alive" in capsys.readouterr().err
    assert run.process.poll() is None
