"""The squashed Gaussian: against torch.distributions, against autograd, and where naive formulas break."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from spreeze.algos.fused import FusedSquash
from spreeze.algos.reference import ReferenceSquash

BOTH = pytest.mark.parametrize("squash", [FusedSquash(), ReferenceSquash()], ids=["fused", "reference"])


def draw(rows: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(rows, 2 * size, generator=generator, dtype=torch.float64)
    return output, torch.randn(rows, size, generator=generator, dtype=torch.float64)


@BOTH
def test_log_probability_is_that_of_torch_distributions(squash: FusedSquash | ReferenceSquash) -> None:
    output, noise = draw(20, 3)
    output *= 0.5
    action, log_prob, _ = squash.forward(output, noise)
    normal = Independent(Normal(output[:, :3], output[:, 3:].exp()), 1)
    expected = TransformedDistribution(normal, TanhTransform(cache_size=0)).log_prob(action)
    torch.testing.assert_close(log_prob, expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(action, torch.tanh(output[:, :3] + output[:, 3:].exp() * noise))


def test_the_written_backward_is_that_of_autograd() -> None:
    output, noise = draw(20, 3)
    output[0, 3:] = torch.tensor([-25.0, 3.0, 2.5])  # outside of the clamp: no gradient to log_std
    grad_action = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for grad_log_prob in (torch.tensor(0.7, dtype=torch.float64), torch.linspace(-1, 1, 12, dtype=torch.float64)):
        grads = []
        for squash in (FusedSquash(), ReferenceSquash()):
            _, _, tape = squash.forward(output, noise)
            grads.append(squash.backward(tape, grad_action, grad_log_prob))
        # torch's softplus is cut at 20, which shows in autograd's 10th digit
        torch.testing.assert_close(grads[0], grads[1], rtol=1e-8, atol=1e-8)
        assert grads[0][0, 3:].tolist() == [0.0, 0.0, 0.0]


@BOTH
def test_saturated_actions_stay_finite(squash: FusedSquash | ReferenceSquash) -> None:
    output = torch.tensor([[60.0, -60.0, 5.0, -40.0], [1e4, -1e4, 0.0, 0.0]])
    noise = torch.tensor([[3.0, -3.0], [1.0, 1.0]])
    action, log_prob, tape = squash.forward(output, noise)
    grad = squash.backward(tape, torch.ones(2, 2), torch.tensor(0.5))
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(grad).all()
    assert action.abs().max() <= 1
