"""Twin Delayed DDPG (Fujimoto et al., 2018): twin critics, smoothed target actions, an actor that learns less often."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from spreeze.algos.adam import Adam, polyak
from spreeze.algos.algorithm import Advice, Proposal, load_state, make_metrics
from spreeze.algos.average import PolicyAverage
from spreeze.algos.engine import Engine
from spreeze.config import RunConfig
from spreeze.draws import restore
from spreeze.spec import Batch
from spreeze.weights.numpy_policy import PolicySpec


class Td3:
    name = "td3"

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
        self.policy_spec = PolicySpec("tanh", obs_size, action_size, config.hidden)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.period = config.policy_delay
        self.tau = config.tau
        self.target_noise = config.target_noise
        self.target_noise_clip = config.target_noise_clip

        self.actor = nets.mlp(self.policy_spec.layer_sizes)
        self.target_actor = nets.twin(self.actor)
        self.critics = critic_nets.mlp(
            (obs_size + action_size, *config.hidden, 1), copies=2, layer_norm=config.critic_norm == "layer"
        )
        self.target_critics = critic_nets.twin(self.critics)
        self.average = PolicyAverage(self.actor.parameters.data, config.policy_average)
        self.actor_adam = Adam(self.actor.parameters.data, self.actor.parameters.grad, config.lr)
        self.critics_adam = Adam(self.critics.parameters.data, self.critics.parameters.grad, config.lr)
        names = ("critic_loss", "actor_loss", "q_mean")
        self.metrics, self.critic_metrics = make_metrics(names, device, critic_device)

    def propose(self, batch: Batch, turn: int) -> Proposal:
        next_output, _ = self.target_actor.forward(batch.next_obs)  # (1, B, A)
        noise = torch.empty_like(next_output[0]).normal_(0.0, self.target_noise, generator=self.generator)
        noise.clamp_(-self.target_noise_clip, self.target_noise_clip)
        next_action = (next_output[0].tanh() + noise).clamp_(-1.0, 1.0)
        if turn < self.period - 1:
            return Proposal(action=None, next_action=next_action)
        output, tape = self.actor.forward(batch.obs)
        return Proposal(action=output[0].tanh(), next_action=next_action, kept=tape)

    def train_critics(self, batch: Batch, proposal: Proposal) -> None:
        next_q, _ = self.target_critics.forward(torch.cat((batch.next_obs, proposal.next_action), 1))  # (Q, B, 1)
        target = batch.reward + batch.discount * next_q.squeeze(2).amin(0)

        q, tape = self.critics.forward(batch.obs_action)
        error = q.squeeze(2) - target  # (Q, B)
        # loss = sum over the critics of mean (Q(s, a) - target)^2, so dloss/dq = 2 (q - target) / B
        self.critics.backward(tape, (error * (2 / len(target))).unsqueeze(2))
        self.critics_adam.step()
        self.critics.refresh()

        torch.mean(q, (0, 1, 2), out=self.critic_metrics["q_mean"])
        torch.mean(error.square_(), (0, 1), out=self.critic_metrics["critic_loss"])
        if proposal.action is not None:
            polyak(self.target_critics.parameters.data, self.critics.parameters.data, self.tau)
            self.target_critics.refresh()

    def advise(self, batch: Batch, proposal: Proposal) -> Advice | None:
        """By the first critic alone."""
        if proposal.action is None:
            return None
        q, tape = self.critics.forward(torch.cat((batch.obs, proposal.action), 1), copies=1)
        q_mean = q.mean()
        self.critic_metrics["actor_loss"].copy_(-q_mean)
        return Advice(self.critics.input_grad(tape, torch.ones_like(q), first_column=batch.obs.shape[1]), q_mean)

    def actor_step(self, proposal: Proposal, advice: Advice) -> None:
        # loss = -mean Q(s, tanh(output)), so dloss/doutput = -dQ/da (1 - a^2) / B
        grad_output = advice.dq_daction * (proposal.action.square() - 1) / len(advice.dq_daction)
        self.actor.backward(proposal.kept, grad_output.unsqueeze(0))
        self.actor_adam.step()
        self.actor.refresh()
        polyak(self.target_actor.parameters.data, self.actor.parameters.data, self.tau)
        self.target_actor.refresh()
        self.metrics["actor_loss"].copy_(-advice.q_mean)

    @torch.no_grad()
    def update(self, batch: Batch, turn: int) -> None:
        proposal = self.propose(batch, turn)
        self.train_critics(batch, proposal)
        advice = self.advise(batch, proposal)
        if advice is not None:
            self.actor_step(proposal, advice)

    def policy_flat(self) -> Tensor:
        return self.actor.parameters.data

    def state(self) -> dict[str, Tensor]:
        return {
            "actor": self.actor.parameters.data,
            "target_actor": self.target_actor.parameters.data,
            "critics": self.critics.parameters.data,
            "target_critics": self.target_critics.parameters.data,
            **self.average.state("policy_average"),
            **self.actor_adam.state("actor_adam"),
            **self.critics_adam.state("critics_adam"),
            "generator": self.generator.get_state(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_state(self.state(), state)
        restore(self.generator, state["generator"])
        for net in (self.actor, self.target_actor, self.critics, self.target_critics):
            net.refresh()
