"""Samplers that are parked and woken while they sample: no row is lost, doubled or mixed by it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import COUNTING, HERE, Account, Samplers, wait_for


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Samplers]]:
    monkeypatch.setattr(sys, "path", [str(HERE), *sys.path])
    started: list[Samplers] = []

    def make(count: int, **settings: Any) -> Samplers:
        started.append(Samplers(tmp_path / "run", COUNTING, count, **settings))
        return started[-1]

    yield make
    for samplers in started:
        samplers.close()


def begin(samplers: Samplers, count: int) -> list[Account]:
    accounts = [Account(samplers, index) for index in range(count)]
    for index, account in enumerate(accounts):
        account.new_life()
        samplers.start(index)
    return accounts


def park_from(samplers: Samplers, active: int) -> None:
    samplers.board.section("supervisor").set("active_samplers", active)


def wait_parked(samplers: Samplers, accounts: list[Account], index: int) -> None:
    """Everything that it counted has arrived, and it counts no more."""
    section = samplers.board.section(f"sampler-{index}")

    def still() -> bool:
        told = section.get("env_steps")
        accounts[0].drain_until(accounts[0].rows_of_life[-1] + 1_000)
        accounts[index].drain()
        return told == section.get("env_steps") == accounts[index].rows_of_life[-1]

    wait_for(f"sampler-{index} to park", still)


@pytest.mark.parametrize("n_step", [1, 3])
def test_parked_and_woken_at_random_moments(start: Callable[..., Samplers], n_step: int) -> None:
    samplers, moments = start(3, n_step=n_step), random.Random(0)
    accounts = begin(samplers, 3)
    for active in (3, 1, 2, 3, 1, 3, 2, 1, 3):
        park_from(samplers, active)
        for account in accounts[:active]:
            account.drain_until(account.rows_of_life[-1] + moments.randint(1, 3_000))
    park_from(samplers, 1)
    for index in (1, 2):
        wait_parked(samplers, accounts, index)
    assert all(account.rows_of_life[-1] > 0 for account in accounts)
    assert all(samplers.board.section(f"sampler-{index}").get("lost_rows") == 0 for index in range(3))


def test_a_parked_sampler_beats_takes_hardly_any_cpu_and_acts_with_the_newest_weights(
    start: Callable[..., Samplers],
) -> None:
    samplers = start(2)
    accounts = begin(samplers, 2)
    for account in accounts:
        account.drain_until(100)
    park_from(samplers, 1)
    wait_parked(samplers, accounts, 1)
    processes = [psutil.Process(samplers.children[index].pid) for index in range(2)]
    before = [sum(process.cpu_times()[:2]) for process in processes]
    beat = samplers.board.section("sampler-1").get("heartbeat_ns")
    accounts[0].drain_until(accounts[0].rows_of_life[-1] + 20_000)
    taken = [sum(process.cpu_times()[:2]) - at for process, at in zip(processes, before, strict=True)]
    assert taken[1] < taken[0] / 4
    assert samplers.board.section("sampler-1").get("heartbeat_ns") > beat
    version = samplers.publish()
    park_from(samplers, 2)
    accounts[1].drain_until(accounts[1].rows_of_life[-1] + 1)
    # the first rows after its rest were not acted with the weights of before it
    assert samplers.versions_seen[1] == version


def test_a_parked_sampler_that_is_killed_has_a_successor_that_parks(start: Callable[..., Samplers]) -> None:
    samplers = start(2)
    accounts = begin(samplers, 2)
    for account in accounts:
        account.drain_until(100)
    park_from(samplers, 1)
    wait_parked(samplers, accounts, 1)
    samplers.kill(1)
    accounts[1].new_life()
    samplers.start(1)
    section = samplers.board.section("sampler-1")
    wait_for("its successor to be ready", lambda: section.get("lives") == 2 and section.get("ready"))
    park_from(samplers, 2)
    accounts[1].drain_until(100)


def test_parked_samplers_leave_at_the_end(start: Callable[..., Samplers]) -> None:
    samplers = start(2)
    accounts = begin(samplers, 2)
    accounts[1].drain_until(100)
    park_from(samplers, 1)
    wait_parked(samplers, accounts, 1)
    samplers.board.section("supervisor").set("stop", 1)
    assert all(child.wait_gone(60.0) and child.exit_code() == 0 for child in samplers.children.values())
