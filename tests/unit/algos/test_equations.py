"""Each algorithm against the paper's equations, written down a second time: numbers worked out with NumPy on a tiny
network, and whole updates by a textbook implementation with torch.nn, torch.optim.Adam and joint losses (no cut
between actor and critics), in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from textbook import Textbook, assert_same

from spreeze.algos import make_algorithm
from spreeze.algos.nets import FlatParameters
from spreeze.config import RunConfig
from spreeze.spec import Batch, Layout

OBS_SIZE, ACTION_SIZE = 3, 2
LAYOUT = Layout(OBS_SIZE, ACTION_SIZE)
ENGINE = pytest.mark.parametrize("engine", ["fused", "reference"])


def draw_batch(rows: int, seed: int = 0) -> Batch:
    drawn = torch.randn(rows, LAYOUT.row_size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    drawn[:, LAYOUT.slice_of("action")].tanh_()
    drawn[:, LAYOUT.slice_of("discount")] = torch.where(drawn[:, LAYOUT.slice_of("discount")] > 0.5, 0.0, 0.97)
    return LAYOUT.split(drawn)


def make(name: str, config: RunConfig, engine: str = "fused") -> Any:
    return make_algorithm(name, OBS_SIZE, ACTION_SIZE, config, device="cpu", seed=3, engine=engine, precision="float64")


# --- numbers by hand: one row, networks of one hidden unit -----------------------------------------------------------


def fill(parameters: FlatParameters, *values: float) -> None:
    parameters.data.copy_(torch.tensor(values, dtype=torch.float64))


def tiny(name: str, **settings: Any) -> tuple[Any, Batch]:
    algorithm = make_algorithm(name, 1, 1, RunConfig(hidden=(1,), **settings), seed=5, precision="float64")
    #                        obs  action  next_obs  reward  discount
    row = torch.tensor([[0.5, -0.25, 1.5, 2.0, 0.9]], dtype=torch.float64)
    return algorithm, Layout(1, 1).split(row)


def tiny_q(obs: float, action: float, w_obs: float, w_action: float, out: float) -> float:
    return out * max(0.0, w_obs * obs + w_action * action)


def test_ddpg_target_by_hand() -> None:
    ddpg, batch = tiny("ddpg")
    fill(ddpg.critic.parameters, 1.0, 2.0, 0.0, 0.5, 0.0)  # hidden = relu(obs + 2 action), Q = hidden / 2
    fill(ddpg.target_critic.parameters, 1.0, -1.0, 0.0, 3.0, 0.0)
    fill(ddpg.target_actor.parameters, 1.0, 0.0, -0.2, 0.0)  # tanh(-0.2 relu(obs))
    next_action = np.tanh(-0.2 * 1.5)
    target = 2.0 + 0.9 * tiny_q(1.5, next_action, 1.0, -1.0, 3.0)
    q = tiny_q(0.5, -0.25, 1.0, 2.0, 0.5)  # relu(0.5 - 0.5) = 0

    ddpg.update(batch, 0)
    assert q == 0.0
    assert target == pytest.approx(2.0 + 0.9 * 3.0 * (1.5 + 0.2913126))
    assert ddpg.metrics["critic_loss"].item() == pytest.approx((q - target) ** 2)
    assert ddpg.critic.parameters.grad[-1].item() == pytest.approx(2 * (q - target))  # to the last bias


def test_td3_target_by_hand() -> None:
    td3, batch = tiny("td3", target_noise=5.0, target_noise_clip=0.3)
    fill(td3.critics.parameters, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0)  # Q1 = obs, Q2 = 2 obs
    fill(td3.target_critics.parameters, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 4.0, 0.0, 0.0)  # s' + a', 4 (s' + a')
    fill(td3.target_actor.parameters, 1.0, 0.0, -0.2, 0.0)
    noise = torch.empty(1, 1, dtype=torch.float64).normal_(0.0, 5.0, generator=torch.Generator().manual_seed(5)).item()
    assert abs(noise) > 0.3  # so that the clip shows
    next_action = np.tanh(-0.3) + 0.3 * np.sign(noise)
    target = 2.0 + 0.9 * min(1.5 + next_action, 4 * (1.5 + next_action))

    td3.update(batch, 0)
    assert td3.metrics["critic_loss"].item() == pytest.approx(((0.5 - target) ** 2 + (1.0 - target) ** 2) / 2)
    assert td3.critics.parameters.grad[-2:].tolist() == pytest.approx([2 * (0.5 - target), 2 * (1.0 - target)])


def test_sac_target_by_hand() -> None:
    sac, batch = tiny("sac", init_temperature=0.1)
    fill(sac.critics.parameters, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0)
    fill(sac.target_critics.parameters, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 4.0, 0.0, 0.0)
    fill(sac.actor.parameters, 1.0, 0.0, -0.2, -0.4, 0.0, 0.0)  # mean -0.2 obs, log std -0.4 obs
    noise = torch.randn(2, 1, generator=torch.Generator().manual_seed(5), dtype=torch.float64)[1].item()
    log_std = -0.4 * 1.5
    next_action = np.tanh(-0.2 * 1.5 + np.exp(log_std) * noise)
    log_prob = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - next_action**2)
    target = 2.0 + 0.9 * (min(1.5 + next_action, 4 * (1.5 + next_action)) - 0.1 * log_prob)

    sac.update(batch, 0)
    assert sac.metrics["critic_loss"].item() == pytest.approx(((0.5 - target) ** 2 + (1.0 - target) ** 2) / 2)
    assert sac.critics.parameters.grad[-2:].tolist() == pytest.approx([0.5 - target, 1.0 - target])


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
def test_a_terminated_row_has_no_bootstrap(name: str) -> None:
    algorithm, batch = tiny(name)
    batch.discount.zero_()
    critics = algorithm.critic if name == "ddpg" else algorithm.critics
    critics.parameters.data.zero_()  # Q = 0, so the error is the reward
    algorithm.update(batch, 0)
    assert algorithm.metrics["critic_loss"].item() == pytest.approx(2.0**2)


# --- whole updates by a textbook --------------------------------------------------------------------------------------


CONFIG = RunConfig(hidden=(12, 10), lr=1e-2, tau=0.1, init_temperature=0.3, policy_delay=3)
NORM = pytest.mark.parametrize("critic_norm", ["none", "layer"])


@NORM
@ENGINE
def test_sac_follows_the_textbook(engine: str, critic_norm: str) -> None:
    config = CONFIG.replace(critic_norm=critic_norm)
    sac = make("sac", config, engine)
    book = Textbook(sac, config)
    for index in range(8):
        batch = draw_batch(16, seed=index)
        sac.update(batch, 0)
        book.update_sac(batch)
    assert_same(sac.actor.parameters, [book.actor])
    assert_same(sac.critics.parameters, book.critics)
    assert_same(sac.target_critics.parameters, book.target_critics)
    torch.testing.assert_close(sac.log_temperature[0], book.log_temperature.detach(), rtol=1e-10, atol=1e-10)


@NORM
@ENGINE
def test_td3_follows_the_textbook(engine: str, critic_norm: str) -> None:
    config = CONFIG.replace(critic_norm=critic_norm)
    td3 = make("td3", config, engine)
    book = Textbook(td3, config)
    for index in range(8):
        batch = draw_batch(16, seed=index)
        td3.update(batch, index % td3.period)
        book.update_td3(batch, index % 3)
    assert_same(td3.actor.parameters, [book.actor])
    assert_same(td3.target_actor.parameters, [book.target_actor])
    assert_same(td3.critics.parameters, book.critics)
    assert_same(td3.target_critics.parameters, book.target_critics)


@NORM
@ENGINE
def test_ddpg_follows_the_textbook(engine: str, critic_norm: str) -> None:
    config = CONFIG.replace(critic_norm=critic_norm)
    ddpg = make("ddpg", config, engine)
    book = Textbook(ddpg, config)
    for index in range(8):
        batch = draw_batch(16, seed=index)
        ddpg.update(batch, 0)
        book.update_ddpg(batch)
    assert_same(ddpg.actor.parameters, [book.actor])
    assert_same(ddpg.target_actor.parameters, [book.target_actor])
    assert_same(ddpg.critic.parameters, book.critics)
    assert_same(ddpg.target_critic.parameters, book.target_critics)


def test_td3_touches_the_actor_on_the_last_turn_only() -> None:
    td3 = make("td3", CONFIG)
    assert td3.period == 3
    for turn in (0, 1, 2, 0, 1, 2):
        before = {name: value.clone() for name, value in td3.state().items()}
        td3.update(draw_batch(8), turn)
        changed = {name for name, value in td3.state().items() if not torch.equal(value, before[name])}
        assert "critics" in changed
        assert (
            {"actor", "target_actor", "target_critics"} <= changed
            if turn == 2
            else changed.isdisjoint({"actor", "target_actor", "target_critics", "actor_adam.steps"})
        )
