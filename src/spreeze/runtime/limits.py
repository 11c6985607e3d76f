"""How much patience the supervisor has with a role: until it counts as hung, how often it is replaced, how much memory
it may take."""

from __future__ import annotations

from dataclasses import dataclass

from spreeze.board import role_kind
from spreeze.config import RunConfig

LEARNER_SILENT_AT_MOST_S = 120.0  # one launch of many updates, and saving, take their time
LEARNER_START_WITHIN_S = 180.0  # imports, compiled and captured updates
START_TIMES = 6  # starting a simulator may take so many times as long as a role may be silent
PATIENCE = {"evaluator": 2, "visualizer": 2}  # times as long: they run at low priority
VISUALIZER_MEMORY_BYTES = 1 << 30  # at least: drawing takes more than stepping
RESTARTS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Limits:
    hang_after_s: float = 30.0
    restarts_per_minute: int = 5
    memory_bytes: int | None = None  # of a role that steps environments

    @staticmethod
    def of(config: RunConfig) -> Limits:
        """Of a resolved config."""
        restarts = 0 if config.deterministic else config.restarts_per_minute  # a replacement would be another run
        return Limits(config.hang_after, restarts, int(config.sampler_memory))

    def silent_at_most_s(self, role: str) -> float:
        kind = role_kind(role)
        return LEARNER_SILENT_AT_MOST_S if kind == "learner" else self.hang_after_s * PATIENCE.get(kind, 1)

    def start_within_s(self, role: str) -> float:
        return LEARNER_START_WITHIN_S if role == "learner" else START_TIMES * self.hang_after_s

    def memory_of(self, role: str) -> int | None:
        if role == "learner" or self.memory_bytes is None:
            return None
        return max(self.memory_bytes, VISUALIZER_MEMORY_BYTES) if role == "visualizer" else self.memory_bytes
