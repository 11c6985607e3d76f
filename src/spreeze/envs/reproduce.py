"""What a note in errors/<role>-env.jsonl says, done again: the same environment, seed, episode and actions.

    from spreeze.envs.reproduce import reproduce
    reproduce("runs/latest/errors/sampler-0-env.jsonl")     the first note's fault, raised or found again

The environment is imported by the name in the note, so this is for notes of one's own. What an environment draws at
random in its steps, and not at its resets, depends on the episodes before and may come out differently.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.envs.bounds import Bounds
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import ConfigError


def reproduce(notes: str | Path, number: int = 0) -> tuple[Any, ...]:
    """Raises what the environment raised; or gives what it answered last: (obs, reward, terminated, truncated, info),
    or (obs, info) where it failed in a reset. An environment that hung hangs again."""
    path = Path(notes)
    note = json.loads(path.read_text(encoding="utf-8").splitlines()[number])
    source = EnvSource.of(note["env_id"])
    spec = probe(source)
    actions = _actions(path, note, spec.action_size)
    env = make_env(source)
    try:
        answer: tuple[Any, ...] = env.reset(seed=note["seed"])
        for _ in range(note["episode"] - 1):
            answer = env.reset()
        for action in Bounds(spec, env.action_space.dtype or np.dtype(np.float32))(actions):
            answer = env.step(action)
        return answer
    finally:
        env.close()


def _actions(path: Path, note: dict[str, Any], action_size: int) -> np.ndarray:  # (steps, A)
    if note["action"] is None:
        return np.zeros((0, action_size), np.float32)
    if "actions" not in note:
        raise ConfigError(
            f"{path}: this note has its last action only: the episode was long, or one of many that broke"
        )
    return np.load(path.parent / note["actions"], allow_pickle=False)
