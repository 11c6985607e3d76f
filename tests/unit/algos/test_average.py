"""The average that acts: numbers by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from spreeze.algos.average import PolicyAverage  # noqa: E402


def test_it_remembers_a_share_of_the_updates() -> None:
    actor = torch.tensor([0.0, 8.0])
    average = PolicyAverage(actor, share=0.5)
    actor.copy_(torch.tensor([1.0, 4.0]))
    average.follow(100)  # d = 100, share x updates = 50
    kept = math.exp(-2.0)
    torch.testing.assert_close(average.flat, torch.tensor([1.0 - kept, 4.0 + 4.0 * kept]))
    before = average.flat.clone()
    actor.copy_(torch.tensor([3.0, 0.0]))
    average.follow(150)  # d = 50, share x updates = 75
    kept = math.exp(-50 / 75)
    torch.testing.assert_close(average.flat, kept * before + (1 - kept) * torch.tensor([3.0, 0.0]))


def test_many_small_steps_make_what_one_large_one_makes_of_an_actor_that_stands_still() -> None:
    actor = torch.ones(1)
    often, once = (PolicyAverage(torch.zeros(1), share=0.1) for _ in range(2))
    for average in (often, once):
        average.follow(1_000)
        average._actor = actor
    for updates in range(1_001, 1_011):
        often.follow(updates)
    once.follow(1_010)
    torch.testing.assert_close(often.flat, once.flat, rtol=0.02, atol=0.0)
    assert 0.09 < once.flat.item() < 0.1  # 10 of the last 101 updates


def test_share_zero_is_the_actor_as_it_is() -> None:
    actor = torch.zeros(3)
    average = PolicyAverage(actor, share=0.0)
    for updates in (5, 6):
        actor.fill_(updates)
        average.follow(updates)
        assert torch.equal(average.flat, actor)


def test_the_same_updates_again_change_nothing() -> None:
    actor = torch.zeros(1)
    average = PolicyAverage(actor, share=0.1)
    average.follow(10)
    actor.fill_(7.0)
    average.follow(10)
    assert average.flat.item() == 0.0


def test_one_that_was_saved_and_loaded_goes_on_alike() -> None:
    actor = torch.ones(2)
    first, second = (PolicyAverage(torch.zeros(2), share=0.3) for _ in range(2))
    first.follow(40)
    first._actor = second._actor = actor
    first.follow(50)
    for name, saved in first.state("average").items():
        second.state("average")[name].copy_(saved)
    for average in (first, second):
        average.follow(70)
    assert torch.equal(first.flat, second.flat)
    assert 0.0 < first.flat[0] < 1.0
