"""A policy on disk, loadable without the run, a simulator or a GPU: one safetensors file, data and nothing else.

The file holds the flat vector under 'weights' and, as its metadata, the policy's and the environment's description.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.documents import MOST_BYTES
from spreeze.errors import ConfigError, SpreezeError, WeightsError
from spreeze.run_folder import LATEST, find_run
from spreeze.spec import EnvSpec
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec

POLICY_FILE = "policy/policy.safetensors"  # the best policy so far, in the run folder
# what a damaged or hostile description may raise on the way through json and int(), float()
_BROKEN = (SpreezeError, OSError, KeyError, ValueError, TypeError, OverflowError, RecursionError)
LIVE_POLICY_SPEC = "weights/policy.json"  # what the live weights file is a vector of


def save_policy(run_dir: Path, policy: PolicySpec, env: EnvSpec, flat: np.ndarray, about: dict[str, Any]) -> Path:
    """Writes the file whole or not at all. `about`: where it comes from (version, return and the like)."""
    from safetensors.numpy import save

    path = run_dir / POLICY_FILE
    path.parent.mkdir(exist_ok=True)
    metadata = {
        "policy": json.dumps(policy.as_json()),
        "env": json.dumps(env.as_json()),
        "about": json.dumps(about),
    }
    temp = path.with_suffix(".writing")
    temp.write_bytes(save({"weights": np.ascontiguousarray(flat, np.float32)}, metadata=metadata))
    os.replace(temp, path)
    return path


class Policy:
    """A trained policy: observation in, action in the environment's own bounds out."""

    def __init__(
        self, policy: PolicySpec, env: EnvSpec, flat: np.ndarray, about: dict[str, Any], seed: int = 0
    ) -> None:
        if flat.shape != (policy.weight_count,):
            raise WeightsError(f"the policy needs {policy.weight_count} weights, the file holds {flat.shape}")
        if (policy.obs_size, policy.action_size) != (env.obs_size, env.action_size):
            raise WeightsError("the policy's sizes and the environment's differ")
        if not len(env.action_low) == len(env.action_high) == env.action_size:
            raise WeightsError(
                f"{env.action_size} actions have {len(env.action_low)} and {len(env.action_high)} bounds"
            )
        self.spec = policy
        self.env = env
        self.about = about
        self.flat = flat.astype(np.float32)
        self._seed = seed
        self._numpy = self._sized(1)
        self._low, self._high = _finite_bounds(env)

    def __call__(self, observation: Any, deterministic: bool = True) -> np.ndarray:
        """The action (A,) for one observation (O,), or (B, A) for a batch (B, O)."""
        obs = np.asarray(observation, np.float32)
        if obs.shape[-1:] != (self.spec.obs_size,) or obs.ndim > 2:
            raise SpreezeError(
                f"observation of shape {obs.shape} was given, expected ({self.spec.obs_size},) "
                f"or (B, {self.spec.obs_size})"
            )
        batch = obs.reshape(-1, self.spec.obs_size)
        if len(batch) > self._numpy.batch:
            self._numpy = self._sized(len(batch))
        action = self._numpy.act(batch) if deterministic else self._numpy.explore(batch)
        scaled = (self._high + self._low) / 2 + action * ((self._high - self._low) / 2)  # in float64: exact at the ends
        return scaled.astype(np.float32).reshape(*obs.shape[:-1], self.spec.action_size)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest action (A,), float64, in the environment's units."""
        return self._low, self._high

    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weight (inputs, outputs) and bias (outputs) of each layer."""
        return self._sized(1).layers

    def _sized(self, batch: int) -> NumpyPolicy:
        numpy_policy = NumpyPolicy(self.spec, batch, self._seed)
        numpy_policy.flat[:] = self.flat
        return numpy_policy


def _finite_bounds(env: EnvSpec) -> tuple[np.ndarray, np.ndarray]:
    """Low and high of each action (A,), float64; an axis without finite bounds is acted in [-1, 1]."""
    low, high = np.array(env.action_low, np.float64), np.array(env.action_high, np.float64)
    finite = np.isfinite(low) & np.isfinite(high)
    return np.where(finite, low, -1.0), np.where(finite, high, 1.0)


def load_policy(path: str | Path) -> Policy:
    """From a run folder (also runs/latest), its policy/ folder, or the file."""
    given = find_run(path) if Path(path).name == LATEST else Path(path)
    candidates = (given, given / "policy.safetensors", given / POLICY_FILE)
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None:
        raise ConfigError(
            f"{given}: no policy here. Give a run folder with {POLICY_FILE} in it "
            "(it appears with the first evaluation)."
        )
    return _read_policy(found)


def _bounded(metadata: dict[str, str]) -> dict[str, str]:
    for name, text in metadata.items():
        if len(text) > MOST_BYTES:
            raise WeightsError(f"its {name[:40]!r} has {len(text):,} characters, expected at most {MOST_BYTES:,}")
    return metadata


def _read_policy(path: Path) -> Policy:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _bounded(file.metadata() or {})
            policy = PolicySpec.from_json(json.loads(metadata["policy"]))
            env = EnvSpec.from_json(json.loads(metadata["env"]))
            about = json.loads(metadata.get("about", "{}"))
            described = file.get_slice("weights")
            if (described.get_dtype(), described.get_shape()) != ("F32", [policy.weight_count]):  # before it is copied
                raise WeightsError(
                    f"the policy needs {policy.weight_count} F32 weights, the file holds {described.get_dtype()} of "
                    f"{described.get_shape()}"
                )
            flat = file.get_tensor("weights")
        if not np.isfinite(flat).all():
            raise WeightsError(f"{np.count_nonzero(~np.isfinite(flat))} of {len(flat)} weights are not finite")
        return Policy(policy, env, flat, about)
    except (SafetensorError, *_BROKEN) as error:
        raise WeightsError(f"{path}: not a policy that Spreeze wrote ({error})") from None
