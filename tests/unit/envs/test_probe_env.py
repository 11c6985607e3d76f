"""The probes answer as their docstrings say."""

import numpy as np
import pytest

from spreeze.envs.probe_env import ProbeAction, ProbeConstant, ProbeDiscount, ProbeObservation, ProbeObservationAction


def one_step(env: object, action: float) -> tuple[float, float, bool]:
    obs, _ = env.reset()  # type: ignore[attr-defined]
    _, reward, terminated, truncated, _ = env.step(np.array([action], np.float32))  # type: ignore[attr-defined]
    assert not truncated
    return float(obs[0]), reward, terminated


@pytest.mark.parametrize("action", [-1.0, 0.25, 1.0])
def test_rewards_of_single_steps(action: float) -> None:
    assert one_step(ProbeConstant(), action) == (0.0, 1.0, True)
    assert one_step(ProbeAction(), action) == (0.0, -((action - 0.5) ** 2), True)
    seen = set()
    for env_class, expected in (
        (ProbeObservation, lambda obs: obs),
        (ProbeObservationAction, lambda obs: -((action - obs / 2) ** 2)),
    ):
        env = env_class()
        env.reset(seed=0)
        for _ in range(20):
            obs, reward, terminated = one_step(env, action)
            assert reward == expected(obs)
            assert terminated
            seen.add(obs)
    assert seen == {-1.0, 1.0}


def test_the_discount_probe_pays_in_its_second_step() -> None:
    env = ProbeDiscount()
    obs, _ = env.reset(seed=0)
    second, reward, terminated, _, _ = env.step(np.zeros(1, np.float32))
    assert (obs[0], second[0], reward, terminated) == (0.0, 1.0, 0.0, False)
    _, reward, terminated, _, _ = env.step(np.zeros(1, np.float32))
    assert (reward, terminated) == (1.0, True)
