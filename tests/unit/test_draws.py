"""Numbers that are counted: against their formula, and uniform."""

from __future__ import annotations

import torch

from spreeze.draws import CountedNumbers, restore

CPU = torch.device("cpu")
WORD = 2**64 - 1


def by_formula(seed: int, draw: int, index: int) -> int:
    """SplitMix64 in Python's whole numbers."""
    z = ((draw * 2**32 + index + 1) * 0x9E3779B97F4A7C15 + seed * 0xBF58476D1CE4E5B9) & WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return (z ^ (z >> 31)) & (2**62 - 1)


def drawn(numbers: CountedNumbers, count: int) -> torch.Tensor:
    out = torch.zeros(count, dtype=torch.int64)
    numbers.fill(out)
    return out


def test_the_formula() -> None:
    for seed in (0, 5, 2**31 - 1):
        numbers = CountedNumbers(CPU, seed)
        for draw in range(3):
            assert drawn(numbers, 20).tolist() == [by_formula(seed, draw, index) for index in range(20)]


def test_uniform() -> None:
    numbers = CountedNumbers(CPU, 1)
    counts = torch.cat([drawn(numbers, 10_000) for _ in range(10)]).remainder(100).bincount(minlength=100)
    assert (counts - 1000).square().div(1000).sum() < 160  # chi-squared, 99 degrees of freedom: 1 in 10,000 is beyond


def test_it_goes_on_from_its_state() -> None:
    numbers, other = CountedNumbers(CPU, 1), CountedNumbers(CPU, 2)
    drawn(numbers, 5)
    restore(other, numbers.get_state())
    assert torch.equal(drawn(numbers, 5), drawn(other, 5))


def test_a_state_of_another_kind_begins_new_numbers_that_depend_on_it() -> None:
    firsts = set()
    for seed in range(3):
        numbers = CountedNumbers(CPU, 9)
        restore(numbers, torch.Generator().manual_seed(seed).get_state())
        firsts.add(drawn(numbers, 1).item())
        generator = torch.Generator()
        restore(generator, CountedNumbers(CPU, seed).get_state())
        firsts.add(torch.randint(2**62, (1,), generator=generator).item())
    assert len(firsts) == 6


def test_a_state_stays_what_it_was_while_draws_go_on() -> None:
    numbers, first, again = CountedNumbers(torch.device("cpu"), seed=3), *torch.zeros(2, 5, dtype=torch.int64)
    state = numbers.get_state()
    numbers.fill(first)
    numbers.fill(again)
    assert not torch.equal(first, again)
    numbers.set_state(state)
    numbers.fill(again)
    assert torch.equal(first, again)
