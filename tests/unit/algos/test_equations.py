"""Each algorithm against the paper's equations, written down a second time: numbers worked out with NumPy on a tiny
network, and whole updates by a textbook implementation with torch.nn, torch.optim.Adam and joint losses (no cut
between actor and critics), in float64."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

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


def modules_of(parameters: FlatParameters) -> list[nn.Sequential]:
    """The same networks as torch.nn modules with parameters of their own."""
    networks = []
    for index in range(parameters.copies):
        parts: list[nn.Module] = []
        for (inputs, outputs), layer in zip(pairwise(parameters.sizes), parameters.layers, strict=True):
            linear = nn.Linear(inputs, outputs, dtype=torch.float64)
            with torch.no_grad():
                linear.weight.copy_(layer.weight[index].T)
                linear.bias.copy_(layer.bias[index])
            parts += [linear, nn.ReLU()]
        networks.append(nn.Sequential(*parts[:-1]))
    return networks


def assert_same(parameters: FlatParameters, networks: list[nn.Sequential]) -> None:
    for index, network in enumerate(networks):
        linears = [part for part in network if isinstance(part, nn.Linear)]
        for layer, linear in zip(parameters.layers, linears, strict=True):
            torch.testing.assert_close(layer.weight[index], linear.weight.detach().T, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(layer.bias[index], linear.bias.detach(), rtol=1e-10, atol=1e-10)


class Textbook:
    def __init__(self, algorithm: Any, config: RunConfig) -> None:
        self.config = config
        self.noise = torch.Generator().manual_seed(3)
        self.actor = modules_of(algorithm.actor.parameters)[0]
        self.critics = modules_of((algorithm.critic if algorithm.name == "ddpg" else algorithm.critics).parameters)
        self.target_actor = copy.deepcopy(self.actor)
        self.target_critics = copy.deepcopy(self.critics)
        self.log_temperature = torch.tensor(np.log(config.init_temperature), requires_grad=True)
        self.critics_adam = torch.optim.Adam([p for q in self.critics for p in q.parameters()], lr=config.lr)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=config.lr)
        self.temperature_adam = torch.optim.Adam([self.log_temperature], lr=config.lr)

    def q(self, critics: list[nn.Sequential], obs: Tensor, action: Tensor) -> Tensor:
        return torch.stack([critic(torch.cat((obs, action), 1)).squeeze(1) for critic in critics])

    def learn(self, adam: torch.optim.Optimizer, loss: Tensor) -> None:
        adam.zero_grad()
        loss.backward()
        adam.step()

    def average(self, targets: list[nn.Sequential], networks: list[nn.Sequential]) -> None:
        with torch.no_grad():
            for target, network in zip(targets, networks, strict=True):
                for old, new in zip(target.parameters(), network.parameters(), strict=True):
                    old.copy_((1 - self.config.tau) * old + self.config.tau * new)

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(obs).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        u = mean + normal.stddev * noise
        return torch.tanh(u), (normal.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)).sum(1)

    def update_sac(self, b: Batch) -> None:
        noise = torch.randn(2 * len(b.reward), ACTION_SIZE, generator=self.noise, dtype=torch.float64)
        temperature = self.log_temperature.exp().detach()
        with torch.no_grad():
            next_action, next_log_prob = self.sample(b.next_obs, noise[len(b.reward) :])
            next_value = self.q(self.target_critics, b.next_obs, next_action).amin(0) - temperature * next_log_prob
            target = b.reward + b.discount * next_value
        self.learn(self.critics_adam, 0.5 * (self.q(self.critics, b.obs, b.action) - target).square().mean(1).sum())
        self.average(self.target_critics, self.critics)
        action, log_prob = self.sample(b.obs, noise[: len(b.reward)])
        q = self.q(self.critics, b.obs, action).amin(0)
        self.learn(self.actor_adam, (temperature * log_prob - q).mean())
        self.learn(self.temperature_adam, -(self.log_temperature * (log_prob.detach() - ACTION_SIZE)).mean())

    def update_td3(self, b: Batch, turn: int) -> None:
        noise = torch.empty(len(b.reward), ACTION_SIZE, dtype=torch.float64).normal_(0.0, 0.2, generator=self.noise)
        with torch.no_grad():
            next_action = (torch.tanh(self.target_actor(b.next_obs)) + noise.clamp(-0.5, 0.5)).clamp(-1, 1)
            target = b.reward + b.discount * self.q(self.target_critics, b.next_obs, next_action).amin(0)
        self.learn(self.critics_adam, (self.q(self.critics, b.obs, b.action) - target).square().mean(1).sum())
        if turn == self.config.policy_delay - 1:
            self.learn(self.actor_adam, -self.q(self.critics, b.obs, torch.tanh(self.actor(b.obs)))[0].mean())
            self.average(self.target_critics, self.critics)
            self.average([self.target_actor], [self.actor])

    def update_ddpg(self, b: Batch) -> None:
        with torch.no_grad():
            next_action = torch.tanh(self.target_actor(b.next_obs))
            target = b.reward + b.discount * self.q(self.target_critics, b.next_obs, next_action)[0]
        self.learn(self.critics_adam, (self.q(self.critics, b.obs, b.action)[0] - target).square().mean())
        self.learn(self.actor_adam, -self.q(self.critics, b.obs, torch.tanh(self.actor(b.obs)))[0].mean())
        self.average(self.target_critics, self.critics)
        self.average([self.target_actor], [self.actor])


CONFIG = RunConfig(hidden=(12, 10), lr=1e-2, tau=0.1, init_temperature=0.3, policy_delay=3)


@ENGINE
def test_sac_follows_the_textbook(engine: str) -> None:
    sac = make("sac", CONFIG, engine)
    book = Textbook(sac, CONFIG)
    for index in range(8):
        batch = draw_batch(16, seed=index)
        sac.update(batch, 0)
        book.update_sac(batch)
    assert_same(sac.actor.parameters, [book.actor])
    assert_same(sac.critics.parameters, book.critics)
    assert_same(sac.target_critics.parameters, book.target_critics)
    torch.testing.assert_close(sac.log_temperature[0], book.log_temperature.detach(), rtol=1e-10, atol=1e-10)


@ENGINE
def test_td3_follows_the_textbook(engine: str) -> None:
    td3 = make("td3", CONFIG, engine)
    book = Textbook(td3, CONFIG)
    for index in range(8):
        batch = draw_batch(16, seed=index)
        td3.update(batch, index % td3.period)
        book.update_td3(batch, index % 3)
    assert_same(td3.actor.parameters, [book.actor])
    assert_same(td3.target_actor.parameters, [book.target_actor])
    assert_same(td3.critics.parameters, book.critics)
    assert_same(td3.target_critics.parameters, book.target_critics)


@ENGINE
def test_ddpg_follows_the_textbook(engine: str) -> None:
    ddpg = make("ddpg", CONFIG, engine)
    book = Textbook(ddpg, CONFIG)
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
