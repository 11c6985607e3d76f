"""The guard over fast updates, with a clock and fakes."""

from __future__ import annotations

from spreeze.algos.kernels.parity import Parity
from spreeze.learner.guard import CHECK_EVERY_S, FIRST_CHECK_S, GuardedUpdates

GOOD = Parity(True, 0.2, "the gradient of actor, weight 1")
BAD = Parity(False, 7.0, "the way of critics")


class FakeUpdates:
    def __init__(self, batch_size: int = 8) -> None:
        self.batch_size = batch_size
        self.runs = 0

    def step_to(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def run(self, most: int) -> int:
        self.runs += 1
        return most


def test_good_updates_go_on_and_bad_ones_are_replaced_once() -> None:
    now, checks, warnings = [0.0], [], []
    verdicts = [GOOD, BAD]
    fast, plain = FakeUpdates(), FakeUpdates()

    def check(batch_size: int) -> Parity:
        assert batch_size == 8
        checks.append(now[0])
        return verdicts.pop(0)

    guarded = GuardedUpdates(fast, check, lambda size: plain, warnings.append, clock=lambda: now[0])
    for now[0] in (0.0, FIRST_CHECK_S - 1, FIRST_CHECK_S, FIRST_CHECK_S + 1):
        assert guarded.run(4) == 4
    assert checks == [FIRST_CHECK_S]
    assert (fast.runs, plain.runs, warnings) == (4, 0, [])

    for now[0] in (FIRST_CHECK_S + CHECK_EVERY_S, 1e9, 2e9):
        assert guarded.run(4) == 4
    assert checks == [FIRST_CHECK_S, FIRST_CHECK_S + CHECK_EVERY_S]
    assert (fast.runs, plain.runs) == (4, 3)
    assert warnings == [
        "the fast update no longer agrees with the reference: the way of critics is off by 7.00 of what is allowed; "
        "plain updates go on"
    ]


def test_each_batch_size_is_compared_before_its_first_update() -> None:
    compared: list[int] = []
    fast, warnings = FakeUpdates(), []

    def check(batch_size: int) -> Parity:
        assert fast.batch_size != batch_size  # it has not begun
        compared.append(batch_size)
        return GOOD if batch_size < 64 else BAD

    guarded = GuardedUpdates(fast, check, FakeUpdates, warnings.append, clock=lambda: 0.0)
    for batch_size in (16, 8, 16, 32):
        guarded.step_to(batch_size)
        assert guarded.batch_size == fast.batch_size == batch_size
        guarded.run(1)
    assert (compared, fast.runs, warnings) == ([16, 32], 4, [])

    for batch_size in (64, 16):
        guarded.step_to(batch_size)
        assert guarded.batch_size == batch_size
        guarded.run(1)
    assert (compared, fast.runs, len(warnings)) == ([16, 32, 64], 4, 1)
