"""The counting environment's proof: right rows pass, and every kind of wrong row is found."""

import numpy as np
import pytest

from spreeze.envs.counting_env import (
    ACTION_SIZE,
    LAYOUT,
    OBS_SIZE,
    check_rows,
    episode_length,
    episode_terminates,
    instances,
    places,
)
from spreeze.envs.registry import make_vec_env
from spreeze.envs.seeds import role_seed
from spreeze.envs.source import EnvSource

ENVS = 4
SOURCE = EnvSource.of("spreeze.envs.counting_env:make_counting_env")


def collect(steps: int, seed: int = 2**31 - 2, gamma: float = 0.99) -> np.ndarray:
    vec = make_vec_env(SOURCE, "gymnasium", ENVS, seed)
    generator, obs, rows = np.random.default_rng(0), vec.reset(), []
    for _ in range(steps):
        action = generator.uniform(-1, 1, (ENVS, ACTION_SIZE)).astype(np.float32)
        step = vec.step(action)
        discount = np.where(step.terminated, 0.0, gamma)
        rows.append(np.column_stack([obs, action, step.next_obs, step.reward, discount]))
        obs = step.obs
    return np.concatenate(rows).astype(np.float32)


def test_rows_of_several_episodes_are_right_and_each_is_there_once() -> None:
    rows = collect(200)
    assert check_rows(rows) == []
    assert len(np.unique(places(rows), axis=0)) == len(rows) == 200 * ENVS
    assert set(instances(rows)) == {2**31 - 2, 2**31 - 1, 0, 1}


def test_episodes_have_known_lengths_and_ends() -> None:
    rows = collect(60)
    mine = rows[places(rows)[:, 0] == 0]
    ends = LAYOUT.split(mine).discount == 0
    lengths = np.bincount(places(mine)[:, 1])[1:]
    assert [episode_length(1), episode_length(2), episode_length(3)] == [12, 19, 26]
    assert list(lengths) == [12, 19, 26, 3]
    assert list(np.flatnonzero(ends)) == [11, 12 + 19 + 25]  # 1 and 3 terminate, 2 is truncated
    assert not episode_terminates(2)


@pytest.mark.parametrize(
    ("field", "problem"),
    [("obs", "different"), ("next_obs", "different"), ("reward", "reward"), ("action", "action")],
)
def test_a_part_of_another_row_is_found(field: str, problem: str) -> None:
    rows = collect(30)
    part = LAYOUT.slice_of(field)
    rows[20, part] = rows[21, part]
    problems = check_rows(rows)
    assert any(problem in text and "1 of 120 rows (first: 20)" in text for text in problems), problems


@pytest.mark.parametrize("column", range(LAYOUT.row_size))
def test_a_row_torn_anywhere_is_found(column: int) -> None:
    """The first `column` numbers of one step, the rest of the next step of the same environment."""
    rows = collect(40)
    earlier, later = rows[5 * ENVS].copy(), rows[6 * ENVS]
    torn = np.concatenate([earlier[:column], later[column:]])
    whole = np.array_equal(torn, earlier) or np.array_equal(torn, later)
    assert (check_rows(torn[None]) == []) == whole


def test_memory_that_was_never_written_is_found() -> None:
    for poison in (0.0, np.nan, np.inf, 1e30, 7.0):
        assert check_rows(np.full((1, LAYOUT.row_size), poison, np.float32)) != []


def test_a_wrong_end_is_found() -> None:
    rows = collect(60)
    terminated = np.flatnonzero(LAYOUT.split(rows).discount == 0)[0]
    rows[terminated, LAYOUT.slice_of("discount")] = 0.99
    assert "discount is wrong" in check_rows(rows)[0]


def test_an_observation_after_a_reset_as_next_obs_is_found() -> None:
    vec = make_vec_env(SOURCE, "gymnasium", 1, 0)
    obs = vec.reset()
    for _ in range(12):
        action = np.zeros((1, ACTION_SIZE), np.float32)
        step = vec.step(action)
        row = np.column_stack([obs, action, step.obs, step.reward, [0.0]]).astype(np.float32)
        obs = step.obs
    assert step.terminated[0]
    assert any("different episodes" in text for text in check_rows(row))


@pytest.mark.parametrize("n_step", [2, 3])
def test_rows_over_several_steps_are_checked(n_step: int) -> None:
    gamma = 0.9
    single = collect(80, gamma=gamma)
    mine = single[places(single)[:, 0] == 1]
    rows = np.stack(
        [row for row in (_folded(mine[i:], gamma, n_step) for i in range(len(mine) - n_step)) if row is not None]
    )
    assert check_rows(rows, gamma, n_step) == []
    assert check_rows(rows, gamma, n_step + 1) != []
    rows[0, LAYOUT.slice_of("reward")] += 0.01
    assert check_rows(rows, gamma, n_step) == [f"reward is of another row: 1 of {len(rows)} rows (first: 0)"]


def test_rows_of_two_roles_never_have_the_same_place() -> None:
    rows = np.concatenate([collect(30, seed=role_seed(0, role)) for role in range(3)])
    assert len(np.unique(places(rows), axis=0)) == len(rows)
    assert rows.shape[1] == 2 * OBS_SIZE + ACTION_SIZE + 2


def _folded(rows: np.ndarray, gamma: float, n_step: int) -> np.ndarray | None:
    """The n-step row that starts at rows[0], from the single steps that follow, cut at the episode's end."""
    here = places(rows)
    span = [row for row, place in zip(rows[:n_step], here, strict=False) if place[1] == here[0, 1]]
    batch = LAYOUT.split(np.stack(span))
    reward = sum(gamma**k * float(r) for k, r in enumerate(batch.reward))
    discount = 0.0 if batch.discount[-1] == 0 else gamma ** len(span)
    return np.concatenate([batch.obs[0], batch.action[0], batch.next_obs[-1], [reward, discount]]).astype(np.float32)
