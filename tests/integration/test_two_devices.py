"""Runs whose actor and critics are updated in two places: real processes, on cpu + cpu."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Run, wait_for

from spreeze.cli import main
from spreeze.requests import STOP, ask
from spreeze.weights.policy_file import load_policy

TWO = {"actor_device": "cpu", "critic_device": "cpu"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    runs: list[Run] = []

    def begin(name: str, **settings: Any) -> Run:
        runs.append(Run(tmp_path / name, **settings))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()


@pytest.mark.parametrize(("algo", "mode"), [("sac", "pipelined"), ("td3", "exact"), ("ddpg", "pipelined")])
def test_a_run_in_two_places_does_all_that_one_place_does(start: Any, algo: str, mode: str) -> None:
    run = start(algo, algo=algo, split_mode=mode, steps=2_000, replay_ratio=8, **TWO)
    assert run.wait_end() == 0, run.stderr.read_text()
    run.assert_nobody_left()
    summary, config = run.summary(), json.loads((run.run_dir / "config.json").read_text())
    assert (config["device"], config["actor_device"], config["critic_device"]) == ("cpu", "cpu", "cpu")
    assert config["split_mode"] == mode
    assert summary["updates"] == 8 * (summary["env_steps"] - 200) // 32
    (event,) = run.events("updates")
    assert f"in two places, {mode}: actor on cpu, critics on cpu" in event["reason"]
    assert load_policy(run.run_dir).spec.kind == ("tanh_gaussian" if algo == "sac" else "tanh")


def test_the_losses_of_both_halves_are_told_and_a_good_end_saves(start: Any) -> None:
    run = start("losses", **TWO)
    for name in ("critic_loss", "q_mean", "actor_loss", "entropy"):  # the critics' own, then the actor's
        wait_for(name, lambda name=name: run.latest(name))
    ask(run.run_dir, STOP, "the test")
    assert run.wait_end() == 0, run.stderr.read_text()
    assert list((run.run_dir / "checkpoints").iterdir())


def test_halves_that_contradict_each_other_end_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run_dir = tmp_path / "run"
    words = ["Pendulum-v1", "--run-dir", str(run_dir), "--actor-device", "cpu"]
    assert main(["train", *words]) == 2
    assert "without --critic-device" in capsys.readouterr().err
    assert not run_dir.exists()
