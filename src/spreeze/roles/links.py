"""The ends of the links that each role holds; runtime/topology.py makes them."""

from __future__ import annotations

from dataclasses import dataclass

from spreeze.board import Board
from spreeze.experience.ring import RingReceiver, RingSender
from spreeze.weights.link import Follower, Publisher


@dataclass
class SamplerLinks:
    board: Board
    rows: RingSender
    weights: Follower


@dataclass
class LearnerLinks:
    board: Board
    rows: RingReceiver
    weights: Publisher


@dataclass
class EvaluatorLinks:
    board: Board
    weights: Follower
