"""The map of the house: every link between the roles is made in `connect` and opened in `open_*_links`.

SAMPLER k --ring k--> LEARNER          rows: packed in the sampler, copied into ring k (1), out of it into the
                                       learner's staging (2), from there into replay on its device (3); or, where
                                       they are drawn from the pool, copied into it (1) and nowhere else
LEARNER --weights--> everybody         the actor for samplers and its average for all others, as one flat vector: a
                                       file in the run folder, or shared memory
everybody --board--> SUPERVISOR        counters and heartbeats; the supervisor's own cell stops everybody
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spreeze.board import Board
from spreeze.experience.link import Channel, Demand
from spreeze.experience.packing import block_rows
from spreeze.experience.ring import waiting_rows
from spreeze.experience.ways import make_channel, open_receiver, open_sender
from spreeze.memory import SharedBlock
from spreeze.roles.links import EvaluatorLinks, LearnerLinks, SamplerLinks, VisualizerLinks
from spreeze.spec import Layout
from spreeze.weights.link import Follower, Publisher
from spreeze.weights.memory import MemoryFollower, MemoryPublisher, make_weights_block
from spreeze.weights.published import ACTOR, AVERAGE, POLICIES, PolicyFollower
from spreeze.weights.ssd import SsdFollower, SsdPublisher


class Topology:
    """All shared blocks of one run, held by the supervisor; children inherit the descriptors that they need."""

    def __init__(self, board: Board, way: str, experience: Channel, weights: SharedBlock | None) -> None:
        self.board = board
        self.way = way
        self.experience = experience
        self.weights = weights

    def wiring(self, role: str) -> dict[str, Any]:
        """What a child needs to open its ends, as JSON; descriptors are inherited under their own numbers."""
        experience = None
        if role == "learner":
            experience = self.experience.receiver_wiring()
        elif role.startswith("sampler-"):
            experience = self.experience.sender_wiring(int(role.removeprefix("sampler-")))
        return {
            "board": _describe(self.board.block),
            "samplers": self.board.samplers,
            "way": self.way,
            "experience": experience,
            "weights": None if self.weights is None else _describe(self.weights),
        }

    def close(self) -> None:
        self.experience.close()
        for block in (self.board.block, *([self.weights] if self.weights else [])):
            block.close_fd()


def connect(
    layout: Layout,
    samplers: int,
    envs_per_sampler: int,
    n_step: int,
    weights: str,
    count: int,
    experience: str = "ring",
    kept_rows: int = 0,
) -> Topology:
    """Makes every link of a run. `weights`: ssd or memory; `count`: floats of the policy's flat vector; `kept_rows`:
    the size of replay, for the way of experience that holds it."""
    most = block_rows(envs_per_sampler, n_step)
    demand = Demand(layout.row_size, samplers, most, waiting_rows(layout, most), kept_rows)
    return Topology(
        board=Board.create(samplers),
        way=experience,
        experience=make_channel(experience, demand),
        weights=make_weights_block(POLICIES * count) if weights == "memory" else None,
    )


def wired_descriptors(wiring: dict[str, Any]) -> list[int]:
    blocks = [wiring["board"], *([wiring["weights"]] if wiring["weights"] else [])]
    experience = (wiring["experience"] or {"fds": []})["fds"]
    return [*(block["fd"] for block in blocks), *experience, *wiring.get("kept_open", [])]


def open_board(wiring: dict[str, Any]) -> Board:
    return Board(_open(wiring["board"]), wiring["samplers"])


def open_sampler_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> SamplerLinks:
    sender = open_sender(wiring["way"], wiring["experience"])
    return SamplerLinks(board, sender, _follower(wiring, board, run_dir, count, ACTOR))


def open_evaluator_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> EvaluatorLinks:
    return EvaluatorLinks(board, _follower(wiring, board, run_dir, count, AVERAGE))


def open_visualizer_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> VisualizerLinks:
    return VisualizerLinks(board, _follower(wiring, board, run_dir, count, AVERAGE))


def open_learner_links(wiring: dict[str, Any], board: Board, run_dir: Path, count: int) -> LearnerLinks:
    rows = open_receiver(wiring["way"], wiring["experience"])
    cells = board.section("learner")

    def announce(version: int) -> None:
        cells.set("weights_version", version)

    publisher: Publisher
    if wiring["weights"] is None:
        publisher = SsdPublisher(run_dir, announce)
    else:
        publisher = MemoryPublisher(_open(wiring["weights"]), POLICIES * count, announce)
    return LearnerLinks(board, rows, publisher)


def _follower(wiring: dict[str, Any], board: Board, run_dir: Path, count: int, which: int) -> Follower:
    published: Follower
    if wiring["weights"] is None:
        cells = board.section("learner")
        published = SsdFollower(run_dir, announced=lambda: cells.get("weights_version"))
    else:
        published = MemoryFollower(_open(wiring["weights"]), POLICIES * count)
    return PolicyFollower(published, count, which)


def _describe(block: SharedBlock) -> dict[str, int]:
    return {"fd": block.fd, "size_bytes": block.size_bytes}


def _open(described: dict[str, int]) -> SharedBlock:
    return SharedBlock(described["fd"], described["size_bytes"])
