"""How every peer is judged, the same for all: in the peer's own process, with nothing of Spreeze imported.

A peer's adapter is started as `python ADAPTER TOLD`; TOLD is JSON: env, threshold, seed, seconds, eval_every, episodes
and started_s (seconds since 1970, taken before the program was started). It prints lines of JSON on stdout:

    {"kind": "about", "peer": ..., "version": ..., "settings": ..., "source": ...}
    {"kind": "evaluation", "wall_s", "training_s", "env_steps", "updates", "return_mean"}
    {"kind": "end", "solved": true}

`wall_s` counts from started_s, imports included. `training_s` is the same without the evaluations, which a peer has to
make between its updates while Spreeze has a process for them: it is the figure that is compared, in the peer's favour.
An evaluation is `episodes` whole episodes without exploration, from the seeds 10,000 and on.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

FIRST_SEED = 10_000


class Judge:
    def __init__(self) -> None:
        self.told: dict[str, Any] = json.loads(sys.argv[1])
        self._evaluating_s = self._took_s = 0.0  # of all evaluations, of the latest
        self._due_s = 0.0
        if "BulletEnv" in self.told["env"]:
            importlib.import_module("pybullet_envs_gymnasium")  # registers its tasks
        self._envs = [gymnasium.make(self.told["env"]) for _ in range(self.told["episodes"])]
        self.solved = False

    def about(self, peer: str, version: str, settings: dict[str, Any], source: str) -> None:
        """`source`: where the settings for this task are published."""
        _say(kind="about", peer=peer, version=version, settings=settings, source=source)

    @property
    def wall_s(self) -> float:
        return time.time() - self.told["started_s"]

    @property
    def training_s(self) -> float:
        return self.wall_s - self._evaluating_s

    @property
    def over(self) -> bool:
        return self.solved or self.training_s >= self.told["seconds"]

    def look(self, act: Callable[[np.ndarray], np.ndarray], env_steps: int, updates: int) -> bool:
        """To be called between updates: evaluates when it is due. `act`: observations (count, O) -> actions in the
        environment's own bounds, without exploration. -> whether to go on"""
        if self.training_s >= self._due_s:
            self._evaluate(act, env_steps, updates)
            # evaluations are not counted, but a program must end: they never take more than half of its time
            self._due_s = self.training_s + max(self.told["eval_every"], self._took_s)
        return not self.over

    def end(self) -> None:
        _say(kind="end", solved=self.solved)

    def _evaluate(self, act: Callable[[np.ndarray], np.ndarray], env_steps: int, updates: int) -> None:
        wall_s, training_s, start = self.wall_s, self.training_s, time.time()
        returns = np.zeros(len(self._envs))
        observations = [env.reset(seed=FIRST_SEED + place)[0] for place, env in enumerate(self._envs)]
        running = list(range(len(self._envs)))
        while running:
            actions = act(np.stack([observations[place] for place in running]))
            for place, action in zip(tuple(running), actions, strict=True):
                observations[place], reward, terminated, truncated, _ = self._envs[place].step(action)
                returns[place] += float(reward)
                if terminated or truncated:
                    running.remove(place)
        mean = float(returns.mean())
        self._took_s = time.time() - start
        self._evaluating_s += self._took_s
        self.solved = mean >= self.told["threshold"]
        _say(
            kind="evaluation", wall_s=round(wall_s, 3), training_s=round(training_s, 3), env_steps=env_steps,
            updates=updates, return_mean=mean,
        )  # fmt: skip


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)
