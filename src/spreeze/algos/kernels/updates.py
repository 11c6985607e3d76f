"""Sac, Td3 and Ddpg whose update is a handful of Triton kernels: the same state, the same random numbers, the same
equations as sac.py, td3.py and ddpg.py, in the order

    critic_pass       q(s, a) with what gradients need      every tile of rows and critic; beside the next two
    actor_forward     a ~ pi(s), a' ~ pi(s')                every tile of rows
    critic_pass       q'(s', a')
    critic_errors     target, dq                            every block of rows
    critic_gradients  sums over rows                        every block of weights and split of rows
    optimise          Adam, targets, packed weights         every piece of the flat vector
    critic_pass       q(s, a_pi), dq/da_pi by the new critics
    actor_backward
    finish            metrics, temperature                  beside the rest
    actor_gradients
    optimise          the actor's

Products are bfloat16 with float32 sums; weights, moments, losses and targets are float32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import triton
from torch import Tensor

from spreeze.algos.adam import Adam
from spreeze.algos.algorithm import Algorithm
from spreeze.algos.ddpg import Ddpg
from spreeze.algos.kernels import gradients, passes
from spreeze.algos.kernels.sizes import Cut, Shape, Tile, cut_for, split_rows
from spreeze.algos.nets import FlatParameters
from spreeze.algos.sac import Sac
from spreeze.algos.td3 import Td3
from spreeze.spec import Batch
from spreeze.weights.numpy_policy import PolicySpec

ERROR_BLOCK = 256  # rows a program of critic_errors
OPTIMISER_BLOCK = 512  # parameters a program of optimise


class PackedWeights:
    """A copy of a network's weights in the products' type, padded as passes.py wants it; no biases."""

    def __init__(self, parameters: FlatParameters, shape: Shape, heads: int, dtype: torch.dtype) -> None:
        self.parameters = parameters
        self.is_critic = heads == 0
        self.shape = shape
        self.input_pad = shape.obs_pad + (shape.action_pad if self.is_critic else 0)
        self.output_pad = 1 if self.is_critic else heads * shape.action_pad
        size = self.input_pad * shape.hidden1 + shape.hidden1 * shape.hidden2 + shape.hidden2 * self.output_pad
        self.data = torch.zeros(parameters.copies * size, dtype=dtype, device=parameters.data.device)
        copies = self.data.view(parameters.copies, size).split(
            [self.input_pad * shape.hidden1, shape.hidden1 * shape.hidden2, shape.hidden2 * self.output_pad], dim=1
        )
        heads_and_pad = (1, 1) if self.is_critic else (heads, shape.action_pad)
        self._first = copies[0].unflatten(1, (self.input_pad, shape.hidden1))
        self._second = copies[1].unflatten(1, (shape.hidden1, shape.hidden2))
        self._third = copies[2].unflatten(1, (shape.hidden2, *heads_and_pad))
        self.refresh()

    def refresh(self) -> None:
        first, second, third = (layer.weight for layer in self.parameters.layers)
        obs, outputs = self.shape.obs, 1 if self.is_critic else self.shape.action
        self._first[:, :obs].copy_(first[:, :obs])
        if self.is_critic:
            self._first[:, self.shape.obs_pad : self.shape.obs_pad + self.shape.action].copy_(first[:, obs:])
        self._second.copy_(second)
        self._third[..., :outputs].copy_(third.unflatten(2, (-1, outputs)))


class Scratch:
    """What the kernels of one update hand to each other, for one batch size."""

    def __init__(
        self, size: int, cut: Cut, shape: Shape, critics: PackedWeights, actor: PackedWeights, norm: bool
    ) -> None:
        device, dtype = critics.data.device, critics.data.dtype
        copies = critics.parameters.copies

        def floats(*sizes: int) -> Tensor:
            return torch.zeros(sizes, device=device)

        def products(*sizes: int) -> Tensor:
            return torch.zeros(sizes, device=device, dtype=dtype)

        self.cut = cut
        self.noise = floats((2 if actor.output_pad > shape.action_pad else 1) * size, shape.action)
        self.action, self.next_action, self.raw_log_std = (floats(size, shape.action) for _ in range(3))
        self.log_prob, self.next_log_prob = floats(size), floats(size)
        self.q, self.next_q, self.dq = (floats(copies, size) for _ in range(3))
        self.dq_daction = floats(copies, size, shape.action)
        self.critic_h1, self.critic_g1 = (products(copies, size, shape.hidden1) for _ in range(2))
        mask_rows, norm_rows = (0, size) if norm else (size, 0)
        self.critic_mask = torch.zeros(copies, mask_rows, shape.hidden2, device=device, dtype=torch.int8)
        self.critic_e2, self.critic_h2 = (products(copies, norm_rows, shape.hidden2) for _ in range(2))
        # of the target critics, whose pass runs beside the critics' own
        self.next_h1 = products(copies, norm_rows, shape.hidden1)
        self.actor_h1, self.grad_h1 = (products(size, shape.hidden1) for _ in range(2))
        self.actor_h2, self.grad_h2 = (products(size, shape.hidden2) for _ in range(2))
        self.grad_output = products(size, actor.output_pad)

        self.critic_split_rows = split_rows(size, cut.critic_splits, cut.critic_gradients)
        self.actor_split_rows = split_rows(size, cut.actor_splits, cut.actor_gradients)
        critic_splits, actor_splits = -(-size // self.critic_split_rows), -(-size // self.actor_split_rows)
        self.critic_partial = floats(critic_splits, critics.parameters.data.numel())
        self.actor_partial = floats(actor_splits, actor.parameters.data.numel())
        self.error_blocks = triton.cdiv(size, ERROR_BLOCK)
        self.critic_sums = floats(2, self.error_blocks)
        self.tiles = -(-size // cut.backward.rows)
        self.actor_sums = floats(2, self.tiles)


class Kernels:
    """Launches the kernels for one algorithm: stochastic (SAC) or not (TD3, DDPG), with one or two critics."""

    def __init__(
        self,
        shape: Shape,
        actor: FlatParameters,
        target_actor: FlatParameters | None,
        critics: FlatParameters,
        target_critics: FlatParameters,
        dtype: torch.dtype,
        norm: bool,
    ) -> None:
        """`norm`: the critics and their targets have layer norm."""
        self.norm = norm
        self.gaussian = target_actor is None
        heads = 2 if self.gaussian else 1
        self.shape = shape
        self.copies = critics.copies
        self.actor = PackedWeights(actor, shape, heads, dtype)
        self.target_actor = PackedWeights(target_actor, shape, heads, dtype) if target_actor else self.actor
        self.critics = PackedWeights(critics, shape, 0, dtype)
        self.target_critics = PackedWeights(target_critics, shape, 0, dtype)
        self.cut_for = functools.partial(cut_for, norm=norm)
        self._scratch: dict[int, Scratch] = {}
        device = actor.data.device
        self._nothing = torch.zeros(1, device=device)
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._widths = {"A": shape.action, "ACTION_PAD": shape.action_pad, "H1": shape.hidden1, "H2": shape.hidden2}
        self._inputs = {"OBS": shape.obs, "OBS_PAD": shape.obs_pad, "OBS_STEP": shape.obs_step}

    def refresh(self) -> None:
        for packed in (self.actor, self.target_actor, self.critics, self.target_critics):
            packed.refresh()

    def scratch(self, size: int) -> Scratch:
        if size not in self._scratch:
            cut = self.cut_for(size, self.shape.hidden1, self.shape.hidden2)
            self._scratch[size] = Scratch(size, cut, self.shape, self.critics, self.actor, self.norm)
        return self._scratch[size]

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is launched here needs nothing of what is launched after it until join(): on a GPU both run at once."""
        if self._side is None:
            yield
        else:
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                yield

    def join(self) -> None:
        if self._side is not None:
            torch.cuda.current_stream().wait_stream(self._side)

    def propose(
        self, batch: Batch, kept: Scratch, counters: Sequence[Adam], learning: bool, noise_clip: float | None = None
    ) -> None:
        """The action for next_obs and, where the actor is `learning`, that for obs. kept.noise: of a stochastic policy
        (2B, A), for obs, then for next_obs; else (B, A) for next_obs, used if there is a noise_clip. The counters of
        the optimisers that will step go up."""
        size, tile = len(batch.obs), kept.cut.actor
        steps = [adam.steps for adam in counters]
        passes.actor_forward[(triton.cdiv(size, tile.rows), 2 if learning else 1)](
            batch.obs, batch.next_obs, batch.obs.stride(0), kept.noise,
            self.actor.data, self.target_actor.data, self.actor.parameters.data, self.target_actor.parameters.data,
            kept.action, kept.next_action, kept.log_prob, kept.next_log_prob, kept.raw_log_std,
            kept.actor_h1, kept.actor_h2, size, noise_clip or 0.0, *steps, *steps[:1] * (3 - len(steps)),
            COUNTERS=len(steps), FIRST=0 if learning else 1, GAUSSIAN=self.gaussian, SMOOTHED=noise_clip is not None,
            **self._inputs, **self._widths, **_of(tile),
        )  # fmt: skip

    def evaluate(self, batch: Batch, kept: Scratch) -> None:
        """The critics on the rows' own actions, with what their gradients need: before or beside the targets."""
        self._critic_pass(passes.TRAINING, self.critics, batch.obs, batch.action, kept.q, kept)

    def train_critics(
        self,
        batch: Batch,
        kept: Scratch,
        adam: Adam,
        loss_scale: float,
        tau: float | None,
        log_temperature: Tensor | None = None,
    ) -> None:
        """One step of the critics, and of their target unless tau is None. dloss/dq = loss_scale (q - target)."""
        self._critic_pass(
            passes.TARGET_VALUES, self.target_critics, batch.next_obs, kept.next_action, kept.next_q, kept
        )
        self.join()
        gradients.critic_errors[(kept.error_blocks,)](
            batch.reward, batch.discount, batch.obs.stride(0), kept.next_q, kept.next_log_prob,
            self._nothing if log_temperature is None else log_temperature,
            kept.q, kept.dq, kept.critic_sums, len(batch.obs), loss_scale,
            ENTROPY=log_temperature is not None, Q=self.copies, BLOCK=ERROR_BLOCK,
        )  # fmt: skip
        shape, tile = self.shape, kept.cut.critic_gradients
        inputs = shape.obs + shape.action
        input_cols = shape.input_cols(inputs)
        second_blocks = shape.hidden2 // tile.cols * (2 if self.norm else 1)
        blocks = second_blocks + triton.cdiv(inputs + 1, input_cols)
        gradients.critic_gradients[(blocks, self.copies, len(kept.critic_partial))](
            batch.obs_action, batch.obs.stride(0), kept.dq, kept.critic_h1, kept.critic_mask, kept.critic_e2,
            kept.critic_h2, kept.critic_g1, self.critics.data, self.critics.parameters.data, kept.critic_partial,
            len(batch.obs),
            SPLIT_ROWS=kept.critic_split_rows, NORM=self.norm, Q=self.copies, INPUTS=inputs,
            W2_START=self.critics.input_pad * shape.hidden1, H1=shape.hidden1, H2=shape.hidden2,
            INPUT_COLS=input_cols, **_of(tile),
        )  # fmt: skip
        self._optimise(self.critics, adam, kept.critic_partial, self.target_critics, tau)

    def advise(self, batch: Batch, kept: Scratch, advisers: int, log_temperature: Tensor | None = None) -> None:
        """How the lowest of the first `advisers` critics wants the actor's outputs changed, and its activations."""
        self._critic_pass(passes.ADVICE, self.critics, batch.obs, kept.action, kept.q, kept, advisers)
        tile = kept.cut.backward
        passes.actor_backward[(kept.tiles,)](
            kept.q, kept.dq_daction, kept.action, kept.raw_log_std, kept.noise, kept.log_prob,
            self._nothing if log_temperature is None else log_temperature,
            self.actor.data, kept.actor_h1, kept.actor_h2, kept.grad_output, kept.grad_h2, kept.grad_h1,
            kept.actor_sums, len(batch.obs),
            GAUSSIAN=self.gaussian, ADVISERS=advisers, OBS_PAD=self.shape.obs_pad, **self._widths, **_of(tile),
        )  # fmt: skip

    def train_actor(self, batch: Batch, kept: Scratch, adam: Adam, tau: float | None) -> None:
        """One step of the actor, and of its target unless tau is None."""
        shape, tile = self.shape, kept.cut.actor_gradients
        input_cols = shape.input_cols(shape.obs)
        blocks = shape.hidden2 // tile.cols + 2 + triton.cdiv(shape.obs + 1, input_cols)
        gradients.actor_gradients[(blocks, len(kept.actor_partial))](
            batch.obs, batch.obs.stride(0), kept.actor_h1, kept.actor_h2, kept.grad_output, kept.grad_h2, kept.grad_h1,
            kept.actor_partial, len(batch.obs), SPLIT_ROWS=kept.actor_split_rows,
            HEADS=2 if self.gaussian else 1, OBS=shape.obs, INPUT_COLS=input_cols, **self._widths, **_of(tile),
        )  # fmt: skip
        self._optimise(self.actor, adam, kept.actor_partial, self.target_actor, tau)

    def finish(
        self,
        kept: Scratch,
        metrics: Mapping[str, Tensor],
        actor: bool,
        log_temperature: Tensor | None = None,
        adam: Adam | None = None,
        target_entropy: float = 0.0,
    ) -> None:
        """The metrics, the actor's too where it learned, and a stochastic policy's step of the temperature."""
        nothing = self._nothing
        moments = (adam.first_moment, adam.second_moment, adam.steps, adam.lr) if adam else (*[nothing] * 3, 0.0)
        gradients.finish[(1,)](
            kept.critic_sums, kept.actor_sums, metrics["critic_loss"], metrics["q_mean"], metrics["actor_loss"],
            metrics.get("temperature", nothing), metrics.get("entropy", nothing),
            nothing if log_temperature is None else log_temperature, *moments, target_entropy, len(kept.log_prob),
            BLOCKS=kept.error_blocks, Q=self.copies, TILES=kept.tiles, ACTOR=actor, GAUSSIAN=self.gaussian, BLOCK=256,
        )  # fmt: skip

    def _critic_pass(
        self, purpose: Any, critics: PackedWeights, obs: Tensor, action: Tensor, q: Tensor, kept: Scratch,
        copies: int | None = None,
    ) -> None:  # fmt: skip
        size, is_target = len(obs), purpose is passes.TARGET_VALUES
        tile = kept.cut.target if is_target else kept.cut.critic
        passes.critic_pass[(triton.cdiv(size, tile.rows), copies or self.copies)](
            obs, obs.stride(0), action, action.stride(0), critics.data, critics.parameters.data,
            q, kept.next_h1 if is_target else kept.critic_h1, kept.critic_mask, kept.critic_e2, kept.critic_h2,
            kept.critic_g1, kept.dq_daction, size,
            PURPOSE=purpose, NORM=self.norm, Q=self.copies, **self._inputs, **self._widths, **_of(tile),
        )  # fmt: skip

    def _optimise(
        self, packed: PackedWeights, adam: Adam, partial: Tensor, target: PackedWeights, tau: float | None
    ) -> None:
        shape, parameters = self.shape, packed.parameters
        outputs = parameters.sizes[-1]
        gradients.optimise[(triton.cdiv(parameters.data.numel(), OPTIMISER_BLOCK),)](
            parameters.data, adam.first_moment, adam.second_moment, adam.steps, partial, adam.lr,
            target.parameters.data, tau or 0.0, packed.data, target.data,
            SPLITS=len(partial), TRACKED=tau is not None, COPIES=parameters.copies,
            OBS=shape.obs, INPUTS=parameters.sizes[0], OBS_PAD=shape.obs_pad, INPUT_PAD=packed.input_pad,
            H1=shape.hidden1, H2=shape.hidden2, OUTPUTS=outputs, A=min(shape.action, outputs),
            ACTION_PAD=shape.action_pad, OUTPUT_PAD=packed.output_pad,
            BLOCK=OPTIMISER_BLOCK, num_warps=4,
        )  # fmt: skip


def _of(tile: Tile) -> dict[str, int]:
    return {"BLOCK_ROWS": tile.rows, "BLOCK_COLS": tile.cols, "num_warps": tile.warps, "num_stages": tile.stages}


class KernelAlgorithm(Algorithm, Protocol):
    fast: bool

    def fall_back(self) -> None: ...


class _Switchable:
    """`fast` until fall_back(): from then on the update is the plain one, from where the fast one has come to."""

    fast = True
    kernels: Kernels

    def fall_back(self) -> None:
        self.fast = False
        self.load({name: value.clone() for name, value in self.state().items()})  # type: ignore[attr-defined]


class KernelSac(_Switchable, Sac):
    def __init__(self, *args: Any, products: torch.dtype = torch.bfloat16, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        critics, targets = self.critics.parameters, self.target_critics.parameters
        self.kernels = Kernels(
            _shape_of(self.policy_spec), self.actor.parameters, None, critics, targets, products,
            norm=self.critics.layer_norm,
        )  # fmt: skip

    @torch.no_grad()
    def update(self, batch: Batch, turn: int = 0) -> None:
        if not self.fast:
            super().update(batch, turn)
            return
        run, size = self.kernels, len(batch.obs)
        kept = run.scratch(size)
        with run.beside():
            run.evaluate(batch, kept)
        kept.noise.normal_(generator=self.generator)
        run.propose(batch, kept, (self.critics_adam, self.actor_adam, self.temperature_adam), learning=True)
        run.train_critics(batch, kept, self.critics_adam, 1 / size, self.tau, self.log_temperature)
        run.advise(batch, kept, 2, self.log_temperature)
        with run.beside():
            run.finish(kept, self.metrics, True, self.log_temperature, self.temperature_adam, self.target_entropy)
        run.train_actor(batch, kept, self.actor_adam, tau=None)
        run.join()

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.kernels.refresh()


class KernelTd3(_Switchable, Td3):
    def __init__(self, *args: Any, products: torch.dtype = torch.bfloat16, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernels = Kernels(
            _shape_of(self.policy_spec), self.actor.parameters, self.target_actor.parameters,
            self.critics.parameters, self.target_critics.parameters, products, norm=self.critics.layer_norm,
        )  # fmt: skip

    @torch.no_grad()
    def update(self, batch: Batch, turn: int) -> None:
        if not self.fast:
            super().update(batch, turn)
            return
        run, size = self.kernels, len(batch.obs)
        kept = run.scratch(size)
        learning = turn == self.period - 1
        tau = self.tau if learning else None
        with run.beside():
            run.evaluate(batch, kept)
        kept.noise.normal_(0.0, self.target_noise, generator=self.generator)
        counters = (self.critics_adam, self.actor_adam) if learning else (self.critics_adam,)
        run.propose(batch, kept, counters, learning, self.target_noise_clip)
        run.train_critics(batch, kept, self.critics_adam, 2 / size, tau)
        if learning:
            run.advise(batch, kept, 1)
        with run.beside():
            run.finish(kept, self.metrics, learning)
        if learning:
            run.train_actor(batch, kept, self.actor_adam, tau)
        run.join()

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.kernels.refresh()


class KernelDdpg(_Switchable, Ddpg):
    def __init__(self, *args: Any, products: torch.dtype = torch.bfloat16, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernels = Kernels(
            _shape_of(self.policy_spec), self.actor.parameters, self.target_actor.parameters,
            self.critic.parameters, self.target_critic.parameters, products, norm=self.critic.layer_norm,
        )  # fmt: skip

    @torch.no_grad()
    def update(self, batch: Batch, turn: int = 0) -> None:
        if not self.fast:
            super().update(batch, turn)
            return
        run, size = self.kernels, len(batch.obs)
        kept = run.scratch(size)
        with run.beside():
            run.evaluate(batch, kept)
        run.propose(batch, kept, (self.critic_adam, self.actor_adam), learning=True)
        run.train_critics(batch, kept, self.critic_adam, 2 / size, self.tau)
        run.advise(batch, kept, 1)
        with run.beside():
            run.finish(kept, self.metrics, True)
        run.train_actor(batch, kept, self.actor_adam, self.tau)
        run.join()

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self.kernels.refresh()


KERNEL_ALGORITHMS: dict[str, Any] = {"sac": KernelSac, "td3": KernelTd3, "ddpg": KernelDdpg}


def _shape_of(spec: PolicySpec) -> Shape:
    hidden1, hidden2 = spec.hidden
    return Shape(spec.obs_size, spec.action_size, hidden1, hidden2)
