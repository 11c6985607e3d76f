"""The policy as a file that other programs run: ONNX or TorchScript, written by one file each.

Both take observations (batch, O) float32 and give actions (batch, A) float32 in the environment's own units: the
scaling to its bounds is inside. What is exported is compared with the policy before it appears.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from spreeze import __version__
from spreeze.errors import SpreezeError, WeightsError
from spreeze.run_folder import LATEST, find_run
from spreeze.weights.policy_file import Policy, load_policy

FORMATS = {"onnx": ".onnx", "torchscript": ".pt"}  # one file of this folder each
INPUT, OUTPUT = "observation", "action"
TOLERANCE = 1e-5  # of an axis's range, or of the action where that is larger
_CHECKED = 256  # observations
Act = Callable[[np.ndarray], np.ndarray]  # observations (B, O) -> actions (B, A)


def export_run(run: str, format: str, out: str | None) -> dict[str, Any]:
    """Writes the file whole, or not at all. Reads policy/ alone: no simulator is needed, no code of the run is run."""
    writer = import_module(f"spreeze.export.{format}")
    writer.load_library()
    given = find_run(run) if Path(run).name == LATEST else Path(run).expanduser()
    policy = load_policy(given)
    path = Path(out).expanduser() if out else Path(f"{_name_of(given)}{FORMATS[format]}")
    about = about_policy(policy)
    beside = path.with_name(f".{path.name}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        act: Act = writer.write(policy, about, beside)
        difference = _largest_difference(policy, act)
        os.replace(beside, path)
    except OSError as error:
        raise SpreezeError(f"{path}: could not be written ({error.strerror or error})") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return {
        "run": str(given),
        "format": format,
        "file": str(path),
        "bytes": path.stat().st_size,
        "input": {"name": INPUT, "dtype": "float32", "shape": ["batch", policy.spec.obs_size]},
        "output": {"name": OUTPUT, "dtype": "float32", "shape": ["batch", policy.spec.action_size]},
        **about,
        "largest_difference": difference,
    }


def about_policy(policy: Policy) -> dict[str, Any]:
    """What stands in the file as its metadata."""
    low, high = policy.bounds
    return {
        "env": policy.env.env_id,
        "obs_size": policy.spec.obs_size,
        "action_size": policy.spec.action_size,
        "action_low": low.tolist(),
        "action_high": high.tolist(),
        "policy": policy.about,
        "spreeze": __version__,
    }


def as_text(about: dict[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}


def _name_of(given: Path) -> str:
    folder = given.resolve()
    return folder.name if folder.is_dir() else folder.stem


def _largest_difference(policy: Policy, act: Act) -> float:
    """Largest distance between the file's actions and the policy's; more than rounding is an error."""
    low, high = policy.bounds
    allowed = TOLERANCE * np.maximum((high - low) / 2, 1.0)
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(_CHECKED, policy.spec.obs_size)) * rng.choice((0.1, 1.0, 10.0), size=(_CHECKED, 1))
    batch = obs.astype(np.float32)
    expected, got = policy(batch), act(batch)
    difference = np.abs(got.astype(np.float64) - expected)
    if got.shape != expected.shape or not (difference <= allowed).all():
        raise WeightsError(
            f"the exported file's actions differ from the policy's by up to {difference.max():g}; nothing was written"
        )
    return float(difference.max())


def layers_of(policy: Policy) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weight (inputs, outputs) and bias (outputs) of each layer; of the last only the outputs that the best action
    needs."""
    layers = list(policy.layers())
    weight, bias = layers[-1]
    size = policy.spec.action_size
    return [*layers[:-1], (np.ascontiguousarray(weight[:, :size]), bias[:size].copy())]


def scale_of(policy: Policy) -> dict[str, np.ndarray]:
    """Each (A,) float32: action = middle + half_range x tanh(...), kept within low and high against rounding."""
    low, high = policy.bounds
    scale = {"middle": (low + high) / 2, "half_range": (high - low) / 2, "low": low, "high": high}
    return {name: values.astype(np.float32) for name, values in scale.items()}
