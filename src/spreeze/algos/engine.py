"""Which code computes the networks: chosen once, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from spreeze.algos.fused import FusedMlp, FusedSquash
from spreeze.algos.nets import FlatParameters, Mlp
from spreeze.algos.reference import ReferenceMlp, ReferenceSquash
from spreeze.errors import ConfigError, nearest

ENGINES = ("fused", "reference")
# precision -> type of the weights, losses and moments; type of the products. float64 is for tests of the equations.
PRECISIONS = {
    "float32": (torch.float32, torch.float32),
    "bfloat16": (torch.float32, torch.bfloat16),
    "float64": (torch.float64, torch.float64),
}


@dataclass(frozen=True)
class Engine:
    name: str
    precision: str
    device: torch.device
    seeds: torch.Generator  # on the CPU, for start values

    @staticmethod
    def of(name: str, precision: str, device: torch.device, seed: int) -> Engine:
        for value, known in ((name, ENGINES), (precision, PRECISIONS)):
            if value not in known:
                raise ConfigError(f"{value!r} is not one of {', '.join(known)}.{nearest(value, known)}")
        return Engine(name, precision, device, torch.Generator().manual_seed(seed))

    def on(self, device: torch.device) -> Engine:
        """For another device; both draw their start values from the same source, one after the other."""
        return replace(self, device=device)

    @property
    def dtype(self) -> torch.dtype:
        return PRECISIONS[self.precision][0]

    def mlp(self, sizes: Sequence[int], copies: int = 1, layer_norm: bool = False) -> Mlp:
        """Freshly drawn networks."""
        return self._over(FlatParameters(sizes, copies, self.device, self.dtype).draw(self.seeds), layer_norm)

    def twin(self, mlp: Mlp) -> Mlp:
        """A target: an own vector, equal to mlp's for now."""
        return self._over(mlp.parameters.clone(), mlp.layer_norm)

    def squash(self) -> FusedSquash | ReferenceSquash:
        return FusedSquash() if self.name == "fused" else ReferenceSquash()

    def _over(self, parameters: FlatParameters, layer_norm: bool) -> Mlp:
        make = FusedMlp if self.name == "fused" else ReferenceMlp
        return make(parameters, PRECISIONS[self.precision][1], layer_norm)
