"""The ends of the links that each role holds; runtime/topology.py makes them."""

from __future__ import annotations

from dataclasses import dataclass

from spreeze.board import Board
from spreeze.experience.link import Receiver, Sender
from spreeze.weights.link import Follower, Publisher


@dataclass
class SamplerLinks:
    board: Board
    rows: Sender
    weights: Follower


@dataclass
class LearnerLinks:
    board: Board
    rows: Receiver
    weights: Publisher


@dataclass
class EvaluatorLinks:
    board: Board
    weights: Follower


@dataclass
class VisualizerLinks:
    board: Board
    weights: Follower
