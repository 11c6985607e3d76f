"""Rows by numbers computed by hand, and by the definition of an n-step return, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spreeze.experience.packing import NStepPacker, OneStepPacker, block_rows, make_packer
from spreeze.spec import Layout, Step

GAMMA = 0.5  # its powers are exact in float32
LAYOUT = Layout(obs_size=2, action_size=1)  # | obs 2 | action 1 | next_obs 2 | reward | discount |


def obs_of(*firsts: float) -> np.ndarray:
    """(K, 2): an observation is its number and the number's tenfold."""
    first = np.array(firsts, np.float32)
    return np.stack([first, 10 * first], axis=1)


def step(
    next_obs: np.ndarray,
    reward: list[float],
    terminated: list[bool] | None = None,
    truncated: list[bool] | None = None,
    valid: list[bool] | None = None,
) -> Step:
    nobody = [False] * len(reward)
    return Step(
        next_obs=next_obs,
        reward=np.array(reward, np.float32),
        terminated=np.array(terminated or nobody),
        truncated=np.array(truncated or nobody),
        obs=next_obs,
        valid=None if valid is None else np.array(valid),
    )


def row(obs: float, action: float, next_obs: float, reward: float, discount: float) -> list[float]:
    return [obs, 10 * obs, action, next_obs, 10 * next_obs, reward, discount]


def act(packer: OneStepPacker | NStepPacker, obs: np.ndarray, action: list[float], answer: Step) -> list[list[float]]:
    packer.before_step(obs, np.array(action, np.float32)[:, None])
    return packer.after_step(answer).tolist()


# --- one step -----------------------------------------------------------------------------------------------------


def test_one_step_terminated_has_no_bootstrap_and_truncated_keeps_it() -> None:
    packer = OneStepPacker(LAYOUT, 4, GAMMA)
    rows = act(
        packer,
        obs_of(1, 2, 3, 4),
        [0.1, 0.2, 0.3, 0.4],
        step(obs_of(5, 6, 7, 8), [1, 2, 3, 4], [False, True, False, True], [False, False, True, True]),
    )
    np.testing.assert_allclose(
        rows,
        [
            row(1, 0.1, 5, 1, 0.5),
            row(2, 0.2, 6, 2, 0.0),
            row(3, 0.3, 7, 3, 0.5),
            row(4, 0.4, 8, 4, 0.0),  # terminated in the last permitted step: nothing follows
        ],
    )


def test_one_step_gives_no_row_where_nothing_happened() -> None:
    packer = OneStepPacker(LAYOUT, 3, GAMMA)
    rows = act(packer, obs_of(1, 2, 3), [0, 0, 0], step(obs_of(4, 5, 6), [1, 2, 3], valid=[True, False, True]))
    assert rows == [row(1, 0, 4, 1, 0.5), row(3, 0, 6, 3, 0.5)]


def test_one_step_keeps_what_it_was_told_before_the_environment_moved_on() -> None:
    """The environment may write its next observation into the array that the policy acted on."""
    packer = OneStepPacker(LAYOUT, 1, GAMMA)
    obs = obs_of(1)
    packer.before_step(obs, np.zeros((1, 1), np.float32))
    obs[:] = obs_of(2)
    assert packer.after_step(step(obs, [3])).tolist() == [row(1, 0, 2, 3, 0.5)]
    assert packer.forget() == 0  # nothing ever waits


# --- n steps ------------------------------------------------------------------------------------------------------


def test_three_steps_fold_into_one_row() -> None:
    packer = NStepPacker(LAYOUT, 1, GAMMA, 3)
    assert act(packer, obs_of(1), [0.25], step(obs_of(2), [8])) == []
    assert act(packer, obs_of(2), [0.5], step(obs_of(3), [4])) == []
    # 8 + 0.5 x 4 + 0.25 x 2 = 10.5; three steps ahead; 0.5^3
    assert act(packer, obs_of(3), [0.75], step(obs_of(4), [2])) == [row(1, 0.25, 4, 10.5, 0.125)]
    # 4 + 0.5 x 2 + 0.25 x 16 = 9
    assert act(packer, obs_of(4), [1.0], step(obs_of(5), [16])) == [row(2, 0.5, 5, 9, 0.125)]


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_an_episode_s_end_folds_what_waits_into_shorter_rows(ending: str) -> None:
    packer = NStepPacker(LAYOUT, 1, GAMMA, 3)
    for first, reward in ((1, 8), (2, 4), (3, 2)):
        rows = act(packer, obs_of(first), [0], step(obs_of(first + 1), [reward]))
    assert rows == [row(1, 0, 4, 10.5, 0.125)]
    over = {ending: [True]}
    rows = act(packer, obs_of(4), [0], step(obs_of(5), [16], **over))
    discounts = [0, 0, 0] if ending == "terminated" else [0.125, 0.25, 0.5]
    assert rows == [
        row(2, 0, 5, 4 + 1 + 4, discounts[0]),
        row(3, 0, 5, 2 + 8, discounts[1]),
        row(4, 0, 5, 16, discounts[2]),
    ]
    assert act(packer, obs_of(7), [0], step(obs_of(8), [1])) == []  # the new episode waits anew


def test_an_episode_shorter_than_n() -> None:
    packer = NStepPacker(LAYOUT, 1, GAMMA, 5)
    assert act(packer, obs_of(1), [0], step(obs_of(2), [8])) == []
    rows = act(packer, obs_of(2), [0], step(obs_of(3), [4], truncated=[True]))
    assert rows == [row(1, 0, 3, 10, 0.25), row(2, 0, 3, 4, 0.5)]


def test_environments_are_folded_apart_from_each_other() -> None:
    packer = NStepPacker(LAYOUT, 2, GAMMA, 2)
    assert act(packer, obs_of(1, 101), [0, 1], step(obs_of(2, 102), [8, 80])) == []
    assert act(packer, obs_of(2, 102), [0, 1], step(obs_of(3, 103), [4, 40], terminated=[False, True])) == [
        row(1, 0, 3, 10, 0.25),
        row(101, 1, 103, 100, 0),
        row(102, 1, 103, 40, 0),
    ]
    assert act(packer, obs_of(3, 200), [0, 1], step(obs_of(4, 201), [2, 20])) == [row(2, 0, 4, 5, 0.25)]


def test_a_reset_that_the_engine_counts_as_a_step_is_no_step() -> None:
    packer = NStepPacker(LAYOUT, 1, GAMMA, 2)
    assert act(packer, obs_of(1), [0], step(obs_of(2), [8], terminated=[True], valid=[True])) == [row(1, 0, 2, 8, 0)]
    assert act(packer, obs_of(2), [0.5], step(obs_of(10), [99], valid=[False])) == []
    assert act(packer, obs_of(10), [0], step(obs_of(11), [4], valid=[True])) == []
    assert act(packer, obs_of(11), [0], step(obs_of(12), [2], valid=[True])) == [row(10, 0, 12, 5, 0.25)]


def test_an_interrupted_step_and_what_waits_become_no_rows() -> None:
    packer = NStepPacker(LAYOUT, 1, GAMMA, 2)
    act(packer, obs_of(1), [0], step(obs_of(2), [8]))
    packer.before_step(obs_of(2), np.zeros((1, 1), np.float32))
    assert packer.forget() == 1  # the one that waited; the interrupted one is counted by who interrupted it
    assert packer.forget() == 0
    assert act(packer, obs_of(5), [0], step(obs_of(6), [4])) == []
    assert act(packer, obs_of(6), [0], step(obs_of(7), [2])) == [row(5, 0, 7, 5, 0.25)]


def test_the_fullest_block_has_room() -> None:
    """All episodes end while n steps of each wait."""
    packer = NStepPacker(LAYOUT, 3, GAMMA, 4)
    for first in range(3):
        act(packer, obs_of(first, first, first), [0, 0, 0], step(obs_of(first + 1, 0, 0), [1, 1, 1]))
    rows = act(packer, obs_of(3, 3, 3), [0, 0, 0], step(obs_of(4, 4, 4), [1, 1, 1], terminated=[True] * 3))
    assert len(rows) == packer.block_rows == block_rows(3, 4) == 12


def test_one_step_is_packed_without_history() -> None:
    assert isinstance(make_packer(LAYOUT, 2, GAMMA, 1), OneStepPacker)
    assert isinstance(make_packer(LAYOUT, 2, GAMMA, 2), NStepPacker)


# --- against the definition ---------------------------------------------------------------------------------------


def naive_rows(episode: list[tuple[float, float]], last_obs: float, ending: str | None, n: int) -> list[list[float]]:
    """Rows of one episode of (obs, reward), in order; ending None: it still goes on."""
    rows = []
    for start, (first, _) in enumerate(episode):
        taken = episode[start : start + n]
        cut = start + len(taken) == len(episode)
        if ending is None and len(taken) < n:
            break
        reward = sum(GAMMA**k * reward for k, (_, reward) in enumerate(taken))
        reached = last_obs if cut else episode[start + n][0]
        rows.append(row(first, 0, reached, reward, 0.0 if cut and ending == "terminated" else GAMMA ** len(taken)))
    return rows


KINDS = st.sampled_from(["goes on", "goes on", "goes on", "terminated", "truncated", "only reset"])


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 5), moments=st.lists(st.tuples(KINDS, KINDS), max_size=25))
def test_every_env_step_gives_one_row_and_the_row_is_the_n_step_return(n: int, moments: list[tuple[str, str]]) -> None:
    packer = make_packer(LAYOUT, 2, GAMMA, n)
    got: list[list[list[float]]] = [[], []]
    expected: list[list[list[float]]] = [[], []]
    episodes: list[list[tuple[float, float]]] = [[], []]
    now = [0.0, 1_000.0]
    env_steps = waiting = 0
    for kinds in moments:
        reward = [float(int(at) % 7) for at in now]
        packer.before_step(obs_of(*now), np.zeros((2, 1), np.float32))
        answer = step(
            obs_of(now[0] + 1, now[1] + 1),
            reward,
            [kind == "terminated" for kind in kinds],
            [kind == "truncated" for kind in kinds],
            # an engine resets only what has ended, so elsewhere the step is an ordinary one
            [kind != "only reset" or bool(episodes[env]) for env, kind in enumerate(kinds)],
        )
        for packed in packer.after_step(answer).tolist():
            got[int(packed[0] >= 1_000)].append(packed)
        for env, kind in enumerate(kinds):
            if kind == "only reset" and not episodes[env]:
                now[env] += 50
                continue
            env_steps += 1
            episodes[env].append((now[env], reward[env]))
            now[env] += 1
            if kind in ("terminated", "truncated"):
                expected[env] += naive_rows(episodes[env], now[env], kind, n)
                episodes[env] = []
                now[env] += 50
    for env in (0, 1):
        unfinished = naive_rows(episodes[env], now[env], None, n)
        waiting += len(episodes[env]) - len(unfinished)
        expected[env] += unfinished
    assert got == expected
    assert sum(map(len, got)) == env_steps - waiting
    assert waiting <= 2 * (n - 1)
