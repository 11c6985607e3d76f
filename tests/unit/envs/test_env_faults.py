"""Environments that fail: what is known about it, what leaves the VecEnv, and how it goes on."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from spreeze.envs.counting_env import LAYOUT, check_rows, episode_length, make_counting_env
from spreeze.envs.fault import EnvFault
from spreeze.envs.gymnasium_env import GymnasiumVecEnv
from spreeze.envs.registry import probe
from spreeze.envs.seeds import GENERATION_STRIDE
from spreeze.envs.source import EnvSource
from spreeze.errors import EnvError, SpreezeError

ENVS = 4
BAD_ENV = 2
BAD_STEP = 3  # of the first episode of every environment built with `bad` true
SEED = 1000


class Faulty(gymnasium.Wrapper):
    """A counting environment whose answer at BAD_STEP of its first episode is replaced by `fault`'s."""

    def __init__(self, fault: Any) -> None:
        super().__init__(make_counting_env())
        self._fault = fault
        self._steps = 0
        self._armed = False

    def reset(self, **keywords: Any) -> Any:
        if keywords.get("seed") is not None:
            self._armed = keywords["seed"] == SEED + BAD_ENV
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        self._steps += 1
        answer = super().step(action)
        return self._fault(*answer) if self._armed and self._steps == BAD_STEP else answer


def raises(*answer: Any) -> Any:
    raise RuntimeError("the simulator exploded")


FAULTS = {
    "exploded": raises,
    "reward is nan": lambda obs, r, te, tr, info: (obs, float("nan"), te, tr, info),
    "reward is inf": lambda obs, r, te, tr, info: (obs, np.inf, te, tr, info),
    "not \\(array, number.*invalid type": lambda obs, r, te, tr, info: (obs, "1.0", te, tr, info),
    "BadAnswer: its answer.*invalid type": lambda obs, r, te, tr, info: (obs, None, te, tr, info),
    r"observation\[4\] is nan": lambda obs, r, te, tr, info: (
        np.where(np.arange(7) == 4, np.nan, obs),
        r,
        te,
        tr,
        info,
    ),
    r"observation\[0\] is inf": lambda obs, r, te, tr, info: (np.full(7, 1e300), r, te, tr, info),
    r"shape \(1,\), expected \(7,\)": lambda obs, r, te, tr, info: (obs[:1], r, te, tr, info),
    "dtype <U": lambda obs, r, te, tr, info: (obs.astype(str), r, te, tr, info),
    "'list' object": lambda obs, r, te, tr, info: (obs.tolist(), r, te, tr, info),
    "not \\(array, number.*unpack": lambda obs, r, te, tr, info: (obs, r, te, info),
}
RAISED_WITHIN_THE_LOOP = {name for name in FAULTS if "is nan" not in name and "is inf" not in name}


def make_faulty(fault: Any) -> GymnasiumVecEnv:
    source = EnvSource.of(lambda: Faulty(fault))
    return GymnasiumVecEnv(source, probe(source), ENVS, SEED)


def some_action(tick: int) -> np.ndarray:
    return np.random.default_rng(tick).uniform(-1, 1, (ENVS, 2)).astype(np.float32)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_named_and_no_row_of_its_step_leaves(message: str) -> None:
    vec = make_faulty(FAULTS[message])
    vec.reset()
    for tick in range(1, BAD_STEP):
        vec.step(some_action(tick))
    with pytest.raises(EnvError, match=message) as caught:
        vec.step(some_action(BAD_STEP))
    fault = caught.value
    assert isinstance(fault, EnvFault)
    assert (fault.env_index, fault.episode_step, fault.episode, fault.seed) == (BAD_ENV, BAD_STEP, 1, SEED + BAD_ENV)
    np.testing.assert_array_equal(fault.action, some_action(BAD_STEP)[BAD_ENV])
    assert fault.lost_rows == (BAD_ENV if message in RAISED_WITHIN_THE_LOOP else ENVS - 1)
    assert fault.as_json()["env_index"] == BAD_ENV
    assert str(SEED + BAD_ENV) in str(fault)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("message", FAULTS)
def test_after_recover_every_row_is_right(message: str) -> None:
    vec = make_faulty(FAULTS[message])
    obs, packed = vec.reset(), []
    faults = 0
    for tick in range(1, 120):
        action = some_action(tick)
        try:
            step = vec.step(action)
        except EnvFault as fault:
            faults += 1
            obs = vec.recover(fault)
            continue
        discount = np.where(step.terminated, 0.0, 0.99)
        packed.append(np.column_stack([obs, action, step.next_obs, step.reward, discount]))
        obs = step.obs
    rows = np.concatenate(packed).astype(np.float32)
    assert faults == 1
    assert rows.shape == (118 * ENVS, LAYOUT.row_size)
    assert check_rows(rows) == []


def test_the_rebuilt_environment_has_a_new_seed_and_the_others_go_on_with_theirs() -> None:
    vec = make_faulty(raises)
    vec.reset()
    for tick in range(1, BAD_STEP):
        vec.step(some_action(tick))
    with pytest.raises(EnvFault) as caught:
        vec.step(some_action(BAD_STEP))
    with pytest.raises(SpreezeError, match="without recover"):
        vec.step(some_action(0))
    obs = vec.recover(caught.value)
    seeds = obs[:, 0].astype(np.float64) * 65536 * 65536 + obs[:, 1].astype(np.float64) * 65536
    expected = [SEED + index for index in range(ENVS)]
    expected[BAD_ENV] += GENERATION_STRIDE
    np.testing.assert_array_equal(seeds, expected)
    np.testing.assert_array_equal(obs[:, 2] * 65536, [2, 2, 1, 2])  # episodes
    assert not obs[:, 3].any()  # steps


def test_a_reset_that_fails_is_a_fault_too() -> None:
    class BadReset(gymnasium.Wrapper):
        resets = 0

        def reset(self, **keywords: Any) -> Any:
            self.resets += 1
            obs, info = super().reset(**keywords)
            return (obs * np.nan if self.resets == 2 else obs), info

    source = EnvSource.of(lambda: BadReset(make_counting_env()))
    vec = GymnasiumVecEnv(source, probe(source), ENVS, SEED)
    vec.reset()
    for tick in range(1, episode_length(1)):
        vec.step(some_action(tick))
    with pytest.raises(EnvFault, match="in reset") as caught:
        vec.step(some_action(episode_length(1)))
    assert (caught.value.env_index, caught.value.episode_step, caught.value.action) == (0, 0, None)
    assert (caught.value.episode, caught.value.lost_rows) == (2, ENVS)


def test_a_time_limit_that_meets_a_termination_keeps_both_flags() -> None:
    class Ends(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (1,), np.float64)
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        steps = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.steps = 0
            return np.zeros(1), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return np.full(1, self.steps), 1.0, self.steps == 3, False, {}

    for limit, (terminated, truncated) in {2: (False, True), 3: (True, True), 4: (True, False)}.items():
        source = EnvSource.of(lambda limit=limit: gymnasium.wrappers.TimeLimit(Ends(), limit))
        vec = GymnasiumVecEnv(source, probe(source), 1, 0)
        vec.reset()
        for _ in range(2):  # two episodes: the count starts anew
            ends = []
            while not ends:
                step = vec.step(np.zeros((1, 1), np.float32))
                ends = (
                    [(bool(step.terminated[0]), bool(step.truncated[0]))] if (step.terminated | step.truncated) else []
                )
            assert ends == [(terminated, truncated)]
            assert step.next_obs[0, 0] == min(limit, 3)
            assert step.obs[0, 0] == 0


def test_an_environment_that_reuses_its_arrays_is_copied_in_time() -> None:
    class Reuses(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (1,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        memory = np.zeros(1, np.float32)  # one for all instances

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.memory[:] = -5
            return self.memory, {}

        def step(self, action: Any) -> Any:
            self.memory[:] = action
            action[:] = 0.5  # and spoils what it was given
            return self.memory, 0.0, True, False, {}

    source = EnvSource.of(lambda: Reuses())
    vec = GymnasiumVecEnv(source, probe(source), 3, 0)
    vec.reset()
    action = np.array([[-1.0], [0.25], [1.0]], np.float32)
    step = vec.step(action)
    np.testing.assert_array_equal(step.next_obs, [[-1.0], [0.25], [1.0]])
    np.testing.assert_array_equal(step.obs, np.full((3, 1), -5))
    np.testing.assert_array_equal(action, [[-1.0], [0.25], [1.0]])


def test_envpool_recovers_with_a_new_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("envpool", exc_type=ImportError)
    from spreeze.envs.envpool_env import EnvPoolVecEnv

    vec = EnvPoolVecEnv(probe(EnvSource.of("Pendulum-v1")), 3, SEED)
    first = vec.reset().copy()
    vec.step(np.zeros((3, 1), np.float32))
    action = np.array([[0.0], [np.nan], [0.5]], np.float32)
    with pytest.raises(EnvFault) as caught:
        vec.step(action)
    fault = caught.value
    assert (fault.env_index, fault.episode_step, fault.episode, fault.seed) == (1, 2, 1, SEED + 1)
    assert fault.lost_rows == 2
    assert np.isnan(fault.action).all()
    obs = vec.recover(fault)
    assert np.isfinite(obs).all()
    assert not np.isclose(obs, first).all(axis=1).any()
    assert vec.step(np.zeros((3, 1), np.float32)).valid is None
