"""Seeds are addresses: no two environments of a run share one."""

import numpy as np
import pytest

from spreeze.envs.seeds import ENVS_PER_ROLE, SEED_SPACE, env_seed, role_seed


@pytest.mark.parametrize("run_seed", [0, 1, 2**31 - 1])
def test_no_two_environments_share_a_seed(run_seed: int) -> None:
    seeds = [
        env_seed(role_seed(run_seed, role, life), env, generation)
        for role in (0, 1, 2, 511, 1023)
        for life in range(3)
        for env in (0, 1, 7, ENVS_PER_ROLE - 1)
        for generation in range(5)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < SEED_SPACE for seed in seeds)


def test_no_two_lives_share_a_seed_however_many_there_are() -> None:
    seeds = [
        env_seed(role_seed(0, role, life), env, generation)
        for role in (0, 1)
        for life in range(300)
        for env in range(4)
        for generation in (0, 1, 15, 16, 99)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < SEED_SPACE for seed in seeds)


def test_runs_with_neighbouring_seeds_are_far_apart() -> None:
    firsts = np.array([role_seed(run_seed, 0) for run_seed in range(50)])
    gaps = np.diff(np.sort(firsts))
    assert gaps.min() > ENVS_PER_ROLE


def test_a_role_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 1023"):
        role_seed(0, 1024)
