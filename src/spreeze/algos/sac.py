"""Soft Actor-Critic (Haarnoja et al., 2018, "Soft Actor-Critic Algorithms and Applications"): twin critics, a squashed
Gaussian policy, an automatic temperature."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from spreeze.algos.adam import Adam, polyak
from spreeze.algos.algorithm import Advice, Proposal, load_state, make_metrics
from spreeze.algos.average import PolicyAverage
from spreeze.algos.engine import Engine
from spreeze.config import AUTO, RunConfig
from spreeze.draws import restore
from spreeze.spec import Batch
from spreeze.weights.numpy_policy import PolicySpec


class Sac:
    name = "sac"
    period = 1

    def __init__(
        self,
        obs_size: int,
        action_size: int,
        config: RunConfig,
        device: torch.device | str = "cpu",
        seed: int = 0,
        engine: str = "fused",
        precision: str = "float32",
        critic_device: torch.device | str | None = None,
    ) -> None:
        device = torch.device(device)
        nets = Engine.of(engine, precision, device, seed)
        critic_nets = nets if critic_device is None else nets.on(torch.device(critic_device))
        self.policy_spec = PolicySpec("tanh_gaussian", obs_size, action_size, config.hidden)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.tau = config.tau
        self.target_entropy = -float(action_size) if config.target_entropy == AUTO else float(config.target_entropy)

        self.actor = nets.mlp(self.policy_spec.layer_sizes)
        self.critics = critic_nets.mlp(
            (obs_size + action_size, *config.hidden, 1), copies=2, layer_norm=config.critic_norm == "layer"
        )
        self.target_critics = critic_nets.twin(self.critics)
        self.squash = nets.squash()
        self.log_temperature = torch.full((1,), config.init_temperature, device=device, dtype=nets.dtype).log_()
        self.temperature_grad = torch.zeros_like(self.log_temperature)

        self.average = PolicyAverage(self.actor.parameters.data, config.policy_average)
        self.actor_adam = Adam(self.actor.parameters.data, self.actor.parameters.grad, config.lr)
        self.critics_adam = Adam(self.critics.parameters.data, self.critics.parameters.grad, config.lr)
        self.temperature_adam = Adam(self.log_temperature, self.temperature_grad, config.lr)
        names = ("critic_loss", "actor_loss", "q_mean", "temperature", "entropy")
        self.metrics, self.critic_metrics = make_metrics(names, device, critic_device)

    def propose(self, batch: Batch, turn: int = 0) -> Proposal:
        size = batch.obs.shape[0]
        output, tape = self.actor.forward(torch.cat((batch.obs, batch.next_obs)))  # (1, 2B, 2A)
        noise = torch.randn(
            2 * size, self.policy_spec.action_size, generator=self.generator, device=output.device, dtype=output.dtype
        )
        action, log_prob, squash_tape = self.squash.forward(output[0], noise)
        temperature = self.log_temperature.exp()
        return Proposal(
            action=action[:size],
            next_action=action[size:],
            next_penalty=temperature * log_prob[size:],
            kept=(log_prob[:size], temperature, tape, squash_tape),
        )

    def train_critics(self, batch: Batch, proposal: Proposal) -> None:
        next_q, _ = self.target_critics.forward(torch.cat((batch.next_obs, proposal.next_action), 1))  # (Q, B, 1)
        soft_value = next_q.squeeze(2).amin(0) - proposal.next_penalty
        target = batch.reward + batch.discount * soft_value

        q, tape = self.critics.forward(batch.obs_action)
        error = q.squeeze(2) - target  # (Q, B)
        # loss = sum over the critics of mean 1/2 (Q(s, a) - target)^2, so dloss/dq = (q - target) / B
        self.critics.backward(tape, (error / len(target)).unsqueeze(2))
        self.critics_adam.step()
        self.critics.refresh()
        polyak(self.target_critics.parameters.data, self.critics.parameters.data, self.tau)
        self.target_critics.refresh()

        torch.mean(q, (0, 1, 2), out=self.critic_metrics["q_mean"])
        self.critic_metrics["critic_loss"].copy_(error.square().mean())

    def advise(self, batch: Batch, proposal: Proposal) -> Advice:
        q, tape = self.critics.forward(torch.cat((batch.obs, proposal.action), 1))
        lowest, which = q.min(0, keepdim=True)  # of the two critics, row by row
        dlowest_dq = torch.zeros_like(q).scatter_(0, which, 1.0)
        q_mean = lowest.mean()
        self.critic_metrics["actor_loss"].copy_(-q_mean)
        return Advice(self.critics.input_grad(tape, dlowest_dq, first_column=batch.obs.shape[1]), q_mean)

    def actor_step(self, proposal: Proposal, advice: Advice) -> None:
        log_prob, temperature, tape, squash_tape = proposal.kept
        size = len(log_prob)
        mean_log_prob = log_prob.mean()
        # actor's loss = mean(temperature log pi(a|s) - Q(s, a))
        grad_output = self.squash.backward(
            squash_tape,
            grad_action=advice.dq_daction / -size,
            grad_log_prob=temperature / size,
        )
        self.actor.backward(tape, grad_output.unsqueeze(0))
        self.actor_adam.step()
        self.actor.refresh()
        # temperature's loss = -log temperature (mean log pi(a|s) + target entropy)
        torch.sub(-self.target_entropy, mean_log_prob, out=self.temperature_grad[0])
        self.temperature_adam.step()

        self.metrics["actor_loss"].copy_((temperature * mean_log_prob - advice.q_mean)[0])
        self.metrics["entropy"].copy_(-mean_log_prob)
        self.metrics["temperature"].copy_(temperature[0])

    @torch.no_grad()
    def update(self, batch: Batch, turn: int = 0) -> None:
        proposal = self.propose(batch, turn)
        self.train_critics(batch, proposal)
        self.actor_step(proposal, self.advise(batch, proposal))

    def policy_flat(self) -> Tensor:
        return self.actor.parameters.data

    def state(self) -> dict[str, Tensor]:
        return {
            "actor": self.actor.parameters.data,
            "critics": self.critics.parameters.data,
            "target_critics": self.target_critics.parameters.data,
            "log_temperature": self.log_temperature,
            **self.average.state("policy_average"),
            **self.actor_adam.state("actor_adam"),
            **self.critics_adam.state("critics_adam"),
            **self.temperature_adam.state("temperature_adam"),
            "generator": self.generator.get_state(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_state(self.state(), state)
        restore(self.generator, state["generator"])
        for net in (self.actor, self.critics, self.target_critics):
            net.refresh()
