"""What is played is what was published: newest weights at every step, held while a clip is filmed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spreeze.errors import WeightsError
from spreeze.spec import EnvSpec
from spreeze.watching.following import BestFollower, FollowedPolicy
from spreeze.watching.playing import FIRST_SEED, Player
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.policy_file import POLICY_FILE, save_policy

SPEC = PolicySpec("tanh", obs_size=2, action_size=1, hidden=())
ENV = EnvSpec("Test-v0", 2, 1, (-2.0,), (2.0,), None)
LENGTH = 5


class Training:
    """Publishes a version whenever it is told to; version v acts with 2 tanh(v)."""

    def __init__(self, version: int = 0) -> None:
        self.now = version

    def version(self) -> int:
        return self.now

    def load(self, into: np.ndarray) -> WeightsStamp:
        into[:] = (0.0, 0.0, self.now)
        return WeightsStamp(self.now, 10 * self.now, 0)


class Task:
    """Five steps an episode; the reward is the action."""

    step_s = 0.04  # each state is drawn

    def __init__(self, training: Training) -> None:
        self.training, self.seeds, self.actions, self._left = training, [], [], 0  # type: ignore[var-annotated]

    def reset(self, seed: int) -> Any:
        self.seeds.append(seed)
        self._left = LENGTH
        return np.zeros(2), {}

    def step(self, action: np.ndarray) -> Any:
        self._left -= 1
        self.actions.append(float(action[0]))
        self.training.now += 1  # training never waits
        return np.zeros(2), float(action[0]), self._left == 0, False, {}

    def picture(self) -> np.ndarray:
        return np.zeros((6, 8, 3), np.uint8)


class Screen:
    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []

    def open(self) -> bool:
        return True

    def show(self, picture: np.ndarray, state: Mapping[str, Any]) -> None:
        assert picture.shape == (6, 8, 3)
        self.states.append(dict(state))

    def beat(self) -> None:
        pass

    def close(self, reason: str, failed: bool = False) -> None:
        pass


class EveryEpisode:
    """Stands in for the clips: each episode becomes one."""

    def __init__(self) -> None:
        self.pictures, self.returns = 0, []  # type: ignore[var-annotated]

    def begin(self) -> bool:
        return True

    def wants(self, step: int) -> bool:
        return step % 2 == 0

    def take(self, picture: np.ndarray) -> None:
        self.pictures += 1

    def end(self, episode_return: float) -> None:
        self.returns.append(episode_return)


def acts(*versions: int) -> list[float]:
    return [2 * float(np.tanh(version)) for version in versions]


def test_the_weights_of_this_moment_act_at_every_step() -> None:
    training, screen = Training(version=1), Screen()
    task = Task(training)
    player = Player(task, "X", FollowedPolicy(training, SPEC, ENV), lambda: [screen])  # type: ignore[arg-type]
    for _ in range(2):
        assert player.play_episode(lambda: True)
    assert task.actions == pytest.approx(acts(*range(1, 11)))
    assert task.seeds == [FIRST_SEED + 1, FIRST_SEED + 2]
    first, last = screen.states[0], screen.states[-1]
    assert (first["episode"], first["step"], first["episode_return"], first["last_return"]) == (1, 0, 0.0, None)
    assert (first["policy"], first["weights_version"], first["updates"]) == ("live", 1, 10)
    assert first["env"] == "X"
    assert last["episode"] == 2
    assert last["last_return"] == pytest.approx(sum(acts(1, 2, 3, 4, 5)))
    assert last["frame"] == len(screen.states)


def test_a_clip_keeps_the_weights_that_its_name_tells_of() -> None:
    training, clips = Training(version=1), EveryEpisode()
    task = Task(training)
    player = Player(task, "X", FollowedPolicy(training, SPEC, ENV), list, clips)  # type: ignore[arg-type]
    for _ in range(2):
        assert player.play_episode(lambda: True)
    assert task.actions == pytest.approx(acts(*[1] * 5, *[6] * 5))
    assert clips.returns == pytest.approx([5 * acts(1)[0], 5 * acts(6)[0]])
    assert clips.pictures == 2 * 3  # steps 0, 2, 4


def test_until_there_are_weights_it_acts_at_random_as_samplers_do() -> None:
    training = Training()
    policy = FollowedPolicy(training, SPEC, ENV)
    policy.refresh()
    actions = np.array([policy.act(np.zeros(2))[0] for _ in range(200)])
    assert actions.std() > 0.8
    assert np.abs(actions).max() <= 2.0
    assert policy.describe() == {"policy": "live", "weights_version": 0, "updates": 0}


def test_nobody_goes_on_after_no() -> None:
    training = Training(1)
    task, answers = Task(training), iter([True, True, False])
    player = Player(task, "X", FollowedPolicy(training, SPEC, ENV), list)  # type: ignore[arg-type]
    assert not player.play_episode(lambda: next(answers))
    assert len(task.actions) == 2


def test_the_best_policy_is_followed_as_it_gets_better(tmp_path: Path) -> None:
    best = BestFollower(tmp_path)
    policy = FollowedPolicy(best, SPEC, ENV, best.describe)
    assert not policy.refresh(), "there is none yet"
    for bias in (1.0, 3.0):
        flat = np.array([0, 0, bias], np.float32)
        save_policy(tmp_path, SPEC, ENV, flat, {"weights_version": int(10 * bias), "updates": 7, "return_mean": 1.0})
        assert policy.refresh()
        assert policy.act(np.zeros(2)) == pytest.approx(acts(bias)[0])  # type: ignore[arg-type]
        assert policy.describe() == {"policy": "best", "weights_version": int(10 * bias), "updates": 7}
    assert not policy.refresh()
    (tmp_path / POLICY_FILE).write_bytes(b"not a policy")
    assert not policy.refresh(), "what it has is better than nothing"
    with pytest.raises(WeightsError, match="not a policy"):
        best.load(np.zeros(3, np.float32))
