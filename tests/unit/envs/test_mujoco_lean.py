"""The lean step of MuJoCo tasks: the same numbers as Gymnasium's own step, to the last bit, or no lean step at all."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

import gymnasium
import mujoco
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv

from spreeze.envs import mujoco_lean
from spreeze.envs.fault import EnvFault
from spreeze.envs.gymnasium_env import GymnasiumVecEnv
from spreeze.envs.mujoco_formulas import FORMULAS, Answer, HalfCheetah, Hopper
from spreeze.envs.mujoco_lean import LeanStep, lean_step
from spreeze.envs.quiet import keep_mujoco_out_of_cwd
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource

ENVS = 3
TICKS = 110  # 330 env steps
STANDS = {"terminate_when_unhealthy": False}
SHOWS_ALL = {"exclude_current_positions_from_observation": False}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("HalfCheetah-v5", {}),
    ("HalfCheetah-v5", {**SHOWS_ALL, "forward_reward_weight": 1.7, "ctrl_cost_weight": 0.3, "frame_skip": 3}),
    ("HalfCheetah-v4", {}),
    ("Hopper-v5", {}),
    ("Hopper-v5", {**STANDS, **SHOWS_ALL, "healthy_reward": 2.5, "healthy_state_range": (-5.0, 6.0)}),
    ("Hopper-v5", {"healthy_z_range": (0.9, 2.0), "healthy_angle_range": (-0.1, 0.15), "ctrl_cost_weight": 0.2}),
    ("Hopper-v4", {}),
    ("Hopper-v4", {**STANDS, "healthy_reward": 3}),
    ("Walker2d-v5", {}),
    ("Walker2d-v5", {**STANDS, **SHOWS_ALL, "healthy_z_range": [0.9, 1.5], "reset_noise_scale": 0.1}),
    ("Walker2d-v4", {}),
    ("Walker2d-v4", STANDS),
    ("Ant-v5", {"reset_noise_scale": 0.4}),
    ("Ant-v5", {**STANDS, **SHOWS_ALL, "healthy_z_range": (0.5, 0.7), "include_cfrc_ext_in_observation": False}),
    ("Ant-v5", {"main_body": "front_left_leg", "contact_force_range": (-0.2, 0.3), "contact_cost_weight": 0.1}),
    ("Ant-v4", {}),
    ("Ant-v4", {"use_contact_forces": True, "healthy_z_range": (0.4, 0.8), **SHOWS_ALL}),
    ("Humanoid-v5", {}),
    ("Humanoid-v5", {"include_cinert_in_observation": False, "include_cfrc_ext_in_observation": False, **STANDS}),
    ("Humanoid-v5", {"include_cvel_in_observation": False, "contact_cost_range": (1e-3, 0.4), **SHOWS_ALL}),
    ("Humanoid-v5", {"include_qfrc_actuator_in_observation": False, "contact_cost_weight": 1e-4}),
    ("Humanoid-v4", {}),
    ("HumanoidStandup-v5", {}),
    ("HumanoidStandup-v5", {"include_cvel_in_observation": False, "impact_cost_weight": 1e-3, **SHOWS_ALL}),
    ("HumanoidStandup-v4", {}),
    ("Swimmer-v5", {}),
    ("Swimmer-v5", {**SHOWS_ALL, "forward_reward_weight": 3, "ctrl_cost_weight": 0.01}),
    ("Swimmer-v4", {}),
    ("InvertedPendulum-v5", {}),
    ("InvertedPendulum-v4", {}),
    ("InvertedDoublePendulum-v5", {}),
    ("InvertedDoublePendulum-v5", {"healthy_reward": 3.3, "reset_noise_scale": 0.5}),
    ("InvertedDoublePendulum-v4", {}),
    ("Reacher-v5", {}),
    ("Reacher-v5", {"reward_dist_weight": 1.3, "reward_control_weight": 0.07}),
    ("Reacher-v4", {}),
    ("Pusher-v5", {}),
    ("Pusher-v5", {"reward_near_weight": 0.3, "reward_dist_weight": 1.1, "reward_control_weight": 0.7}),
]
FALLS = ("Hopper", "Walker2d", "Ant", "Humanoid-", "Inverted")  # under random actions, within TICKS


@pytest.fixture(autouse=True)
def _quiet() -> None:
    keep_mujoco_out_of_cwd()


def make(env_id: str, **settings: Any) -> gymnasium.Env:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v4 is out of date
        return gymnasium.make(env_id, disable_env_checker=True, **settings)


def make_bare(env_id: str, count: int = 1, **settings: Any) -> list[gymnasium.Env]:
    return [make(env_id, **settings).unwrapped for _ in range(count)]


def lean_of(envs: list[gymnasium.Env]) -> LeanStep:
    lean = lean_step(envs)
    assert lean is not None
    return lean


def name_of(case: Any) -> str:
    return case if isinstance(case, str) else "-".join(case) or "plain"


@pytest.mark.parametrize(("env_id", "settings"), CASES, ids=name_of)
def test_every_number_is_gymnasiums(env_id: str, settings: dict[str, Any]) -> None:
    envs, expected = make_bare(env_id, ENVS, **settings), [make(env_id, **settings) for _ in range(ENVS)]
    lean = lean_of(envs)
    space = envs[0].action_space
    generator = np.random.default_rng(1)
    falls = 0
    for index in range(ENVS):
        np.testing.assert_array_equal(envs[index].reset(seed=index)[0], expected[index].reset(seed=index)[0])
    for tick in range(TICKS):
        action = generator.uniform(space.low, space.high, (ENVS, *space.shape)).astype(space.dtype)
        obs, reward, terminated = lean(action)
        for index, (env, other) in enumerate(zip(envs, expected, strict=True)):
            other_obs, other_reward, other_terminated, truncated, _ = other.step(action[index])
            assert obs[index].tobytes() == other_obs.tobytes()
            assert reward[index] == other_reward
            assert (terminated is not None and terminated[index]) == other_terminated
            falls += other_terminated
            if other_terminated or truncated or tick == TICKS // 2:
                np.testing.assert_array_equal(env.reset()[0], other.reset()[0])
    assert (falls > 0) == (env_id.startswith(FALLS) and settings.get("terminate_when_unhealthy", True))


def test_every_task_is_tried() -> None:
    tried = {type(make(env_id).unwrapped) for env_id, _ in CASES}
    assert {f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}" for kind in tried} == set(FORMULAS)


@pytest.mark.parametrize("env_id", ["HalfCheetah-v5", "Humanoid-v5"])
def test_making_it_leaves_the_environment_untouched(env_id: str) -> None:
    (env,) = make_bare(env_id)
    env.reset(seed=4)
    env.step(env.action_space.high)

    def state() -> dict[str, bytes]:
        size = mujoco.mj_stateSize(env.model, mujoco.mjtState.mjSTATE_INTEGRATION)
        integrated = np.empty(size)
        mujoco.mj_getState(env.model, env.data, integrated, mujoco.mjtState.mjSTATE_INTEGRATION)
        arrays = {name: getattr(env.data, name) for name in ("qacc", "xipos", "cinert", "cfrc_ext", "qfrc_constraint")}
        return {name: values.tobytes() for name, values in {**arrays, "state": integrated}.items()}

    before, randomness, attributes = state(), env.np_random.bit_generator.state, dict(vars(env))
    lean_of([env])
    assert state() == before
    assert env.np_random.bit_generator.state == randomness
    assert vars(env) == attributes


class Faster(HalfCheetahEnv):
    def step(self, action: Any) -> Any:
        return super().step(action * 2)


def replaced_method() -> gymnasium.Env:
    (env,) = make_bare("HalfCheetah-v5")
    env._get_obs = lambda: np.zeros(17)
    return env


@pytest.mark.parametrize(
    "make_one",
    [
        Faster,
        replaced_method,
        lambda: gymnasium.wrappers.ClipAction(make("HalfCheetah-v5").unwrapped),
        lambda: HalfCheetahEnv(render_mode="human"),
        lambda: make("Pendulum-v1").unwrapped,
    ],
)
def test_anything_but_gymnasiums_own_class_is_left_alone(make_one: Callable[[], gymnasium.Env]) -> None:
    assert lean_step([make_one()]) is None


def test_environments_of_different_settings_are_left_alone() -> None:
    assert lean_step([*make_bare("Hopper-v5"), *make_bare("Hopper-v5", healthy_reward=2.0)]) is None
    assert lean_step([*make_bare("Hopper-v5"), *make_bare("Hopper-v4")]) is None


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("part", ["obs", "reward", "terminated"])
def test_a_formula_that_is_off_by_a_bit_is_not_used(part: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make_bare("Hopper-v5", count)
    lean_of(envs)
    right = Hopper.answer

    def wrong(self: Hopper, *columns: np.ndarray) -> Answer:
        answer = right(self, *columns)
        if part == "obs":
            answer.obs[-1, -1] = np.nextafter(answer.obs[-1, -1], np.inf)
        elif part == "reward":
            answer.reward[-1] = np.nextafter(answer.reward[-1], np.inf)
        else:
            answer.terminated[:] = False
        return answer

    monkeypatch.setattr(Hopper, "answer", wrong)
    assert lean_step(envs) is None


def test_another_gymnasium_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make_bare("Hopper-v5")
    with monkeypatch.context() as patch:
        patch.setattr(HopperEnv, "control_cost", lambda self, action: 0.0)
        assert lean_step(envs) is None
    lean_of(envs)
    del envs[0]._healthy_z_range
    assert lean_step(envs) is None


def test_a_comparison_that_raises_leaves_the_environment_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    (env,) = make_bare("HalfCheetah-v5")
    obs, _ = env.reset(seed=0)

    def raises(*_: Any) -> Answer:
        raise KeyError("a name")

    monkeypatch.setattr(HalfCheetah, "answer", raises)
    assert lean_step([env]) is None
    np.testing.assert_array_equal(env._get_obs(), obs)


def vec_of(make_one: Callable[[], gymnasium.Env], seed: int = 0) -> GymnasiumVecEnv:
    source = EnvSource.of(make_one)
    return GymnasiumVecEnv(source, probe(source), ENVS, seed)


def test_the_vec_env_uses_it_and_its_rows_are_those_of_env_step(monkeypatch: pytest.MonkeyPatch) -> None:
    lean = vec_of(lambda: gymnasium.make("Hopper-v5", max_episode_steps=25))
    monkeypatch.setitem(mujoco_lean.FORMULAS, "hopper_v5.HopperEnv", HalfCheetah)  # found to be wrong, so not used
    plain = vec_of(lambda: gymnasium.make("Hopper-v5", max_episode_steps=25))
    assert lean._lean is not None
    assert plain._lean is None
    np.testing.assert_array_equal(lean.reset(), plain.reset())
    terminated = truncated = 0
    for tick in range(200):
        action = np.random.default_rng(tick).uniform(-1, 1, (ENVS, 3)).astype(np.float32)
        ours, theirs = lean.step(action), plain.step(action)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine is other is None or (mine.dtype == other.dtype and mine.tobytes() == other.tobytes())
        terminated, truncated = terminated + ours.terminated.sum(), truncated + ours.truncated.sum()
    assert terminated > 3
    assert truncated > 3


def test_a_simulator_that_fails_is_named_and_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_for: list[Any] = []
    mj_step = mujoco.mj_step

    def failing(model: Any, data: Any, nstep: int) -> None:
        if data in fails_for:
            raise mujoco.FatalError("stack overflow")
        mj_step(model, data, nstep)

    monkeypatch.setattr(mujoco, "mj_step", failing)
    vec = vec_of(lambda: HalfCheetahEnv(), seed=100)
    vec.reset()
    action = np.full((ENVS, 6), 0.5, np.float32)
    first_lean = vec._lean
    vec.step(action)
    fails_for.append(vec._envs[1].data)
    with pytest.raises(EnvFault, match="stack overflow") as caught:
        vec.step(action)
    fault = caught.value
    assert (fault.env_index, fault.episode_step, fault.seed, fault.lost_rows) == (1, 2, 101, 1)
    assert vec.recover(fault).shape == (ENVS, 17)
    assert vec._lean is not None
    assert vec._lean is not first_lean
    vec.step(action)


def test_a_reward_that_is_not_finite_is_a_fault() -> None:
    vec = vec_of(lambda: HalfCheetahEnv(forward_reward_weight=np.inf))
    assert vec._lean is not None
    vec.reset()
    with pytest.raises(EnvFault, match="the reward is"):
        vec.step(np.ones((ENVS, 6), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", sorted({env_id for env_id, _ in CASES}))
def test_it_is_faster(env_id: str) -> None:
    """Prints microseconds per env step, resets not counted: pytest -m slow -s tests/unit/envs/test_mujoco_lean.py"""
    count, ticks = 8, 100
    envs = [make(env_id) for _ in range(count)]
    lean = lean_of([env.unwrapped for env in envs])
    space = envs[0].action_space
    actions = np.random.default_rng(0).uniform(space.low, space.high, (ticks, count, *space.shape)).astype(space.dtype)

    def by_gymnasium(action: np.ndarray) -> list[int]:
        answers = [env.step(row) for env, row in zip(envs, action, strict=True)]
        return [index for index, answer in enumerate(answers) if answer[2]]

    def by_lean_step(action: np.ndarray) -> list[int]:
        terminated = lean(action).terminated
        return [] if terminated is None else np.flatnonzero(terminated).tolist()

    def microseconds(step_all: Callable[[np.ndarray], list[int]]) -> float:
        for index, env in enumerate(envs):
            env.reset(seed=index)
        seconds = 0.0
        for action in actions:
            start = time.thread_time()
            ended = step_all(action)
            seconds += time.thread_time() - start
            for index in ended:
                envs[index].reset()
        return 1e6 * seconds / (ticks * count)

    rounds = [(microseconds(by_gymnasium), microseconds(by_lean_step)) for _ in range(7)]
    theirs, ours = np.min(rounds, axis=0)
    print(f"\n{env_id:27} Gymnasium {theirs:6.1f}  lean {ours:6.1f}  {theirs / ours:.2f} times the rate", end=" ")
    assert ours < theirs
