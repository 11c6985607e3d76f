"""The algorithms by name. A new one is a file beside sac.py and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spreeze.errors import ConfigError, nearest
from spreeze.weights.numpy_policy import PolicySpec

if TYPE_CHECKING:
    from spreeze.algos.algorithm import Algorithm

ALGORITHMS = {
    "sac": "Sac",
    "td3": "Td3",
    "ddpg": "Ddpg",
}


# what their actors put out: known here so that the supervisor can lay out the weights without importing torch
POLICY_KINDS = {"sac": "tanh_gaussian", "td3": "tanh", "ddpg": "tanh"}


def policy_spec_for(name: str, obs_size: int, action_size: int, hidden: tuple[int, ...]) -> PolicySpec:
    return PolicySpec(POLICY_KINDS[name], obs_size, action_size, hidden)


def make_algorithm(name: str, *args: Any, **kwargs: Any) -> Algorithm:
    """The algorithm's class (see sac.Sac for its parameters) called with the rest."""
    if name not in ALGORITHMS:
        raise ConfigError(f"algorithm {name!r} is unknown.{nearest(name, ALGORITHMS)}")
    return getattr(import_module(f"spreeze.algos.{name}"), ALGORITHMS[name])(*args, **kwargs)
