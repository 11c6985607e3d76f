"""What a learner whose actor and critics have devices of their own is made of."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch

from spreeze.algos import make_algorithm
from spreeze.algos.algorithm import Algorithm
from spreeze.config import RunConfig
from spreeze.learner.graphs import CapturedLadder, Updates
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import Place, make_place
from spreeze.learner.split import SplitUpdates
from spreeze.spec import Layout


class TwoPlaces(NamedTuple):
    algorithm: Algorithm
    replay: PairedReplay
    actor: Place
    critics: Place
    reason: str  # which code computes the updates, and why


def make_two_places(layout: Layout, config: RunConfig) -> TwoPlaces:
    """Of a resolved config that names both devices."""
    actor, critics = torch.device(str(config.actor_device)), torch.device(str(config.critic_device))
    engine = "fused" if config.compile == "on" else "reference"
    return TwoPlaces(
        algorithm=make_algorithm(
            config.algo, layout.obs_size, layout.action_size, config, actor, config.seed,
            engine=engine, precision=config.precision, critic_device=critics,
        ),
        replay=PairedReplay(
            layout, int(config.replay_size), actor, critics, config.seed,
            normalize=config.observation_norm == "on", reward_scale=config.reward_scale,
        ),
        actor=make_place("actor", actor, int(config.learner_threads)),
        critics=make_place("critics", critics, int(config.learner_threads)),
        reason=f"the {engine} engine in two places, {config.split_mode}: actor on {actor}, critics on {critics}; "
        "the Triton kernels compute whole updates on one GPU",
    )  # fmt: skip


def make_split_updates(two: TwoPlaces, config: RunConfig, batch_size: int) -> SplitUpdates:
    """Captured where `--compile` is on and a GPU takes part."""
    on_gpu = "cuda" in (two.actor.device.type, two.critics.device.type)
    return SplitUpdates(
        two.algorithm, two.replay, batch_size, two.actor, two.critics,
        pipelined=config.split_mode == "pipelined", captured=on_gpu and config.compile == "on",
    )  # fmt: skip


def make_split_ladder(two: TwoPlaces, config: RunConfig) -> Updates:
    """Whose batch size may change while a run goes on."""
    return CapturedLadder(partial(make_split_updates, two, config), int(config.batch_size))
