"""Each algorithm finds the known values of five environments in which each has one more thing to learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from spreeze.algos import ALGORITHMS, make_algorithm
from spreeze.config import RunConfig
from spreeze.envs import probe_env
from spreeze.replay import Replay
from spreeze.spec import Layout

GAMMA = 0.9
LAYOUT = Layout(1, 1)
CONFIG = RunConfig(hidden=(32, 32), gamma=GAMMA, lr=1e-3, tau=0.05, init_temperature=1e-3, target_entropy=-8.0)
UPDATES, BATCH = 1_500, 64
EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def filled_replay(env: gymnasium.Env, rows: int = 2_000) -> Replay:
    """Random actions: all is off-policy here. Their seed is not the environment's, or they would tell its coin."""
    actions = np.random.default_rng(1234).uniform(-1, 1, (rows, 1)).astype(np.float32)
    packed = np.empty((rows, LAYOUT.row_size), np.float32)
    obs, _ = env.reset(seed=0)
    for row, action in zip(packed, actions, strict=True):
        next_obs, reward, terminated, truncated, _ = env.step(action)
        row[:] = [*obs, *action, *next_obs, reward, 0.0 if terminated else GAMMA]
        obs = env.reset()[0] if terminated or truncated else next_obs
    replay = Replay(LAYOUT, rows)
    replay.extend(torch.from_numpy(packed))
    return replay


def learned(name: str, env: gymnasium.Env) -> Any:
    algorithm, replay = make_algorithm(name, 1, 1, CONFIG, seed=1), filled_replay(env)
    for update in range(UPDATES):
        algorithm.update(replay.sample(BATCH), update % algorithm.period)
    return algorithm


def q(algorithm: Any, obs: float, action: float) -> float:
    critics = algorithm.critic if algorithm.name == "ddpg" else algorithm.critics
    return critics.forward(torch.tensor([[obs, action]]))[0].mean().item()


def best_action(algorithm: Any, obs: float) -> float:
    return torch.tanh(algorithm.actor.forward(torch.tensor([[obs]]))[0][0, 0, 0]).item()


@EVERY
def test_constant(name: str) -> None:
    algorithm = learned(name, probe_env.ProbeConstant())
    assert q(algorithm, 0.0, 0.3) == pytest.approx(1.0, abs=0.05)


@EVERY
def test_observation(name: str) -> None:
    algorithm = learned(name, probe_env.ProbeObservation())
    for obs in (-1.0, 1.0):
        assert q(algorithm, obs, -0.4) == pytest.approx(obs, abs=0.05)


@EVERY
def test_discount(name: str) -> None:
    algorithm = learned(name, probe_env.ProbeDiscount())
    assert q(algorithm, 1.0, 0.0) == pytest.approx(1.0, abs=0.05)
    assert q(algorithm, 0.0, 0.0) == pytest.approx(GAMMA, abs=0.05)


@EVERY
def test_action(name: str) -> None:
    algorithm = learned(name, probe_env.ProbeAction())
    assert best_action(algorithm, 0.0) == pytest.approx(0.5, abs=0.15)
    assert q(algorithm, 0.0, 0.5) == pytest.approx(0.0, abs=0.05)
    assert q(algorithm, 0.0, -0.5) == pytest.approx(-1.0, abs=0.1)


@EVERY
def test_observation_and_action(name: str) -> None:
    algorithm = learned(name, probe_env.ProbeObservationAction())
    for obs in (-1.0, 1.0):
        assert best_action(algorithm, obs) == pytest.approx(obs / 2, abs=0.15)
        assert q(algorithm, obs, obs / 2) == pytest.approx(0.0, abs=0.05)
        assert q(algorithm, obs, -obs / 2) == pytest.approx(-1.0, abs=0.1)
