"""The policy as TorchScript, which C++ runs without Python. The metadata lies in the archive as spreeze.json."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.errors import ConfigError
from spreeze.export import Act, layers_of, scale_of
from spreeze.weights.policy_file import Policy

ABOUT = "spreeze.json"


def load_library() -> Any:
    try:
        import torch
    except ImportError:
        raise ConfigError("TorchScript needs torch: pip install torch") from None
    return torch


def write(policy: Policy, about: dict[str, Any], path: Path) -> Act:
    torch = load_library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch names newer ways; robots run this one
        traced = torch.jit.trace(_module_of(policy), torch.zeros(2, policy.spec.obs_size))
        torch.jit.save(traced, str(path), _extra_files={ABOUT: json.dumps(about)})
        read = torch.jit.load(str(path))

    def act(obs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return read(torch.from_numpy(obs)).numpy()

    return act


def _module_of(policy: Policy) -> Any:
    import torch
    from torch import nn

    class Scaled(nn.Module):
        """A layer's outputs as an action in the environment's units. Buffers: they move to a GPU with the module."""

        low: torch.Tensor
        high: torch.Tensor
        middle: torch.Tensor
        half_range: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            for name, values in scale_of(policy).items():
                self.register_buffer(name, torch.from_numpy(values))

        def forward(self, output: torch.Tensor) -> torch.Tensor:
            action = torch.tanh(output) * self.half_range + self.middle
            return torch.minimum(torch.maximum(action, self.low), self.high)

    parts: list[nn.Module] = []
    for weight, bias in layers_of(policy):
        layer = nn.Linear(*weight.shape)
        layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy()), "bias": torch.from_numpy(bias.copy())})
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1], Scaled()).eval().requires_grad_(False)
