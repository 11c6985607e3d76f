"""Floating-point operations of the products that one update needs, by formula.

A product of (B, I) and (I, H) costs 2 B I H. With P = the sum of I H over a network's layers and P1 that of its first
layer, per row and divided by 2:

    forward                             P
    backward, weights' gradients        P + (P - P1): the weights of all layers, the inputs of all but the first
    backward, the action's gradient     (P - P1) + A H1: the inputs of all layers, of the first the action's columns

           propose                  train                               advise                        learn
    SAC    2 forward of the actor   2 critics forward for the target,   2 critics forward and         backward of the
                                    2 critics forward and backward      backward to the action        actor
    DDPG   the same with 1 critic; the next action comes from the target actor
    TD3    the next action in every update, the action in one of `delay`; 2 critics; advice by 1 critic, and learning,
           in one of `delay`

What is not a product (activations, Adam, targets, the draw) is left out: it is what an update costs beyond its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from spreeze.weights.numpy_policy import PolicySpec


class Halves(NamedTuple):
    """A figure of each piece of an update: the actor's propose and learn, the critics' train and advise.

    propose and train are those of a mean update; advise and learn those of one in which the actor learns."""

    propose: float
    learn: float
    train: float
    advise: float

    def of_update(self, period: int = 1) -> float:
        """The sum of a mean update whose actor learns in one of `period`."""
        return self.propose + self.train + (self.learn + self.advise) / period


def critics_of(algo: str) -> int:
    return 1 if algo == "ddpg" else 2


def advisers_of(algo: str) -> int:
    return 2 if algo == "sac" else 1


def period_of(algo: str, policy_delay: int) -> int:
    return policy_delay if algo == "td3" else 1


def critic_sizes(policy: PolicySpec) -> tuple[int, ...]:
    return (policy.obs_size + policy.action_size, *policy.hidden, 1)


def flops_of_halves(algo: str, policy: PolicySpec, batch_size: int, policy_delay: int = 1) -> Halves:
    sizes = critic_sizes(policy)
    actor, critic = _products(policy.layer_sizes), _products(sizes)
    critic_backward = 2 * critic - _first(sizes)
    to_action = critic - _first(sizes) + policy.action_size * sizes[1]
    halves = Halves(
        propose=actor + actor / period_of(algo, policy_delay),
        learn=2 * actor - _first(policy.layer_sizes),
        train=critics_of(algo) * (2 * critic + critic_backward),
        advise=advisers_of(algo) * (critic + to_action),
    )
    return Halves(*(2.0 * batch_size * products for products in halves))


def flops_of_update(algo: str, policy: PolicySpec, batch_size: int, policy_delay: int = 1) -> float:
    halves = flops_of_halves(algo, policy, batch_size, policy_delay)
    return halves.of_update(period_of(algo, policy_delay))


def _products(sizes: Sequence[int]) -> int:
    return sum(inputs * outputs for inputs, outputs in pairwise(sizes))


def _first(sizes: Sequence[int]) -> int:
    return sizes[0] * sizes[1]
