"""Whole runs as a user starts them: what they leave behind, how they end, and what happens to those who are killed."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import HERE, SMALL, Run, is_gone, wait_for

import spreeze
from spreeze.requests import STOP, ask

pytest.importorskip("torch")

METRICS = {
    "wall_s", "env_steps", "updates", "sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "transfer_hz",
    "raw_hz", "transfer_age_ms_p50", "transfer_age_ms_p95", "weights_version", "weights_age_ms_p50",
    "weights_age_ms_p95", "staleness_updates_p50", "staleness_updates_p95", "ring_full_s", "batch_size", "samplers",
    "envs_per_sampler", "cpu_pct", "gpu_pct", "rss_bytes", "gpu_bytes", "episode_return_mean", "restarts", "lost_rows",
    "roles",
}  # fmt: skip
EVALUATION = {
    "wall_s", "env_steps", "updates", "weights_version", "return_mean", "return_std", "return_min", "return_max",
    "length_mean", "episodes",
}  # fmt: skip
SUMMARY = {
    "env", "algo", "seed", "status", "reason", "wall_s", "first_step_s", "first_update_s", "solved_at_s", "env_steps",
    "updates", "batch_size", "sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "best_return",
    "final_return", "restarts", "lost_rows",
}  # fmt: skip


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(env: str = "Pendulum-v1", **settings: Any) -> Run:
        started.append(Run(tmp_path / f"run-{len(started)}", env, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


def assert_exact_ratio(summary: dict[str, Any], ratio: float, learning_starts: int) -> None:
    owed = ratio * (summary["env_steps"] - learning_starts)
    assert 0 <= owed - summary["updates"] * summary["batch_size"] < summary["batch_size"]


def test_a_run_to_its_limit_of_steps(start: Callable[..., Run]) -> None:
    run = start(steps=1_503, replay_ratio=8, weights="memory", n_step=2)
    assert run.wait_end() == 0, run.stderr.read_text()
    summary = run.summary()
    assert summary.keys() >= SUMMARY
    assert summary["status"] == "finished"
    assert 1_503 <= summary["env_steps"] < 1_503 + 2 * SMALL["envs_per_sampler"] * 2
    assert_exact_ratio(summary, 8, SMALL["learning_starts"])
    assert summary["lost_rows"] == 0
    assert set(summary["restarts"].values()) == {0}
    assert 0 < summary["first_step_s"] < summary["wall_s"]
    assert 0 < summary["first_update_s"] < summary["wall_s"]
    lines = run.lines("metrics.jsonl")
    assert lines
    assert all(line.keys() >= METRICS for line in lines)
    assert lines[-1]["updates"] == summary["updates"]
    assert lines[-1]["weights_version"] > 0
    raw_rates = [line["raw_hz"] for line in lines if line["raw_hz"] is not None]
    assert raw_rates
    assert all(0 < raw_hz < 1e9 for raw_hz in raw_rates)  # on any machine
    config = json.loads((run.run_dir / "config.json").read_text())
    assert config["steps"] == 1_503
    assert config["device"] != "auto"
    assert all(choice["reason"] for choice in config["auto"].values())
    assert json.loads((run.run_dir / "machine.json").read_text())["cores"] >= 1
    assert all({"wall_s", "kind", "reason"} <= event.keys() for event in run.lines("events.jsonl"))
    assert [path.name for path in (run.run_dir / "checkpoints").iterdir()] == ["1"]
    assert not (run.run_dir / "errors").exists()
    last = run.lines("eval.jsonl")[-1]  # a run to a limit ends with its last weights evaluated
    assert last["updates"] == summary["updates"]
    assert summary["final_return"] == last["return_mean"]
    assert spreeze.load_policy(run.run_dir)(np.zeros(3)).shape == (1,)
    run.assert_nobody_left()


@pytest.mark.parametrize("way", ["pool", "queue", "pipe"])
def test_a_run_with_another_way_of_experience(start: Callable[..., Run], way: str) -> None:
    run = start(steps=800, replay_ratio=8, experience=way, device="cpu", samplers=2)
    assert run.wait_end() == 0, run.stderr.read_text()
    summary = run.summary()
    assert_exact_ratio(summary, 8, SMALL["learning_starts"])
    assert (summary["status"], summary["lost_rows"]) == ("finished", 0)
    assert set(summary["restarts"].values()) == {0}
    run.assert_nobody_left()


def test_a_synchronous_run_holds_its_ratio(start: Callable[..., Run]) -> None:
    run = start(steps=600, replay_ratio=8, schedule="synchronous")
    assert run.wait_end() == 0, run.stderr.read_text()
    summary = run.summary()
    assert_exact_ratio(summary, 8, SMALL["learning_starts"])
    assert summary["env_steps"] <= 600 + SMALL["envs_per_sampler"]  # nobody sampled ahead
    run.assert_nobody_left()


def test_a_run_that_is_stopped_before_any_evaluation_leaves_a_policy(start: Callable[..., Run]) -> None:
    run = start(learning_starts=5_000_000, replay_size=5_000_000)
    wait_for("env steps", lambda: run.lines("metrics.jsonl")[-1:] and run.lines("metrics.jsonl")[-1]["env_steps"] > 0)
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    assert run.lines("eval.jsonl") == []
    assert spreeze.load_policy(run.run_dir).about["return_mean"] is None
    run.assert_nobody_left()


def test_ctrl_c_saves_and_ends_well(start: Callable[..., Run]) -> None:
    run = start()
    wait_for("an evaluation", lambda: run.lines("eval.jsonl"))
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    summary = run.summary()
    assert summary["status"] == "stopped"
    assert "SIGINT" in summary["reason"]
    assert "second" not in summary["reason"]
    assert summary["best_return"] is not None
    evaluations = run.lines("eval.jsonl")
    assert all(line.keys() >= EVALUATION for line in evaluations)
    assert summary["best_return"] == max(line["return_mean"] for line in evaluations)
    assert summary["final_return"] == evaluations[-1]["return_mean"]
    assert [path.name for path in (run.run_dir / "checkpoints").iterdir()] == ["1"]
    assert (run.run_dir / "weights" / "policy.weights").is_file()
    policy = spreeze.load_policy(run.run_dir)
    assert policy(np.zeros(3)).shape == (1,)
    assert policy.about["return_mean"] == summary["best_return"]
    run.assert_nobody_left()


def test_weights_that_are_not_finite_end_the_run_with_the_batch_kept(start: Callable[..., Run]) -> None:
    run = start(lr=1e30, steps=20_000)
    assert run.wait_end() == 1
    summary = run.summary()
    assert summary["status"] == "failed"
    assert "not finite" in summary["reason"]
    assert (run.run_dir / "errors" / "batch.safetensors").is_file()
    assert not list((run.run_dir / "checkpoints").glob("*")), "nothing that is not finite is saved"


def test_a_stop_that_was_asked_for_ends_well(start: Callable[..., Run]) -> None:
    run = start().wait_learning()
    ask(run.run_dir, STOP, "a test")
    assert run.wait_end() == 0
    summary = run.summary()
    assert (summary["status"], summary["reason"]) == ("stopped", "a stop was asked for by a test")
    assert list((run.run_dir / "checkpoints").iterdir())
    run.assert_nobody_left()


def test_a_second_signal_ends_at_once(start: Callable[..., Run]) -> None:
    """The learner is stopped, so that saving would take for ever."""
    run = start().wait_learning()
    os.kill(run.pids()["learner"], signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    wait_for("the samplers to leave", lambda: is_gone(run.pids()["sampler-0"]))

    def ended_by_another_signal() -> bool:
        if (run.run_dir / "summary.json").exists():
            return True
        run.process.send_signal(signal.SIGINT)  # those that come too soon count as the same one
        return False

    wait_for("the end", ended_by_another_signal, within_s=20.0)
    assert run.wait_end() == 130
    assert run.summary()["status"] == "stopped"
    assert "second signal" in run.summary()["reason"]
    run.assert_nobody_left()


def test_a_killed_sampler_is_replaced_and_sigterm_ends_well(start: Callable[..., Run]) -> None:
    run = start(samplers=2).wait_learning()
    victim = run.pids()["sampler-1"]
    os.kill(victim, signal.SIGKILL)
    wait_for("its successor", lambda: run.pids()["sampler-1"] != victim)
    assert run.events("restart", "sampler-1")[0]["reason"] == "it was killed by SIGKILL"
    before = run.latest("env_steps")
    wait_for("new rows", lambda: run.latest("env_steps") > before)
    run.process.send_signal(signal.SIGTERM)
    assert run.wait_end() == 143
    summary = run.summary()
    assert summary["status"] == "stopped"
    assert summary["restarts"]["sampler-1"] == 1
    assert summary["restarts"]["sampler-0"] == summary["restarts"]["learner"] == 0
    run.assert_nobody_left()


def test_a_killed_learner_fails_the_run_and_says_where_to_look(start: Callable[..., Run]) -> None:
    run = start().wait_learning()
    os.kill(run.pids()["learner"], signal.SIGKILL)
    assert run.wait_end() == 1
    summary = run.summary()
    assert summary["status"] == "failed"
    assert "learner was killed by SIGKILL" in summary["reason"]
    assert str(run.run_dir / "log.txt") in summary["reason"]
    run.assert_nobody_left()


def test_nobody_outlives_a_killed_supervisor(start: Callable[..., Run]) -> None:
    run = start().wait_learning()
    run.process.kill()
    run.wait_end()
    run.assert_nobody_left()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a role notices by itself, and not while it hangs")
def test_a_hanging_sampler_does_not_outlive_a_killed_supervisor(
    start: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "hangs"
    monkeypatch.setenv("FAULTY_ENVS_MARK", str(mark))
    run = start("faulty_envs:make_hanging")
    wait_for("an environment to hang", mark.exists)
    wait_for("all roles to be started", lambda: len(run.pids()) == 3)
    run.process.kill()
    run.wait_end()
    run.assert_nobody_left()


def test_an_environment_that_never_works_fails_the_run(start: Callable[..., Run]) -> None:
    run = start("faulty_envs:make_hopeless")
    assert run.wait_end() == 1
    summary = run.summary()
    assert summary["status"] == "failed"
    assert "sampler-0" in summary["reason"]
    assert "the simulator never works" in summary["reason"]
    assert str(run.run_dir / "errors" / "sampler-0.txt") in summary["reason"]
    assert summary["env_steps"] == 0
    run.assert_nobody_left()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_training_twice_in_one_process_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    handlers = signal.getsignal(signal.SIGINT)
    before, descriptors = open_descriptors(), []
    for number in range(2):
        result = spreeze.train(
            "faulty_envs:make_nan", quiet=True, run_dir=str(tmp_path / str(number)), steps=600, **SMALL
        )
        assert (result.exit_code, result.status) == (0, "finished")
        # every 97th step of an environment is broken: its rows are dropped and counted, the run goes on
        assert result.summary["lost_rows"] > 0
        assert (tmp_path / str(number) / "errors" / "sampler-0-env.jsonl").is_file()
        descriptors.append(open_descriptors())
    assert descriptors[0] == descriptors[1]
    assert [target for target in descriptors[1] - before if "spreeze" in target] == []
    assert signal.getsignal(signal.SIGINT) is handlers


def open_descriptors() -> Counter[str]:
    """What this process has open or mapped, after what nobody refers to any more is gone."""
    gc.collect()
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    mapped = (line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    opened = (os.readlink(link) for link in links if os.path.lexists(link))
    return Counter(opened) + Counter(name for name in mapped if "spreeze-" in name)
