"""The map of the house: every link between the roles is made in `connect` and opened in `open_*_links`.

SAMPLER k --ring k--> LEARNER          rows: packed in the sampler, copied into ring k (1), out of it into the
                                       learner's staging (2), from there into replay on its device (3)
LEARNER --weights--> everybody         the actor's flat vector: a file in the run folder, or shared memory
everybody --board--> SUPERVISOR        counters and heartbeats; the supervisor's own cell stops everybody
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spreeze.board import Board
from spreeze.experience.packing import block_rows
from spreeze.experience.ring import RingReceiver, RingSender, RingShape, make_ring_block, sampler_ring_shape
from spreeze.memory import SharedBlock
from spreeze.roles.links import EvaluatorLinks, LearnerLinks, SamplerLinks
from spreeze.spec import Layout
from spreeze.weights.link import Follower, Publisher
from spreeze.weights.memory import MemoryFollower, MemoryPublisher, make_weights_block
from spreeze.weights.ssd import SsdFollower, SsdPublisher


class Topology:
    """All shared blocks of one run, held by the supervisor; children inherit the descriptors that they need."""

    def __init__(self, board: Board, rings: list[SharedBlock], shape: RingShape, weights: SharedBlock | None) -> None:
        self.board = board
        self.rings = rings
        self.shape = shape
        self.weights = weights

    def wiring(self, role: str) -> dict[str, Any]:
        """What a child needs to open its ends, as JSON; descriptors are inherited under their own numbers."""
        rings: list[SharedBlock] = []
        if role == "learner":
            rings = self.rings
        elif role.startswith("sampler-"):
            rings = [self.rings[int(role.removeprefix("sampler-"))]]
        return {
            "board": _describe(self.board.block),
            "samplers": self.board.samplers,
            "rings": [_describe(ring) for ring in rings],
            "ring_shape": list(self.shape),
            "weights": None if self.weights is None else _describe(self.weights),
        }

    def close(self) -> None:
        for block in (self.board.block, *self.rings, *([self.weights] if self.weights else [])):
            block.close_fd()


def connect(layout: Layout, samplers: int, envs_per_sampler: int, n_step: int, weights: str, count: int) -> Topology:
    """Makes every link of a run. `weights`: ssd or memory; `count`: floats of the policy's flat vector."""
    shape = sampler_ring_shape(layout, block_rows(envs_per_sampler, n_step))
    return Topology(
        board=Board.create(samplers),
        rings=[make_ring_block(f"ring-{k}", shape) for k in range(samplers)],
        shape=shape,
        weights=make_weights_block(count) if weights == "memory" else None,
    )


def wired_descriptors(wiring: dict[str, Any]) -> list[int]:
    blocks = [wiring["board"], *wiring["rings"], *([wiring["weights"]] if wiring["weights"] else [])]
    return [block["fd"] for block in blocks]


def open_board(wiring: dict[str, Any]) -> Board:
    return Board(_open(wiring["board"]), wiring["samplers"])


def open_sampler_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> SamplerLinks:
    shape = RingShape(*wiring["ring_shape"])
    return SamplerLinks(board, RingSender(_open(wiring["rings"][0]), shape), _follower(wiring, board, run_dir, count))


def open_evaluator_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> EvaluatorLinks:
    return EvaluatorLinks(board, _follower(wiring, board, run_dir, count))


def open_learner_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> LearnerLinks:
    rows = RingReceiver([_open(ring) for ring in wiring["rings"]], RingShape(*wiring["ring_shape"]))
    cells = board.section("learner")

    def announce(version: int) -> None:
        cells.set("weights_version", version)

    publisher: Publisher
    if wiring["weights"] is None:
        publisher = SsdPublisher(run_dir, announce)
    else:
        publisher = MemoryPublisher(_open(wiring["weights"]), count, announce)
    return LearnerLinks(board, rows, publisher)


def _follower(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> Follower:
    if wiring["weights"] is None:
        cells = board.section("learner")
        return SsdFollower(run_dir, announced=lambda: cells.get("weights_version"))
    return MemoryFollower(_open(wiring["weights"]), count)


def _describe(block: SharedBlock) -> dict[str, int]:
    return {"fd": block.fd, "size_bytes": block.size_bytes}


def _open(described: dict[str, int]) -> SharedBlock:
    return SharedBlock(described["fd"], described["size_bytes"])
