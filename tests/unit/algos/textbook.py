"""The algorithms by a textbook: torch.nn, torch.optim.Adam and joint losses (no cut between actor and critics), in
float64. `delayed`: the actor is advised by the critics of one update before."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from spreeze.algos.nets import FlatParameters
from spreeze.config import RunConfig
from spreeze.spec import Batch


def modules_of(parameters: FlatParameters, layer_norm: bool = False) -> list[nn.Sequential]:
    """The same networks as torch.nn modules with parameters of their own."""
    networks = []
    for index in range(parameters.copies):
        parts: list[nn.Module] = []
        for (inputs, outputs), layer in zip(pairwise(parameters.sizes), parameters.layers, strict=True):
            linear = nn.Linear(inputs, outputs, dtype=torch.float64)
            with torch.no_grad():
                linear.weight.copy_(layer.weight[index].T)
                linear.bias.copy_(layer.bias[index])
            normed = [nn.LayerNorm(outputs, elementwise_affine=False)] if layer_norm else []
            parts += [linear, *normed, nn.ReLU()]
        networks.append(nn.Sequential(*(parts[:-2] if layer_norm else parts[:-1])))
    return networks


def assert_same(parameters: FlatParameters, networks: list[nn.Sequential]) -> None:
    for index, network in enumerate(networks):
        linears = [part for part in network if isinstance(part, nn.Linear)]
        for layer, linear in zip(parameters.layers, linears, strict=True):
            torch.testing.assert_close(layer.weight[index], linear.weight.detach().T, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(layer.bias[index], linear.bias.detach(), rtol=1e-10, atol=1e-10)


class Textbook:
    def __init__(self, algorithm: Any, config: RunConfig, delayed: bool = False) -> None:
        self.config = config
        self.delayed = delayed
        self.action_size = algorithm.policy_spec.action_size
        self.noise = torch.Generator().manual_seed(3)
        self.actor = modules_of(algorithm.actor.parameters)[0]
        critics = algorithm.critic if algorithm.name == "ddpg" else algorithm.critics
        self.critics = modules_of(critics.parameters, config.critic_norm == "layer")
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

    def in_order(self, learn_critics: Callable[[], None], learn_actor: Callable[[], None]) -> None:
        for learn in (learn_actor, learn_critics) if self.delayed else (learn_critics, learn_actor):
            learn()

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
        noise = torch.randn(2 * len(b.reward), self.action_size, generator=self.noise, dtype=torch.float64)
        temperature = self.log_temperature.exp().detach()
        with torch.no_grad():
            next_action, next_log_prob = self.sample(b.next_obs, noise[len(b.reward) :])
            next_value = self.q(self.target_critics, b.next_obs, next_action).amin(0) - temperature * next_log_prob
            target = b.reward + b.discount * next_value

        def learn_critics() -> None:
            self.learn(self.critics_adam, 0.5 * (self.q(self.critics, b.obs, b.action) - target).square().mean(1).sum())
            self.average(self.target_critics, self.critics)

        def learn_actor() -> None:
            action, log_prob = self.sample(b.obs, noise[: len(b.reward)])
            q = self.q(self.critics, b.obs, action).amin(0)
            self.learn(self.actor_adam, (temperature * log_prob - q).mean())
            self.learn(self.temperature_adam, -(self.log_temperature * (log_prob.detach() - self.action_size)).mean())

        self.in_order(learn_critics, learn_actor)

    def update_td3(self, b: Batch, turn: int) -> None:
        shape = (len(b.reward), self.action_size)
        noise = torch.empty(*shape, dtype=torch.float64).normal_(0.0, 0.2, generator=self.noise)
        with torch.no_grad():
            next_action = (torch.tanh(self.target_actor(b.next_obs)) + noise.clamp(-0.5, 0.5)).clamp(-1, 1)
            target = b.reward + b.discount * self.q(self.target_critics, b.next_obs, next_action).amin(0)
        learning = turn == self.config.policy_delay - 1

        def learn_critics() -> None:
            self.learn(self.critics_adam, (self.q(self.critics, b.obs, b.action) - target).square().mean(1).sum())
            if learning:
                self.average(self.target_critics, self.critics)

        def learn_actor() -> None:
            if learning:
                self.learn(self.actor_adam, -self.q(self.critics, b.obs, torch.tanh(self.actor(b.obs)))[0].mean())
                self.average([self.target_actor], [self.actor])

        self.in_order(learn_critics, learn_actor)

    def update_ddpg(self, b: Batch) -> None:
        with torch.no_grad():
            next_action = torch.tanh(self.target_actor(b.next_obs))
            target = b.reward + b.discount * self.q(self.target_critics, b.next_obs, next_action)[0]

        def learn_critics() -> None:
            self.learn(self.critics_adam, (self.q(self.critics, b.obs, b.action)[0] - target).square().mean())
            self.average(self.target_critics, self.critics)

        def learn_actor() -> None:
            self.learn(self.actor_adam, -self.q(self.critics, b.obs, torch.tanh(self.actor(b.obs)))[0].mean())
            self.average([self.target_actor], [self.actor])

        self.in_order(learn_critics, learn_actor)

    def update(self, name: str, batch: Batch, turn: int) -> None:
        if name == "td3":
            self.update_td3(batch, turn)
        else:
            {"sac": self.update_sac, "ddpg": self.update_ddpg}[name](batch)
