"""Random numbers that go on from a saved state, and those that are the same on every kind of device.

torch's generators give other numbers on a CPU than on a GPU, from the same seed. Two devices of one kind draw the same
rows from equal generators; a CPU and a GPU that must draw the same rows count instead: number i of draw n is a hash of
(seed, n, i), in whole numbers, which every device computes alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

# SplitMix64 (Steele, Lea and Flood, 2014), as two's complement
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
_SHIFTS = (30, 27)
_LAST_SHIFT = 31
_ROWS_A_DRAW = 2**32  # no draw has more, so that no two draws hash the same number


class CountedNumbers:
    """Has a generator's `get_state` and `set_state`; what lives longer than a draw is changed in place."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self._state = torch.tensor([seed, 0], dtype=torch.int64, device=device)  # seed, draws so far

    def fill(self, out: Tensor) -> None:
        """out (B,) int64, each uniform in [0, 2^62)."""
        seed, draws = self._state
        torch.arange(len(out), out=out)
        out.add_(draws * _ROWS_A_DRAW).mul_(_GAMMA).add_(seed * _MULTIPLIERS[0] + _GAMMA)
        for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=True):
            out.bitwise_xor_(_shifted(out, shift)).mul_(multiplier)
        out.bitwise_xor_(_shifted(out, _LAST_SHIFT)).bitwise_and_(2**62 - 1)
        draws.add_(1)

    def get_state(self) -> Tensor:
        return self._state.clone().cpu().view(torch.uint8)  # a copy on a CPU as well

    def set_state(self, state: Tensor) -> None:
        if state.numel() != 16:
            raise RuntimeError(f"a state of {state.numel()} bytes was got, expected 16")
        self._state.copy_(state.clone().view(torch.int64))

    def manual_seed(self, seed: int) -> None:
        self._state.copy_(torch.tensor([seed, 0]))


def _shifted(number: Tensor, bits: int) -> Tensor:
    """number >> bits without its sign."""
    return (number >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def restore(generator: torch.Generator | CountedNumbers, saved: Tensor) -> None:
    """Goes on from `saved`. Where that is of another kind of device, whose numbers cannot go on here, new ones begin
    from a seed that depends on all of it."""
    saved = saved.cpu()
    if saved.numel() == generator.get_state().numel():
        generator.set_state(saved)
        return
    number = 0
    for byte in saved.tolist():
        number = (number * 257 + byte) % (2**61 - 1)
    generator.manual_seed(number)
