"""Real samplers, whose environment's rows prove themselves, against a receiver in this process: no row is lost after
its announcement, none doubled, torn or mixed, whoever is killed and whatever the environment does."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import COUNTING, HERE, Account, Samplers, wait_for

from spreeze.envs.counting_env import check_rows, places


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Samplers]]:
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])  # children look where this process does
    started: list[Samplers] = []

    def make(env: str, count: int, **settings: Any) -> Samplers:
        started.append(Samplers(tmp_path / f"run-{len(started)}", env, count, **settings))
        return started[-1]

    yield make
    for samplers in started:
        samplers.close()


def test_samplers_killed_at_random_moments(start: Callable[..., Samplers]) -> None:
    samplers, moments, lives = start(COUNTING, 2), random.Random(0), 6
    accounts = [Account(samplers, index) for index in range(2)]
    for index, account in enumerate(accounts):
        account.new_life()
        samplers.start(index)
    for life in range(lives):
        samplers.publish()
        for index, account in enumerate(accounts):
            account.drain_until(moments.randint(1, 3_000))
            samplers.kill(index)
            told = samplers.board.section(f"sampler-{index}").get("env_steps")
            account.drain_until(1)
            while account.drain():
                pass
            block = int(samplers.config.envs_per_sampler)
            # a killed sampler may have announced one block that it could not count any more
            assert told <= sum(account.rows_of_life) <= told + (life + 1) * block
            if life < lives - 1:
                account.new_life()
                samplers.start(index)
    assert all(min(account.rows_of_life) > 0 for account in accounts)


@pytest.mark.parametrize("way", ["pool", "queue", "pipe"])
def test_a_killed_sampler_on_another_way(start: Callable[..., Samplers], way: str) -> None:
    samplers, lives = start(COUNTING, 1, experience=way), 3
    account = Account(samplers, 0)
    for life in range(lives):
        account.new_life()
        samplers.start(0)
        samplers.publish()
        account.drain_until(1_500)
        samplers.kill(0)
        while account.drain():
            pass
        told = samplers.board.section("sampler-0").get("env_steps")
        assert told <= sum(account.rows_of_life) <= told + (life + 1) * int(samplers.config.envs_per_sampler)


def test_samplers_wait_for_a_slow_reader_and_go_on(start: Callable[..., Samplers]) -> None:
    samplers = start(COUNTING, 1)
    account, section = Account(samplers, 0), samplers.board.section("sampler-0")
    account.new_life()
    samplers.start(0)
    capacity = samplers.topology.experience.shape.row_capacity
    wait_for("a full ring", lambda: section.get("env_steps") > capacity - 8)
    account.drain()
    assert section.get("env_steps") <= capacity + account.rows_of_life[0]
    wait_for("its wait to be counted", lambda: section.get("ring_full_ns") > 0)
    account.drain_until(capacity + 5_000)


def test_samplers_count_their_time_inside_the_environments(start: Callable[..., Samplers]) -> None:
    samplers, began_ns = start(COUNTING, 1), time.monotonic_ns()
    section = samplers.board.section("sampler-0")
    account = Account(samplers, 0)
    for _ in range(2):
        before_ns = section.get("stepping_ns")
        account.new_life()
        samplers.start(0)
        account.drain_until(1_000)
        samplers.kill(0)
        while account.drain():
            pass
        # a successor goes on; a sampler does more than to step, so the environments alone would give more than it did
        assert before_ns < section.get("stepping_ns") < time.monotonic_ns() - began_ns


def test_no_time_is_counted_where_the_engine_steps_by_itself(start: Callable[..., Samplers]) -> None:
    pytest.importorskip("envpool", exc_type=ImportError)
    samplers = start("Pendulum-v1", 1, env_backend="envpool")
    section = samplers.board.section("sampler-0")
    samplers.start(0)
    wait_for("rows", lambda: len(samplers.drain(0)) and section.get("env_steps") > 100)
    assert section.get("stepping_ns") == 0


@pytest.mark.parametrize("n_step", [3])
def test_rows_of_several_steps(start: Callable[..., Samplers], n_step: int) -> None:
    samplers = start(COUNTING, 1, n_step=n_step)
    account = Account(samplers, 0)
    account.new_life()
    samplers.start(0)
    account.drain_until(5_000)


def test_samplers_act_with_the_newest_weights(start: Callable[..., Samplers]) -> None:
    samplers = start(COUNTING, 1)
    account = Account(samplers, 0)
    account.new_life()
    samplers.start(0)
    account.drain_until(100)
    assert samplers.versions_seen == [0]
    for _ in range(3):
        version = samplers.publish()
        wait_for("the new version's rows", lambda: account.drain() and samplers.versions_seen == [version])  # noqa: B023


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("make", ["make_raising", "make_nan", "make_infinite", "make_misshapen", "make_mistyped"])
def test_an_environment_s_fault_makes_no_row(start: Callable[..., Samplers], make: str, n_step: int) -> None:
    samplers = start(f"faulty_envs:{make}", 1, n_step=n_step)
    section = samplers.board.section("sampler-0")
    samplers.start(0)
    rows: list[np.ndarray] = []

    def several_faults() -> bool:
        rows.append(samplers.drain(0))
        return section.get("env_errors") > 5  # the last one may not be written down yet

    wait_for("five faults", several_faults)
    samplers.kill(0)
    rows.append(samplers.drain(0))
    together = np.concatenate(rows)
    assert check_rows(together, n_step=n_step) == []
    assert len(np.unique(places(together), axis=0)) == len(together) > 97
    noted = [
        json.loads(line) for line in (samplers.run_dir / "errors" / "sampler-0-env.jsonl").read_text().splitlines()
    ]
    assert len(noted) >= 5
    assert {"env_id", "episode_step", "seed", "action", "cause"} <= noted[0].keys()
    assert noted[0]["env_id"] == f"faulty_envs:{make}"
    # beside the good answers of the same step: earlier steps that waited for the rewards behind them. The last fault
    # may be counted and not noted, with an answer of each of the other three.
    waited = section.get("lost_rows") - sum(fault["lost_rows"] for fault in noted)
    if n_step == 1:
        assert 0 <= waited <= 3
    else:
        assert waited > 3 + len(noted)


def test_an_environment_that_never_works_ends_its_sampler(start: Callable[..., Samplers]) -> None:
    samplers = start("faulty_envs:make_hopeless", 1)
    child = samplers.start(0)
    assert child.wait_gone(60.0)
    assert child.exit_code() == 1
    assert len(samplers.drain(0)) == 0
    traceback = (samplers.run_dir / "errors" / "sampler-0.txt").read_text()
    assert "the simulator never works" in traceback
