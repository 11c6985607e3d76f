"""The shared page of counters. Every cell has exactly one writer: the role whose section it is in.

    section 0: supervisor | 1: learner | 2: evaluator | 3: visualizer | 4...: sampler-0, sampler-1, ...

A cell is 8 aligned bytes, so a reader sees the old value or the new one, never a mix. Reading two cells is not
atomic: figures that belong together are computed by the role that owns them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import numpy as np

from spreeze.memory import SharedBlock

RETURNS_KEPT = 128  # latest training episodes per sampler
_SECTION_CELLS = 512  # 4 KiB a section: two roles never share a cache line

_COMMON = ("heartbeat_ns", "pid", "started_ns", "ready")
_INT_CELLS = {
    "supervisor": (
        "stop",
        "active_samplers",  # samplers from this number on park; 0: nobody was told to
        "batch_size",  # that the learner is to take; 0: the one that it began with
        "checkpoints_asked",
        "picture",  # 1: the visualizer is to draw the live picture
        "env_steps_before",  # in replay when this command began: a run that is resumed
    ),
    "learner": (
        "updates",
        "update_frames",  # rows that all updates together have drawn: the batch size may change
        "env_steps",  # rows in replay since the start, overwritten ones included
        "env_steps_permitted",  # samplers together may have stepped this often (pacing)
        "batch_size",  # of the latest updates
        "weights_version",
        "drains",
        "lost_rows",
        "first_update_ns",
        "round",  # --deterministic: the round that samplers may do
        "era",  # --deterministic: how often all samplers have begun new episodes
        "evaluation_asked",  # --deterministic: the version to be evaluated
        "evaluation_env_steps",
        "reached_steps",  # 1 when --steps is reached and every update that they allow is done
    ),
    "evaluator": ("evaluations", "evaluated_version", "weights_version", "weights_failures", "solved_ns", "solved"),
    "visualizer": ("frames", "weights_version", "weights_failures"),
    "sampler": (
        "env_steps",
        "episodes",
        "stepping_ns",  # spent inside its environments; 0 where the engine steps beside the acting as well
        "ring_full_ns",
        "weights_version",
        "weights_failures",
        "lost_rows",
        "env_errors",
        "lives",
        "rounds",  # --deterministic: the last round that is done and announced
        "first_step_ns",
    ),
}
LOSS_CELLS = ("critic_loss", "actor_loss", "q_mean", "temperature", "entropy")
_FLOAT_CELLS = {
    "supervisor": (),
    "learner": (
        "transfer_age_ms_p50",
        "transfer_age_ms_p95",
        "weights_age_ms_p50",
        "weights_age_ms_p95",
        "staleness_updates_p50",
        "staleness_updates_p95",
        *LOSS_CELLS,
    ),
    "evaluator": ("best_return", "last_return"),
    "visualizer": (),
    "sampler": (),
}
FIXED_ROLES = ("supervisor", "learner", "evaluator", "visualizer")
STOP_TRAINING = 1  # samplers leave, the learner saves and leaves; the evaluator looks at what came out
STOP_ALL = 2


def role_kind(role: str) -> str:
    return role.split("-")[0]


class Section:
    """The cells of one role, by name. Only that role writes them."""

    def __init__(self, role: str, cells: np.ndarray) -> None:
        kind = role_kind(role)
        self.role = role
        self._ints = cells
        self._floats = cells.view(np.float64)
        ints = _COMMON + _INT_CELLS[kind]
        floats = _FLOAT_CELLS[kind]
        self._place = {name: index for index, name in enumerate(ints)}
        self._float_place = {name: len(ints) + index for index, name in enumerate(floats)}
        # the latest episodes' returns and lengths, written before the count of episodes is moved on
        self.returns = self._floats[-2 * RETURNS_KEPT : -RETURNS_KEPT]
        self.lengths = self._ints[-RETURNS_KEPT:]

    def get(self, name: str) -> int:
        return int(self._ints[self._place[name]])

    def set(self, name: str, value: int) -> None:
        self._ints[self._place[name]] = value

    def add(self, name: str, value: int) -> None:
        self._ints[self._place[name]] += value

    def get_float(self, name: str) -> float:
        return float(self._floats[self._float_place[name]])

    def set_float(self, name: str, value: float) -> None:
        self._floats[self._float_place[name]] = value


class Board:
    """All sections over one shared block."""

    def __init__(self, block: SharedBlock, samplers: int) -> None:
        self.block = block
        self.samplers = samplers
        roles = FIXED_ROLES + tuple(f"sampler-{k}" for k in range(samplers))
        self._cells = block.array(np.int64, (len(roles), _SECTION_CELLS))
        self.sections = {role: Section(role, self._cells[index]) for index, role in enumerate(roles)}
        first, place = len(FIXED_ROLES), self.sections["learner"]._place
        self._stop = self._cells[0]
        self._stop_index = self.sections["supervisor"]._place["stop"]
        self._before_index = self.sections["supervisor"]._place["env_steps_before"]
        self._active_index = self.sections["supervisor"]._place["active_samplers"]
        sampler_steps = len(_COMMON) + _INT_CELLS["sampler"].index("env_steps")
        self._sampler_steps = self._cells[first:, sampler_steps]
        self._learner = self._cells[1]
        self._permitted_index = place["env_steps_permitted"]

    @staticmethod
    def create(samplers: int) -> Board:
        size_bytes = (len(FIXED_ROLES) + samplers) * _SECTION_CELLS * 8
        block = SharedBlock.create("board", size_bytes, poison=False)  # counters start at zero
        return Board(block, samplers)

    def go_on_from(self, counters: Mapping[str, int], evaluations: int) -> None:
        """The counters of a checkpoint, for a run that is resumed; before its roles start, while nobody else writes."""
        self.section("supervisor").set("env_steps_before", counters["env_steps"])
        for name in ("env_steps", "updates", "update_frames"):
            self.section("learner").set(name, counters[name])
        self.section("evaluator").set("evaluations", evaluations)
        for section in self.sampler_sections():
            section.set("lives", counters["sampler_lives"])

    def section(self, role: str) -> Section:
        return self.sections[role]

    def sampler_sections(self) -> list[Section]:
        return [self.sections[f"sampler-{k}"] for k in range(self.samplers)]

    def env_steps_taken(self) -> int:
        """Transitions sent by all samplers together, and those of earlier commands of the run."""
        return int(self._stop[self._before_index] + self._sampler_steps.sum())

    def env_steps_permitted(self) -> int:
        return int(self._learner[self._permitted_index])

    def active_samplers(self) -> int:
        return int(self._stop[self._active_index])

    def stopping(self) -> bool:
        return bool(self._stop[self._stop_index] >= STOP_TRAINING)

    def ending(self) -> bool:
        return bool(self._stop[self._stop_index] >= STOP_ALL)


class Life:
    """A role's heartbeat and stop flag. Every loop of a role beats; a role whose parent died stops by itself."""

    def __init__(self, board: Board, role: str, parent_pid: int) -> None:
        self._board = board
        self._section = board.section(role)
        self._parent_pid = parent_pid
        self.role = role
        # the pid last: whoever sees it must not take the predecessor's heartbeat for this process's
        self._section.set("ready", 0)
        self._section.set("started_ns", time.monotonic_ns())
        self.beat()
        self._section.set("pid", os.getpid())

    def beat(self) -> None:
        self._section.set("heartbeat_ns", time.monotonic_ns())

    def ready(self) -> None:
        """The role has finished its start-up and works."""
        self._section.set("ready", 1)

    def stopping(self) -> bool:
        """Training is over: samplers and learner leave."""
        return self._board.stopping() or os.getppid() != self._parent_pid

    def ending(self) -> bool:
        """The run is over: everybody leaves."""
        return self._board.ending() or os.getppid() != self._parent_pid
