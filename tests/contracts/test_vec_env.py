"""What every environment backend promises, run over all of them."""

import dataclasses
import itertools

import gymnasium
import numpy as np
import pytest

from spreeze.envs.registry import choose_backend, make_vec_env, probe
from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import ConfigError, SpreezeError
from spreeze.spec import Step, VecEnv

NEEDS = {
    "HalfCheetah-v5": "mujoco",
    "Hopper-v5": "mujoco",
    "HalfCheetahBulletEnv-v0": "pybullet_envs_gymnasium",
}
CASES = [
    ("gymnasium", "Pendulum-v1"),
    ("gymnasium", "HalfCheetah-v5"),
    ("gymnasium", "Hopper-v5"),
    ("gymnasium", "HalfCheetahBulletEnv-v0"),
    ("envpool", "Pendulum-v1"),
    ("envpool", "HalfCheetah-v5"),
    ("envpool", "Hopper-v5"),
]
GYMNASIUM_CASES = [case for case in CASES if case[0] == "gymnasium"]
TRUNCATING = [case for case in CASES if case[1] == "Pendulum-v1"]
TERMINATING = [case for case in CASES if case[1] == "Hopper-v5"]
ENVS = 3


def need(backend: str, env_id: str) -> None:
    if env_id in NEEDS:
        pytest.importorskip(NEEDS[env_id])
    if backend == "envpool":
        pytest.importorskip("envpool", exc_type=ImportError)


def make(backend: str, env_id: str, seed: int = 7, num_envs: int = ENVS) -> VecEnv:
    need(backend, env_id)
    return make_vec_env(EnvSource.of(env_id), backend, num_envs, seed)


def actions(vec: VecEnv, count: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.uniform(-1, 1, (count, vec.num_envs, vec.spec.action_size)).astype(np.float32)


def copied(step: Step) -> Step:
    return Step(*(None if part is None else part.copy() for part in step))


def run(vec: VecEnv, count: int) -> tuple[np.ndarray, list[Step]]:
    return vec.reset().copy(), [copied(vec.step(action)) for action in actions(vec, count)]


@pytest.mark.parametrize(("backend", "env_id"), CASES)
def test_arrays_have_the_promised_shapes_and_types(backend: str, env_id: str) -> None:
    vec = make(backend, env_id)
    obs, steps = run(vec, 50)
    assert obs.shape == (ENVS, vec.spec.obs_size)
    assert obs.dtype == np.float32
    for step in steps:
        for rows in (step.next_obs, step.obs):
            assert rows.shape == (ENVS, vec.spec.obs_size)
            assert rows.dtype == np.float32
            assert np.isfinite(rows).all()
        assert step.reward.shape == (ENVS,)
        assert step.reward.dtype == np.float32
        assert np.isfinite(step.reward).all()
        for flags in (step.terminated, step.truncated):
            assert flags.shape == (ENVS,)
            assert flags.dtype == bool
    vec.close()
    vec.close()


@pytest.mark.parametrize(("backend", "env_id"), CASES)
def test_a_seed_decides_everything_and_environments_differ(backend: str, env_id: str) -> None:
    (first_obs, first), (again_obs, again) = (run(make(backend, env_id, seed=11), 60) for _ in range(2))
    other_obs, other = run(make(backend, env_id, seed=11 + 4096), 60)
    np.testing.assert_array_equal(first_obs, again_obs)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.next_obs, two.next_obs)
        np.testing.assert_array_equal(one.reward, two.reward)
    if env_id == "HalfCheetahBulletEnv-v0":  # its start hardly varies; the joints' noise shows after a step
        first_obs, other_obs = first[0].next_obs, other[0].next_obs
    assert len(np.unique(np.concatenate([first_obs, other_obs]), axis=0)) == 2 * ENVS


@pytest.mark.parametrize(("backend", "env_id"), [case for case in CASES if case[1] != "HalfCheetahBulletEnv-v0"])
def test_reset_with_the_seed_starts_the_same_episodes_again(backend: str, env_id: str) -> None:
    vec = make(backend, env_id, seed=3)
    first = vec.reset().copy()
    vec.step(actions(vec, 1)[0])
    assert not np.array_equal(vec.reset(), first)
    np.testing.assert_array_equal(vec.reset(seed=3), first)
    assert not np.array_equal(vec.reset(seed=4 * 4096), first)


@pytest.mark.parametrize(("backend", "env_id"), GYMNASIUM_CASES)
def test_rows_are_those_of_gymnasium_stepped_by_hand(backend: str, env_id: str) -> None:
    vec = make(backend, env_id, seed=5)
    by_hand = [make_env(EnvSource.of(env_id)) for _ in range(ENVS)]
    obs = vec.reset()
    for index, env in enumerate(by_hand):
        np.testing.assert_array_equal(obs[index], env.reset(seed=5 + index)[0].astype(np.float32))
    low, high = np.array(vec.spec.action_low), np.array(vec.spec.action_high)
    for action in actions(vec, 230):
        step = vec.step(action)
        assert step.valid is None
        for index, env in enumerate(by_hand):
            scaled = (low + (action[index] + 1) / 2 * (high - low)).astype(np.float32)
            if (low == -high).all():
                scaled = (action[index] * high).astype(np.float32)
            next_obs, reward, terminated, truncated, _ = env.step(scaled)
            np.testing.assert_array_equal(step.next_obs[index], next_obs.astype(np.float32))
            assert step.reward[index] == np.float32(reward)
            assert (step.terminated[index], step.truncated[index]) == (terminated, truncated)
            expected = env.reset()[0] if terminated or truncated else next_obs
            np.testing.assert_array_equal(step.obs[index], expected.astype(np.float32))


@pytest.mark.parametrize(("backend", "env_id"), TRUNCATING)
def test_a_time_limit_truncates_and_keeps_the_true_last_observation(backend: str, env_id: str) -> None:
    vec = make(backend, env_id)
    _, steps = run(vec, 202)
    assert not any(step.truncated.any() for step in steps[:199])
    last = steps[199]
    assert last.truncated.all()
    assert not last.terminated.any()
    before = steps[198].next_obs
    angle, velocity = np.arctan2(before[:, 1], before[:, 0]), before[:, 2]
    torque = 2.0 * actions(vec, 202)[199, :, 0]
    new_velocity = np.clip(velocity + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8, 8)
    new_angle = angle + new_velocity * 0.05
    expected = np.column_stack([np.cos(new_angle), np.sin(new_angle), new_velocity])
    np.testing.assert_allclose(last.next_obs, expected, atol=1e-5)
    new_start = last.obs if backend == "gymnasium" else steps[200].obs
    assert (np.abs(new_start - last.next_obs).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize(("backend", "env_id"), TERMINATING)
def test_a_termination_keeps_the_unhealthy_last_observation(backend: str, env_id: str) -> None:
    vec = make(backend, env_id)
    _, steps = run(vec, 120)
    ends = [(step, index) for step in steps for index in np.flatnonzero(step.terminated)]
    assert len(ends) >= 3
    for step, index in ends:
        height, angle = step.next_obs[index, :2]
        assert height < 0.7 or abs(angle) > 0.2  # Hopper's own definition of a fall
        assert not step.truncated[index]
    follow = [(one, two) for one, two in itertools.pairwise(steps) if one.terminated.any()]
    for one, two in follow:
        fresh = one.obs if backend == "gymnasium" else two.obs
        index = np.flatnonzero(one.terminated)
        np.testing.assert_allclose(fresh[index, 0], 1.25, atol=0.006)  # Hopper starts upright


@pytest.mark.parametrize(("backend", "env_id"), [*TRUNCATING, *TERMINATING])
def test_rows_that_are_no_transitions_are_marked(backend: str, env_id: str) -> None:
    vec = make(backend, env_id)
    _, steps = run(vec, 250)
    ended = np.zeros(ENVS, bool)
    for step in steps:
        if backend == "gymnasium":
            assert step.valid is None
        else:
            valid = np.ones(ENVS, bool) if step.valid is None else step.valid
            np.testing.assert_array_equal(valid, ~ended)
            assert not (step.reward[~valid]).any()
            ended = step.terminated | step.truncated
    assert any(step.valid is not None for step in steps) == (backend == "envpool")


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_actions_are_scaled_to_the_bounds(backend: str) -> None:
    """Pendulum's torque goes to +-2: from a known state one step says which torque was applied."""
    vec = make(backend, "Pendulum-v1", num_envs=5)
    obs = vec.reset().copy()
    action = np.array([[-1.0], [-0.5], [0.0], [0.25], [1.0]], np.float32)
    step = vec.step(action)
    torque = ((step.next_obs[:, 2] - obs[:, 2]) / 0.05 - 15.0 * obs[:, 1]) / 3.0
    np.testing.assert_allclose(torque, [-2.0, -1.0, 0.0, 0.5, 2.0], atol=1e-4)


@pytest.mark.parametrize(("backend", "env_id"), CASES)
def test_a_step_keeps_its_arrays(backend: str, env_id: str) -> None:
    """The sampler packs obs of one step with next_obs of the next: the later must not overwrite the earlier."""
    vec = make(backend, env_id)
    vec.reset()
    first, second = actions(vec, 2)
    step = vec.step(first)
    kept = copied(step)
    vec.step(second)
    np.testing.assert_array_equal(step.next_obs, kept.next_obs)
    np.testing.assert_array_equal(step.obs, kept.obs)
    np.testing.assert_array_equal(step.reward, kept.reward)


@pytest.mark.parametrize(("backend", "env_id"), CASES)
def test_misuse_is_refused(backend: str, env_id: str) -> None:
    vec = make(backend, env_id)
    with pytest.raises(SpreezeError, match="before reset"):
        vec.step(actions(vec, 1)[0])
    vec.reset()
    with pytest.raises(SpreezeError, match="shape"):
        vec.step(actions(vec, 1)[0][:2])
    with pytest.raises(ConfigError, match="render"):
        vec.render()


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Hopper-v5"])
def test_envpool_moves_as_gymnasium_does(env_id: str) -> None:
    """From the same state (to float32), with the same actions, whatever the two MuJoCo versions are."""
    need("envpool", env_id)
    vec = make("envpool", env_id, num_envs=1)
    env = gymnasium.make(env_id).unwrapped
    obs = vec.reset()[0].astype(np.float64)
    env.reset(seed=0)
    positions = env.model.nq
    env.set_state(np.concatenate([[0.0], obs[: positions - 1]]), obs[positions - 1 :])
    for action in actions(vec, 9):
        step = vec.step(action)
        expected, reward, terminated, _, _ = env.step(action[0])
        np.testing.assert_allclose(step.next_obs[0], expected, atol=1e-3)
        assert step.reward[0] == pytest.approx(reward, abs=1e-3)
        assert step.terminated[0] == terminated


def test_auto_takes_envpool_where_it_pays() -> None:
    need("envpool", "BipedalWalker-v3")
    pytest.importorskip("pygame")
    assert choose_backend(EnvSource.of("BipedalWalker-v3"))[0] == "envpool"


@pytest.mark.parametrize(
    ("env_id", "why"),
    [("Pendulum-v1", "importing envpool takes longer"), ("HalfCheetah-v5", "stepped as fast without its Python")],
)
def test_auto_leaves_envpool_out_where_it_would_not_pay(env_id: str, why: str) -> None:
    need("gymnasium", env_id)
    backend, reason = choose_backend(EnvSource.of(env_id))
    assert backend == "gymnasium"
    assert why in reason


def test_envpool_is_refused_where_it_would_change_the_task() -> None:
    need("envpool", "HalfCheetah-v5")
    source = EnvSource.of("HalfCheetah-v5")
    other_limit = dataclasses.replace(probe(source), max_episode_steps=100)
    with pytest.raises(ConfigError, match="after 1000 steps, Gymnasium after 100"):
        choose_backend(source, "envpool", other_limit)
    backend, reason = choose_backend(source, "auto", other_limit)
    assert backend == "gymnasium"
    assert "not envpool" in reason
