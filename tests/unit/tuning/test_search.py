"""The decision over machines that are made up: what it finds, how soon, and that it then stays."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spreeze.tuning.baselines import enumerate_all, optimise
from spreeze.tuning.search import (
    ADAPTED,
    FOUND,
    LEAST_FIXED_SHARE,
    MOST_REUSE,
    STAY_FIXED_SHARE,
    TRY,
    WATCH,
    WINDOW_S,
    Move,
    Search,
    Setting,
    Space,
    Steps,
    Window,
    fixed_share,
    middle,
    pace,
    reuse,
    search,
    speed,
)  # fmt: skip

LADDER = (1024, 2048, 4096, 8192, 16384, 32768)
SETTLE_WINDOWS = 0.5  # what a tuner lets pass after each change, in windows


@dataclass
class Machine:
    """Cores that samplers, the learner's threads and other programs share fairly."""

    cores: int = 16
    learner_threads: int = 1
    fixed_s: float = 55e-6  # of an update, and for each row of its batch
    row_s: float = 1.2e-8
    step_s: float = 50e-6  # one core, one env step
    noise: float = 0.0
    others: Callable[[float], float] = lambda now_s: 0.0
    slowed: Callable[[float], float] = lambda now_s: 1.0  # thermal limit: times as slow
    smt: float = 0.0  # of the learner's speed that each further busy core takes
    seed: int = 0
    now_s: float = 0.0
    random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self.random.seed(self.seed)

    def measure(self, setting: Setting) -> Window:
        self.now_s += WINDOW_S
        others = self.others(self.now_s)
        wanted = setting.samplers + self.learner_threads + others
        share = min(1.0, self.cores / wanted) / self.slowed(self.now_s)
        update_s = self.fixed_s + self.row_s * setting.batch_size
        learner = share * max(0.05, 1 - self.smt * (setting.samplers - 1))
        return Window(
            update_hz=learner / update_s * self._noise(),
            sample_hz=share * setting.samplers / self.step_s * self._noise(),
            cores_busy=min(float(self.cores), wanted),
            cores_of_others=others * min(1.0, self.cores / wanted),
        )

    def _noise(self) -> float:
        return max(0.1, self.random.gauss(1.0, self.noise))


def space_of(samplers: int, cores: int, ladder: tuple[int, ...] = LADDER, **fixed: str) -> Space:
    return Space(
        samplers, fixed.get("samplers_fixed"), ladder, "one rung" if len(ladder) == 1 else None, cores
    )  # fmt: skip


class Course:
    """What a search did on a machine."""

    def __init__(
        self, machine: Machine, space: Space, start: Setting, known: str | None = None, steps: Steps | None = None
    ) -> None:
        self.machine, self.search = machine, Search(steps or search(space, start, known))
        self.moves: list[tuple[float, Move]] = [(0.0, self.search.ask())]

    def go_on(self, seconds: float) -> Course:
        until = self.machine.now_s + seconds
        while self.machine.now_s < until:
            before = self.search.ask()
            self.search.tell(self.machine.measure(before.setting))
            move = self.search.ask()
            if move is not before and (move.phase, move.setting) != (before.phase, before.setting):
                self.machine.now_s += SETTLE_WINDOWS * WINDOW_S
                self.moves.append((self.machine.now_s, move))
        return self

    def phases(self, phase: str) -> list[Move]:
        return [move for _, move in self.moves if move.phase == phase]

    @property
    def found(self) -> Move:
        (found,) = self.phases(FOUND)
        return found

    def found_at_s(self) -> float:
        return next(at for at, move in self.moves if move.phase == FOUND)

    def tried(self) -> list[Setting]:
        return [move.setting for move in self.phases(TRY)]

    @property
    def now(self) -> Setting:
        return self.search.ask().setting


def share_of(machine: Machine, batch_size: int) -> float:
    return machine.fixed_s / (machine.fixed_s + machine.row_s * batch_size)


def test_where_there_is_nothing_to_try_nothing_is_tried() -> None:
    space = Space(1, "one is all that 2 cores hold", (64,), "one thread of a CPU", 2)
    assert space.fixed
    assert space.why_nothing() == "samplers: one is all that 2 cores hold; batch size: one thread of a CPU"


def test_a_start_that_is_right_is_kept_after_one_look_at_its_neighbour() -> None:
    """An H200: 70 us an update of 1,024 rows, 154 us one of 8,192 (docs/decisions/0006)."""
    course = Course(Machine(), space_of(14, 16), Setting(14, 8192)).go_on(10)
    assert course.found.setting == Setting(14, 8192)
    assert [setting.batch_size for setting in course.tried()][:2] == [8192, 4096]
    assert course.found_at_s() < 15
    assert "a third is sought" in course.found.reason


@pytest.mark.parametrize(
    ("row_s", "sought"), [(1.2e-7, 1024), (4.5e-8, 2048), (1.2e-8, 8192), (2.5e-9, 32768), (0.0, 32768)]
)
def test_the_batch_is_the_largest_of_which_a_third_is_fixed(row_s: float, sought: int) -> None:
    machine = Machine(row_s=row_s, step_s=1e-6)  # rows are plenty
    course = Course(machine, space_of(4, 16, samplers_fixed="asked for"), Setting(4, 8192)).go_on(15)
    assert course.found.setting.batch_size == sought
    assert len(set(course.tried())) == len(course.tried()), "a batch size was measured twice"
    assert course.found_at_s() < 15


def test_a_batch_in_force_that_is_nearly_right_is_left_alone() -> None:
    machine = Machine(row_s=1.6e-8, step_s=1e-6)
    assert STAY_FIXED_SHARE < share_of(machine, 8192) < LEAST_FIXED_SHARE
    assert (
        Course(machine, space_of(4, 16, samplers_fixed="x"), Setting(4, 8192)).go_on(10).found.setting.batch_size
        == 8192
    )


def test_a_learner_too_slow_to_be_measured_keeps_its_batch() -> None:
    course = Course(Machine(fixed_s=0.05), space_of(11, 16), Setting(11, 8192)).go_on(10)
    assert course.found.setting.batch_size == 8192
    assert "too few updates" in course.found.reason


def test_many_cores_with_room_keep_their_samplers_untried() -> None:
    course = Course(Machine(cores=32), space_of(14, 32), Setting(14, 8192)).go_on(10)
    assert course.found.setting.samplers == 14
    assert {setting.samplers for setting in course.tried()} == {14}
    assert "15.0 of 32 cores are busy, so another number of samplers was not tried" in course.found.reason


def test_samplers_that_take_the_learner_s_speed_are_parked() -> None:
    """Hyperthreads: each busy one slows the learner, and rows are plenty."""
    course = Course(Machine(smt=0.06, cores=16, step_s=1e-6), space_of(15, 16, (8192,)), Setting(15, 8192)).go_on(15)
    assert course.found.setting.samplers < 9
    assert course.found_at_s() < 15


@pytest.mark.parametrize(
    ("fixed_s", "row_s", "step_s", "sought"),
    [  # an H200 (docs/decisions/0006) with environments as they were measured there: HalfCheetah, Hopper, Ant, Humanoid
        (61e-6, 1.2e-8, 6e-5, 8192),
        (61e-6, 1.2e-8, 1.8e-4, 2048),
        (78e-6, 2.3e-8, 4e-4, 1024),
        (59e-6, 5.3e-8, 7e-4, 1024),
    ],
)
def test_a_slow_environment_gets_a_batch_that_draws_its_rows_less_often(
    fixed_s: float, row_s: float, step_s: float, sought: int
) -> None:
    machine = Machine(fixed_s=fixed_s, row_s=row_s, step_s=step_s)
    space = replace(space_of(14, 16), knee="its knee is known")
    course = Course(machine, space, Setting(14, 8192)).go_on(60)
    assert course.found.setting == Setting(14, sought)
    assert course.found_at_s() < 8
    assert ("its knee is known" if sought == 8192 else "a row is drawn") in course.found.reason
    assert len({setting.batch_size for setting in course.tried()}) <= 3


def test_the_largest_batch_that_does_not_draw_rows_too_often_is_found_after_a_step_too_far() -> None:
    """The time of an update hardly depends on the batch, so its estimate is far off."""
    machine = Machine(fixed_s=2e-4, row_s=1e-10, step_s=14 / 40_000)  # 5,000 updates and 40,000 env steps a second
    found = Course(machine, space_of(14, 16), Setting(14, 32768)).go_on(20).found
    assert found.setting.batch_size == 2048
    assert reuse(found.setting, machine.measure(found.setting)) <= MOST_REUSE
    larger = replace(found.setting, batch_size=4096)
    assert reuse(larger, machine.measure(larger)) > MOST_REUSE


def test_a_batch_that_costs_little_is_left_alone_where_it_draws_rows_too_often() -> None:
    machine = Machine(fixed_s=2e-4, row_s=1e-10, step_s=14 / 250_000)  # 5,000 updates and 250,000 env steps a second
    found = Course(machine, space_of(14, 16), Setting(14, 8192)).go_on(20).found
    assert found.setting.batch_size == 16384
    assert "with 32,768 a row is drawn" in found.reason


def test_how_often_a_row_is_drawn_by_hand() -> None:
    assert reuse(Setting(1, 256), Window(update_hz=100.0, sample_hz=100.0)) == 256.0
    window = Window(update_hz=100.0, sample_hz=50.0)  # 10 ms an update and, with 512 rows, 2 fresh rows of 20 ms each
    assert pace(Setting(1, 512), window) == pytest.approx(20.0)
    assert pace(Setting(1, 512), Window(100.0, 0.0)) == 0.0


def test_a_slow_environment_keeps_every_sampler() -> None:
    """200 env steps a second and core: rows are what is missing."""
    machine = Machine(cores=16, smt=0.01, step_s=5e-3)
    course = Course(machine, space_of(15, 16, (8192,)), Setting(15, 8192)).go_on(15)
    assert course.found.setting.samplers == 15
    assert "not worth it" in course.found.reason


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("noise", "good"), [(0.03, (4096, 8192, 16384)), (0.1, LADDER)])
def test_noise_neither_prolongs_a_search_nor_moves_what_it_found(
    noise: float, good: tuple[int, ...], seed: int
) -> None:
    course = Course(Machine(noise=noise, seed=seed), space_of(14, 16), Setting(14, 8192)).go_on(600)
    assert course.found_at_s() < 15
    assert course.found.setting.batch_size in good
    assert course.now.batch_size == course.found.setting.batch_size
    assert len(course.phases(ADAPTED)) <= 2
    assert course.now.samplers >= 10


def best_of_all(machine: Machine, space: Space) -> float:
    """By an exhaustive sweep without noise."""
    still = replace(machine, noise=0.0)
    settings = [Setting(n, batch) for n in range(1, space.samplers + 1) for batch in space.batch_sizes]
    return max(speed(setting, still.measure(setting)) for setting in settings)


MACHINES = {
    "H200": Machine(),
    "a small GPU": Machine(cores=8, fixed_s=3e-4, row_s=2e-7),
    "hyperthreads": Machine(cores=16, smt=0.05),
    "wide networks": Machine(fixed_s=8e-5, row_s=8e-8),
    "noise": Machine(noise=0.03, seed=3),
}


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_found_is_nearly_the_best_of_an_exhaustive_sweep(name: str) -> None:
    machine = replace(MACHINES[name])
    space = space_of(machine.cores - 2, machine.cores)
    found = Course(machine, space, Setting(space.samplers, 8192)).go_on(20).found.setting
    assert speed(found, replace(machine, noise=0.0).measure(found)) > 0.85 * best_of_all(machine, space)


@pytest.mark.parametrize("way", [enumerate_all, optimise])
def test_other_ways_to_search_end_with_one_of_what_they_tried(way: Callable[[Space, Setting], Steps]) -> None:
    if way is optimise:
        pytest.importorskip("optuna")
    space, start = space_of(6, 8), Setting(6, 8192)
    course = Course(Machine(cores=8), space, start, steps=way(space, start)).go_on(60)
    assert course.found.setting in course.tried()
    assert course.now == course.found.setting
    assert course.found_at_s() <= (12 if way is enumerate_all else 8) * 1.75
    if way is enumerate_all:  # the most frames a second: the largest batch, whatever becomes of the updates
        assert course.found.setting == Setting(6, 32768)


@pytest.mark.parametrize("way", [enumerate_all, optimise])
def test_they_leave_alone_what_is_fixed(way: Callable[[Space, Setting], Steps]) -> None:
    if way is optimise:
        pytest.importorskip("optuna")
    space, start = space_of(6, 8, (4096,), samplers_fixed="asked for"), Setting(6, 4096)
    assert Course(Machine(cores=8), space, start, steps=way(space, start)).go_on(60).now == start


def burning(cores: float, since_s: float, until_s: float) -> Callable[[float], float]:
    return lambda now_s: cores if since_s <= now_s < until_s else 0.0


@pytest.mark.parametrize("cores", [4, 16])
def test_half_the_cores_are_left_to_another_program_and_taken_again(cores: int) -> None:
    machine = Machine(cores=cores, others=burning(cores / 2, 20, 50))
    course = Course(machine, space_of(cores - 1, cores, (8192,)), Setting(cores - 1, 8192)).go_on(20)
    assert course.now.samplers == cores - 1
    course.go_on(15)
    assert 1 <= course.now.samplers <= cores / 2
    assert f"of {cores} cores" in course.phases(ADAPTED)[0].reason
    course.go_on(30)
    assert course.now.samplers == cores - 1
    assert 2 <= len(course.phases(ADAPTED)) <= 4


def test_a_run_that_begins_beside_another_program_takes_the_cores_when_that_ends() -> None:
    machine = Machine(cores=16, others=burning(8, 0, 60))
    course = Course(machine, space_of(15, 16, (8192,)), Setting(15, 8192)).go_on(30)
    assert course.found.setting.samplers < 12
    assert "other programs have" in course.found.reason
    assert course.go_on(60).now.samplers == 15


def test_a_program_that_comes_and_goes_is_followed_more_and_more_rarely() -> None:
    machine = Machine(cores=8, others=lambda now_s: 4.0 * (int(now_s / 6) % 2))
    course = Course(machine, space_of(7, 8, (64,)), Setting(7, 64)).go_on(1_800)
    assert len(course.phases(ADAPTED)) < 15


def test_a_thermal_limit_is_answered_once_with_its_reason() -> None:
    machine = Machine(cores=16, smt=0.02, slowed=lambda now_s: 2.0 if now_s > 60 else 1.0)
    course = Course(machine, space_of(15, 16, (8192,)), Setting(15, 8192)).go_on(300)
    assert 1 <= len(course.phases(ADAPTED)) <= 2
    assert "were usual" in course.phases(ADAPTED)[0].reason


def test_a_known_setting_is_not_searched_for_and_is_watched() -> None:
    machine = Machine(cores=4, others=burning(2, 20, 50))
    course = Course(machine, space_of(3, 4), Setting(3, 2048), known="found here before").go_on(19)
    assert course.phases(TRY) == []
    assert course.found.reason.endswith("found here before")
    assert course.go_on(20).now.samplers < 3


def test_fixed_samplers_are_not_touched_whatever_happens() -> None:
    machine = Machine(cores=4, others=burning(4, 20, 500), slowed=lambda now_s: 3.0 if now_s > 100 else 1.0)
    course = Course(machine, space_of(3, 4, samplers_fixed="asked for"), Setting(3, 8192)).go_on(300)
    assert {move.setting.samplers for _, move in course.moves} == {3}


def test_a_learner_that_waits_is_no_reason_to_change() -> None:
    waiting = Search(search(space_of(3, 4, (64,)), Setting(3, 64), known="known"))
    for _ in range(200):
        waiting.tell(Window(0.0, 0.0, cores_busy=0.0, cores_of_others=0.0))
    assert (waiting.ask().phase, waiting.ask().setting) == (WATCH, Setting(3, 64))


def test_the_fixed_share_by_hand() -> None:
    measured = {100: Window(1 / 3e-3, 1.0), 200: Window(1 / 4e-3, 1.0)}  # 2 ms + 10 us a row
    assert fixed_share(measured, 200) == pytest.approx(0.5)
    assert fixed_share(measured, 400) == pytest.approx(1 / 3)
    faster_with_more_rows = {100: Window(100.0, 1.0), 200: Window(110.0, 1.0)}
    assert fixed_share(faster_with_more_rows, 400) == 1.0


def test_the_middle_of_windows() -> None:
    windows = [Window(1.0, 30.0, 2.0), Window(9.0, 10.0, 3.0), Window(2.0, 20.0, 99.0)]
    assert middle(windows) == Window(2.0, 20.0, 3.0, None, 0.0)


rates = st.one_of(st.just(0.0), st.floats(1e-3, 1e7))
windows = st.builds(
    Window, update_hz=rates, sample_hz=rates, cores_busy=st.none() | st.floats(0, 64),
    cores_of_others=st.none() | st.floats(0, 64), ring_full=st.floats(0, 1),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    samplers=st.integers(1, 40),
    rungs=st.integers(1, 6),
    told=st.lists(windows, min_size=1, max_size=10),
    data=st.data(),
)
def test_whatever_is_measured_it_ends_and_stays_within_what_there_is(
    samplers: int, rungs: int, told: list[Window], data: Any
) -> None:
    ladder = LADDER[:rungs]
    start = Setting(data.draw(st.integers(1, samplers)), data.draw(st.sampled_from(ladder)))
    going_on, searched = Search(search(space_of(samplers, 16, ladder), start)), 0
    for turn in range(200):
        searched += turn == searched and not going_on.done()
        going_on.tell(told[turn % len(told)])
        setting = going_on.ask().setting
        assert 1 <= setting.samplers <= samplers
        assert setting.batch_size in ladder
    assert searched <= 24, "8 settings of 3 windows"
