"""The FLOPs of an update, against a count by hand."""

from __future__ import annotations

import pytest

from spreeze.tuning.flops import flops_of_update
from spreeze.weights.numpy_policy import PolicySpec

# obs 2, act 1, hidden 3 and 5. Critic 3 -> 3 -> 5 -> 1: 9 + 15 + 5 = 29 multiplications a row, its first layer 9.
SAC_ACTOR = PolicySpec("tanh_gaussian", 2, 1, (3, 5))  # 2 -> 3 -> 5 -> 2: 6 + 15 + 10 = 31, its first layer 6
TANH_ACTOR = PolicySpec("tanh", 2, 1, (3, 5))  # 2 -> 3 -> 5 -> 1: 6 + 15 + 5 = 26
CRITIC_BACKWARD = 29 + 20  # weights of all layers, inputs of the second and the third
TO_ACTION = 20 + 3  # the same inputs, and one action column of the first layer


@pytest.mark.parametrize(
    ("algo", "policy", "delay", "multiplications"),
    [
        ("sac", SAC_ACTOR, 1, 31 + 31 + 2 * 29 + 2 * (29 + CRITIC_BACKWARD) + 2 * (29 + TO_ACTION) + (31 + 25)),
        ("ddpg", TANH_ACTOR, 1, 26 + 26 + 29 + (29 + CRITIC_BACKWARD) + (29 + TO_ACTION) + (26 + 20)),
        ("td3", TANH_ACTOR, 2, 26 + 2 * 29 + 2 * (29 + CRITIC_BACKWARD) + (26 + (29 + TO_ACTION) + (26 + 20)) / 2),
    ],
)
def test_formula_equals_the_count_by_hand(algo: str, policy: PolicySpec, delay: int, multiplications: float) -> None:
    assert flops_of_update(algo, policy, batch_size=7, policy_delay=delay) == 2 * 7 * multiplications


def test_half_cheetah_with_the_usual_widths_needs_about_2_3_mflop_a_row() -> None:
    per_row = flops_of_update("sac", PolicySpec("tanh_gaussian", 17, 6, (256, 256)), batch_size=1)
    assert per_row == pytest.approx(2.25e6, rel=0.01)
