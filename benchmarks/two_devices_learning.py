"""What updates in two places learn, beside those in one: SAC on Pendulum-v1 over modes and seeds.

    python benchmarks/two_devices_learning.py [--modes one,exact,pipelined] [--seeds 0,1,2] [--steps 15000]

Environments and updates take turns in one process, two updates of 64 rows for four env steps: what a seed gives does
not depend on how fast the machine is or on what else runs there. A return is the last weights' mean over 20 episodes
without exploration. About 20 s a run on an idle core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import mean
from typing import Any

import gymnasium
import numpy as np
import torch

from spreeze.algos import make_algorithm
from spreeze.algos.allocation import keep_freed_memory
from spreeze.algos.denormals import flush_denormals
from spreeze.config import RunConfig
from spreeze.learner.graphs import EagerUpdates
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import CpuPlace
from spreeze.learner.split import SplitUpdates
from spreeze.observation_norm import FoldedPolicy
from spreeze.replay import Replay
from spreeze.spec import Layout
from spreeze.weights.numpy_policy import NumpyPolicy

LAYOUT = Layout(3, 1)
CONFIG = RunConfig(target_entropy=-1.0)
ENVS, UPDATES, BATCH_SIZE = 4, 2, 64  # updates for a step of all environments
LEARNING_STARTS, REPLAY_SIZE, EPISODES = 1_000, 100_000, 20
TORQUE = 2.0  # Pendulum's actions for the policy's from -1 to 1


class Learner:
    def __init__(self, mode: str, seed: int, config: RunConfig) -> None:
        critics = None if mode == "one" else "cpu"
        self.algorithm: Any = make_algorithm("sac", 3, 1, config, seed=seed, critic_device=critics)
        self.policy = NumpyPolicy(self.algorithm.policy_spec, batch=ENVS, seed=seed)
        self.replay: Any
        self.updates: Any
        self.close: Callable[[], None] = lambda: None
        seen = {"normalize": config.observation_norm == "on", "reward_scale": config.reward_scale}
        if mode == "one":
            self.replay = Replay(LAYOUT, REPLAY_SIZE, seed=seed, **seen)
            self.updates = EagerUpdates(self.algorithm, self.replay, BATCH_SIZE)
        else:
            self.replay = PairedReplay(LAYOUT, REPLAY_SIZE, "cpu", "cpu", seed, **seen)
            places = CpuPlace("actor"), CpuPlace("critics")
            self.updates = SplitUpdates(self.algorithm, self.replay, BATCH_SIZE, *places, pipelined=mode == "pipelined")
            self.close = self.updates.close
        norm = self.replay.norm
        self.folded = norm and FoldedPolicy(self.algorithm.policy_flat(), self.algorithm.policy_spec, norm)

    def update(self) -> None:
        done = 0
        while done < UPDATES:
            done += self.updates.run(UPDATES - done)
        if self.folded is not None:
            self.folded.renew()
        self.policy.flat[:] = (self.folded.flat if self.folded is not None else self.algorithm.policy_flat()).numpy()


def train(mode: str, seed: int, steps: int, config: RunConfig = CONFIG) -> float:
    learner, chance = Learner(mode, seed, config), np.random.default_rng(seed)
    envs = [gymnasium.make("Pendulum-v1") for _ in range(ENVS)]
    seen = [env.reset(seed=seed * 100 + index)[0] for index, env in enumerate(envs)]
    for step in range(0, steps, ENVS):
        if step < LEARNING_STARTS:
            actions = chance.uniform(-1, 1, (ENVS, 1)).astype(np.float32)
        else:
            actions = learner.policy.explore(np.stack(seen))
        rows = np.empty((ENVS, LAYOUT.row_size), np.float32)
        for index, env in enumerate(envs):
            next_seen, reward, _, truncated, _ = env.step(TORQUE * actions[index])
            rows[index] = [*seen[index], *actions[index], *next_seen, reward, CONFIG.gamma]
            seen[index] = env.reset()[0] if truncated else next_seen
        learner.replay.extend(torch.from_numpy(rows))
        if step + ENVS >= LEARNING_STARTS:
            learner.update()
    learner.close()
    return mean(episode(envs[0], learner.policy, 10_000 + number) for number in range(EPISODES))


def episode(env: gymnasium.Env, policy: NumpyPolicy, seed: int) -> float:
    seen, total, over = env.reset(seed=seed)[0], 0.0, False
    while not over:
        seen, reward, _, over, _ = env.step(TORQUE * policy.act(seen[None])[0])
        total += float(reward)
    return total


def prepare() -> None:
    """As a run's learner prepares its process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    flush_denormals()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", default="one,exact,pipelined")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=15_000)
    options = parser.parse_args()
    prepare()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    print("| mode | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean |")
    print("|---" * (len(seeds) + 2) + "|")
    for mode in options.modes.split(","):
        returns = [train(mode, seed, options.steps) for seed in seeds]
        print(f"| {mode} | " + " | ".join(f"{value:.0f}" for value in [*returns, mean(returns)]) + " |", flush=True)


if __name__ == "__main__":
    main()
