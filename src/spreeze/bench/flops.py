"""Floating-point operations of the products that one update needs, by formula.

A product of (B, I) and (I, H) costs 2 B I H. With P = the sum of I H over a network's layers and P1 that of its first
layer, per row and divided by 2:

    forward                             P
    backward, weights' gradients        P + (P - P1): the weights of all layers, the inputs of all but the first
    backward, the action's gradient     (P - P1) + A H1: the inputs of all layers, of the first the action's columns

    SAC   next action and action          2 forward of the actor
          target                          2 critics forward
          critics                         2 critics forward and backward
          dQ/da                           2 critics forward and backward to the action
          actor                           backward
    DDPG  the same with 1 critic; the next action comes from the target actor
    TD3   the next action, target and critics in every update; action, dQ/da (1 critic) and actor in one of `delay`

What is not a product (activations, Adam, targets, the draw) is left out: it is what an update costs beyond its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from spreeze.weights.numpy_policy import PolicySpec


def flops_of_update(algo: str, policy: PolicySpec, batch_size: int, policy_delay: int = 1) -> float:
    critic_sizes = (policy.obs_size + policy.action_size, *policy.hidden, 1)
    actor, critic = _products(policy.layer_sizes), _products(critic_sizes)
    actor_backward = 2 * actor - _first(policy.layer_sizes)
    critic_backward = 2 * critic - _first(critic_sizes)
    to_action = critic - _first(critic_sizes) + policy.action_size * critic_sizes[1]
    critics = 1 if algo == "ddpg" else 2
    advisers = 2 if algo == "sac" else 1
    every_update = actor + critics * (2 * critic + critic_backward)
    actor_turn = actor + advisers * (critic + to_action) + actor_backward
    return 2.0 * batch_size * (every_update + actor_turn / (policy_delay if algo == "td3" else 1))


def _products(sizes: Sequence[int]) -> int:
    return sum(inputs * outputs for inputs, outputs in pairwise(sizes))


def _first(sizes: Sequence[int]) -> int:
    return sizes[0] * sizes[1]
