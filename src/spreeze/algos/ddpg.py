"""Deep Deterministic Policy Gradient (Lillicrap et al., 2016): one critic, a deterministic policy, targets of both."""

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


class Ddpg:
    name = "ddpg"
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
        self.policy_spec = PolicySpec("tanh", obs_size, action_size, config.hidden)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.tau = config.tau

        self.actor = nets.mlp(self.policy_spec.layer_sizes)
        self.target_actor = nets.twin(self.actor)
        self.critic = critic_nets.mlp(
            (obs_size + action_size, *config.hidden, 1), layer_norm=config.critic_norm == "layer"
        )
        self.target_critic = critic_nets.twin(self.critic)
        self.average = PolicyAverage(self.actor.parameters.data, config.policy_average)
        self.actor_adam = Adam(self.actor.parameters.data, self.actor.parameters.grad, config.lr)
        self.critic_adam = Adam(self.critic.parameters.data, self.critic.parameters.grad, config.lr)
        names = ("critic_loss", "actor_loss", "q_mean")
        self.metrics, self.critic_metrics = make_metrics(names, device, critic_device)

    def propose(self, batch: Batch, turn: int = 0) -> Proposal:
        output, tape = self.actor.forward(batch.obs)  # (1, B, A)
        next_output, _ = self.target_actor.forward(batch.next_obs)
        return Proposal(action=output[0].tanh(), next_action=next_output[0].tanh(), kept=tape)

    def train_critics(self, batch: Batch, proposal: Proposal) -> None:
        next_q, _ = self.target_critic.forward(torch.cat((batch.next_obs, proposal.next_action), 1))  # (1, B, 1)
        target = batch.reward + batch.discount * next_q[0, :, 0]

        q, tape = self.critic.forward(batch.obs_action)
        error = q[0, :, 0] - target
        # loss = mean (Q(s, a) - target)^2, so dloss/dq = 2 (q - target) / B
        self.critic.backward(tape, (error * (2 / len(target))).view_as(q))
        self.critic_adam.step()
        self.critic.refresh()
        polyak(self.target_critic.parameters.data, self.critic.parameters.data, self.tau)
        self.target_critic.refresh()

        torch.mean(q, (0, 1, 2), out=self.critic_metrics["q_mean"])
        torch.mean(error.square_(), 0, out=self.critic_metrics["critic_loss"])

    def advise(self, batch: Batch, proposal: Proposal) -> Advice:
        q, tape = self.critic.forward(torch.cat((batch.obs, proposal.action), 1))
        q_mean = q.mean()
        self.critic_metrics["actor_loss"].copy_(-q_mean)
        return Advice(self.critic.input_grad(tape, torch.ones_like(q), first_column=batch.obs.shape[1]), q_mean)

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
    def update(self, batch: Batch, turn: int = 0) -> None:
        proposal = self.propose(batch, turn)
        self.train_critics(batch, proposal)
        self.actor_step(proposal, self.advise(batch, proposal))

    def policy_flat(self) -> Tensor:
        return self.actor.parameters.data

    def state(self) -> dict[str, Tensor]:
        return {
            "actor": self.actor.parameters.data,
            "target_actor": self.target_actor.parameters.data,
            "critic": self.critic.parameters.data,
            "target_critic": self.target_critic.parameters.data,
            **self.average.state("policy_average"),
            **self.actor_adam.state("actor_adam"),
            **self.critic_adam.state("critic_adam"),
            "generator": self.generator.get_state(),
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_state(self.state(), state)
        restore(self.generator, state["generator"])
        for net in (self.actor, self.target_actor, self.critic, self.target_critic):
            net.refresh()
