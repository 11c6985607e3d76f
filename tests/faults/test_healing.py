"""Roles that die or hang in a real run, and environments that take the role with them: replaced, written down, and what
they had announced is kept."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import HERE, SMALL, Run, assert_no_gap, wait_for
from test_resume import saved_places

from spreeze.envs.reproduce import reproduce

pytest.importorskip("torch")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(env: str = "Pendulum-v1", **settings: Any) -> Run:
        started.append(Run(tmp_path / f"run-{len(started)}", env, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


def end_well(run: Run) -> dict[str, Any]:
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130, run.stderr.read_text()
    run.assert_nobody_left()
    return run.summary()


@pytest.mark.parametrize("where", ["step", pytest.param("reset", marks=pytest.mark.faults)])
def test_an_environment_that_hangs(
    start: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its sampler is replaced, and the note names environment, seed, step and actions; log.txt has the stack."""
    mark = tmp_path / "hangs"
    monkeypatch.setenv("FAULTY_ENVS_MARK", str(mark))
    run = start(f"faulty_envs:make_hanging_in_{where}", hang_after=2, samplers=1).wait_learning()
    mark.touch()
    event = wait_for("its successor", lambda: run.events("restart"))[0]
    if event["role"] == "evaluator":  # it found the mark first; it has no notes, its stack is in the log
        mark.touch()
        event = wait_for("the sampler's successor", lambda: run.events("restart", "sampler-0"))[0]
    assert event["reason"].startswith("it was silent for ")
    print(f"hung in {where} with --hang-after 2: {event['reason']}, then replaced")
    before = run.latest("env_steps")
    wait_for("new rows", lambda: run.latest("env_steps") > before)
    note = json.loads((run.run_dir / "errors" / "sampler-0-env.jsonl").read_text().splitlines()[0])
    assert note["env_id"] == f"faulty_envs:make_hanging_in_{where}"
    assert note["cause"].startswith("Stalled: no answer for ")
    assert (note["action"] is None) == (where == "reset")
    if where == "step":
        actions = np.load(run.run_dir / "errors" / note["actions"], allow_pickle=False)
        assert len(actions) == note["episode_step"]
        np.testing.assert_array_equal(actions[-1], np.array(note["action"], np.float32))
    assert 'faulty_envs.py", line' in (run.run_dir / "log.txt").read_text()
    assert end_well(run)["restarts"]["learner"] == 0


def test_a_note_breaks_the_environment_again(start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """The faults of this environment depend on its seed and on how many steps it made in this episode."""
    monkeypatch.syspath_prepend(str(HERE))
    run = start("faulty_envs:make_breaking_late", steps=4_000)
    assert run.wait_end() == 0, run.stderr.read_text()
    notes = run.run_dir / "errors" / "sampler-0-env.jsonl"
    noted = [json.loads(line) for line in notes.read_text().splitlines()]
    assert noted
    for number, note in enumerate(noted[:5]):
        assert note["episode_step"] > 1
        with pytest.raises(RuntimeError) as caught:
            reproduce(notes, number)
        assert f"RuntimeError: {caught.value}" == note["cause"]  # the message holds all actions of the episode


@pytest.mark.faults
def test_an_evaluation_that_breaks_off_is_said_and_the_next_one_is_tried(
    start: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "breaks"
    monkeypatch.setenv("FAULTY_ENVS_MARK", str(mark))
    run = start("faulty_envs:make_raising_in_an_evaluation").wait_learning()
    mark.touch()
    warning = wait_for("a broken evaluation", lambda: run.events("warning", "evaluator"))[0]
    assert warning["reason"] == "an evaluation broke off: RuntimeError: the simulator broke"
    evaluations = len(run.lines("eval.jsonl"))
    wait_for("another", lambda: len(run.lines("eval.jsonl")) > evaluations)
    assert end_well(run)["restarts"]["evaluator"] == 0


@pytest.mark.faults
def test_an_environment_that_leaks_memory(start: Callable[..., Run]) -> None:
    run = start("faulty_envs:make_leaking", sampler_memory="150M", restarts_per_minute=100)
    wait_for("two replacements", lambda: len(run.events("restart", "sampler-0")) >= 2)
    reason = run.events("restart", "sampler-0")[0]["reason"]
    assert "of memory, more than the 150 MiB" in reason
    run.wait_learning()
    end_well(run)


@pytest.mark.faults
@pytest.mark.parametrize("role", ["sampler-0", "evaluator"])
def test_a_role_that_is_stopped_is_replaced(start: Callable[..., Run], role: str) -> None:
    run = start(hang_after=2).wait_learning()
    os.kill(run.pids()[role], signal.SIGSTOP)
    event = wait_for("its successor", lambda: run.events("restart", role))[0]
    assert event["reason"].startswith("it was silent for ")
    evaluations = len(run.lines("eval.jsonl"))
    wait_for("an evaluation", lambda: len(run.lines("eval.jsonl")) > evaluations)
    assert end_well(run)["restarts"] == {**dict.fromkeys(run.summary()["restarts"], 0), role: 1}


@pytest.mark.faults
def test_an_exact_ratio_holds_while_samplers_are_killed(start: Callable[..., Run]) -> None:
    """And every row that was announced is in replay: the ring of a dead sampler is emptied."""
    run = start("faulty_envs:make_unhurried", samplers=2, replay_ratio=8, restarts_per_minute=100).wait_learning()
    for kill in range(6):
        role = f"sampler-{kill % 2}"
        victim = run.pids()[role]
        os.kill(victim, signal.SIGKILL)
        wait_for("its successor", lambda: run.pids()[role] != victim)  # noqa: B023
        before = run.latest("env_steps")
        wait_for("rows", lambda: run.latest("env_steps") > before)  # noqa: B023
    summary = end_well(run)
    assert summary["restarts"] == {**dict.fromkeys(summary["restarts"], 0), "sampler-0": 3, "sampler-1": 3}
    assert summary["lost_rows"] == 0
    saved = saved_places(run)
    assert len(saved) == summary["env_steps"]
    assert_no_gap(saved)
    assert 0 < summary["updates"] * summary["batch_size"] <= 8 * (summary["env_steps"] - SMALL["learning_starts"])
