"""The exact ratio under every interleaving of samplers and learner, and free pacing, without a process or a clock."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spreeze.learner.pacing import UNBOUNDED, ExactPacing, FreePacing, make_pacing


class World:
    """Samplers and a learner that obey a pacing, moved one at a time in any order."""

    def __init__(
        self, ratio: float, batch_size: int, blocks: list[int], learning_starts: int, drain_rows: int, steps: int | None
    ) -> None:
        self.ratio, self.batch_size, self.learning_starts, self.blocks = ratio, batch_size, learning_starts, blocks
        self.drain_rows = max(drain_rows, *blocks)
        self.pacing = make_pacing(ratio, learning_starts, lead=2 * sum(blocks), steps=steps)
        self.steps = steps
        self.permitted = 0  # as the samplers see it: what the learner said last
        self.taken = self.env_steps = self.updates = self.frames = 0

    @property
    def finished(self) -> bool:
        reached = self.steps is not None and self.env_steps >= self.steps
        return reached and self.pacing.allowed(self.env_steps, self.frames, self.batch_size) == 0

    def samplers_see(self) -> list[int]:
        """Who may step now. All of them may look at the same moment, and then all of them step."""
        at_start = self.learning_starts if self.steps is None else min(self.learning_starts, self.steps)
        return self.blocks if self.taken < (self.permitted or at_start) else []

    def learner_turn(self) -> bool:
        """What learner/loop.py does in one round; False when it had nothing to do."""
        worked = False
        waiting = self.taken - self.env_steps
        if waiting and self.pacing.may_ingest(self.env_steps, self.frames, self.batch_size):
            self.assert_exact()
            self.env_steps += min(waiting, self.drain_rows)
            worked = True
        allowed = self.pacing.allowed(self.env_steps, self.frames, self.batch_size)
        if allowed:
            self.updates += allowed
            self.frames += allowed * self.batch_size
            worked = True
        said = self.pacing.permitted(self.frames, self.batch_size)
        worked, self.permitted = worked or said != self.permitted, said
        return worked

    def assert_exact(self) -> None:
        counted = self.env_steps - self.learning_starts
        if counted < 0:
            assert self.updates == 0
            return
        owed = self.ratio * counted
        assert abs(self.frames - owed) < self.batch_size * (1 + 1e-6)
        assert self.frames <= owed * (1 + 1e-9) + 1e-6 * self.batch_size

    def assert_bounded_lead(self) -> None:
        """Nobody makes rows that wait long: at most the lead, and one step of each sampler that was under way."""
        if self.updates:
            for_next = (self.frames + self.batch_size) / self.ratio
            assert self.taken <= self.learning_starts + for_next + 1 + 3 * sum(self.blocks)


worlds = st.builds(
    World,
    ratio=st.one_of(st.sampled_from([0.01, 0.1, 0.3, 1.0, 7.7, 256.0, 10_000.0]), st.floats(0.01, 10_000.0)),
    batch_size=st.sampled_from([1, 2, 100, 128, 256, 8192]),
    blocks=st.lists(st.integers(1, 70), min_size=1, max_size=4),
    learning_starts=st.integers(1, 3_000),
    drain_rows=st.integers(1, 5_000),
    steps=st.none(),
)


@settings(max_examples=300, deadline=None)
@given(world=worlds, order=st.randoms(use_true_random=False), turns=st.integers(1, 60))
def test_the_ratio_is_exact_whenever_rows_are_let_in(world: World, order: random.Random, turns: int) -> None:
    for _ in range(turns):
        if order.random() < 0.5:
            for block in world.samplers_see():
                world.taken += block
        else:
            world.learner_turn()
        world.assert_bounded_lead()


@settings(max_examples=300, deadline=None)
@given(world=worlds, order=st.randoms(use_true_random=False), turns=st.integers(1, 60))
def test_the_ratio_stays_exact_while_the_batch_size_changes(world: World, order: random.Random, turns: int) -> None:
    for _ in range(turns):
        chance = order.random()
        if chance < 0.3:
            world.batch_size = order.choice([1, 2, 3, 100, 128, 256, 8192])
        elif chance < 0.6:
            for block in world.samplers_see():
                world.taken += block
        else:
            world.learner_turn()
    while world.learner_turn():
        pass
    world.assert_exact()


@settings(max_examples=200, deadline=None)
@given(world=worlds, samplers_first=st.booleans())
def test_nobody_waits_for_ever(world: World, samplers_first: bool) -> None:
    """Whoever is asked until it has nothing to do: then the other has, and updates go on."""
    while world.updates < 3:
        before = world.taken, world.env_steps, world.updates
        for turn in (samplers_first, not samplers_first):
            if turn:
                missing = (world.permitted or world.learning_starts) - world.taken
                rounds = -(-missing // sum(world.blocks))  # at once what they would do one by one
                world.taken += max(0, rounds) * sum(world.blocks)
            else:
                while world.learner_turn():
                    pass
        assert (world.taken, world.env_steps, world.updates) != before, "a deadlock"


@settings(max_examples=200, deadline=None)
@given(
    ratio=st.sampled_from([0.01, 0.5, 1.0, 13.7, 256.0, 10_000.0]),
    batch_size=st.sampled_from([1, 128, 8192]),
    blocks=st.lists(st.integers(1, 64), min_size=1, max_size=4),
    learning_starts=st.integers(1, 2_000),
    steps=st.integers(1, 5_000),
)
def test_a_limit_of_steps_is_reached_with_all_its_updates(
    ratio: float, batch_size: int, blocks: list[int], learning_starts: int, steps: int
) -> None:
    world = World(ratio, batch_size, blocks, learning_starts, 1_000, steps)
    rounds = 0
    while not world.finished:
        for block in world.samplers_see():
            world.taken += block
        world.learner_turn()
        rounds += 1
        assert rounds < 100_000, "a deadlock"
    world.assert_exact()
    assert steps <= world.env_steps < steps + sum(blocks)
    assert not world.samplers_see()
    assert not world.pacing.may_ingest(world.env_steps, world.frames, world.batch_size)


def test_exact_pacing_by_hand() -> None:
    pacing = ExactPacing(ratio=64.0, learning_starts=1_000, lead=10)  # of 256 rows: an update every 4 env steps
    assert [pacing.allowed(env_steps, 0, 256) for env_steps in (0, 999, 1_000, 1_003, 1_004, 1_011, 1_012)] == [
        0, 0, 0, 0, 1, 2, 3,
    ]  # fmt: skip
    assert pacing.allowed(1_012, 2 * 256, 256) == 1
    assert pacing.allowed(1_012, 3 * 256, 256) == 0
    assert not pacing.may_ingest(1_012, 2 * 256, 256)
    assert pacing.may_ingest(1_012, 3 * 256, 256)
    assert pacing.permitted(0, 256) == 1_000 + 4 + 10
    assert pacing.permitted(3 * 256, 256) == 1_000 + 16 + 10


def test_another_batch_size_draws_the_frames_that_are_still_owed() -> None:
    pacing = ExactPacing(ratio=64.0, learning_starts=1_000, lead=10)
    assert pacing.allowed(1_012, 2 * 256, 64) == 4  # of 768 frames 256 are left
    assert pacing.allowed(1_012, 2 * 256, 512) == 0  # half a batch
    assert pacing.may_ingest(1_012, 2 * 256, 512)
    assert pacing.permitted(2 * 256, 512) == 1_000 + 16 + 10


def test_a_ratio_that_binary_numbers_cannot_hold_still_gives_its_updates() -> None:
    """0.1 x 30 is a little more than 3, and 0.7 x 10 / 7 a little less than 1."""
    assert ExactPacing(0.1, 1, 1).allowed(31, 0, 1) == 3
    assert ExactPacing(0.7, 1, 1).allowed(11, 0, 7) == 1


def test_free_pacing_starts_and_ends() -> None:
    pacing = FreePacing(learning_starts=100, last_step=200)
    assert pacing.allowed(99, 0, 8) == 0
    assert pacing.allowed(100, 0, 8) == pacing.allowed(199, 400, 8) == UNBOUNDED
    assert pacing.allowed(200, 400, 8) == 0
    assert pacing.may_ingest(199, 0, 8)
    assert not pacing.may_ingest(200, 0, 8)
    assert pacing.permitted(0, 8) == pacing.permitted(10**7, 8) == 200


@pytest.mark.parametrize("steps", [None, 50])
def test_pacing_is_chosen_by_the_ratio(steps: int | None) -> None:
    assert make_pacing("free", 10, 1, steps) == FreePacing(10, UNBOUNDED if steps is None else 50)
    assert make_pacing(2, 10, 1, steps) == ExactPacing(2.0, 10, 1, UNBOUNDED if steps is None else 50)
    assert make_pacing("free", 10, 1, None).permitted(0, 8) == UNBOUNDED


def test_what_samplers_are_permitted_fits_a_cell_of_the_board() -> None:
    assert ExactPacing(1e-12, 10**6, 64).permitted(10**13, 8192) <= UNBOUNDED < 2**63
