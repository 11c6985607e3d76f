"""What the display is told: the run, its figures now, its roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

State = Literal["starting", "ok", "parked", "silent", "restarting", "stopping", "ended", "dead"]


@dataclass(frozen=True)
class Header:
    """What does not change while a run goes on."""

    env: str
    algo: str
    device: str
    seed: int
    run_dir: str
    steps: int | None = None
    seconds: float | None = None
    until_return: float | None = None
    env_is_kept: bool = True  # False: a Python callable, which no run folder holds


@dataclass(frozen=True)
class Role:
    name: str
    state: State
    restarts: int = 0


@dataclass(frozen=True)
class View:
    """One moment of a run. `record`: a line of metrics.jsonl; `evals`: those of eval.jsonl; `event`: the latest."""

    header: Header
    record: Mapping[str, Any] = field(default_factory=dict)
    roles: Sequence[Role] = ()
    evals: Sequence[Mapping[str, Any]] = ()
    event: Mapping[str, Any] | None = None

    def figure(self, name: str) -> float | None:
        return self.record.get(name)

    @property
    def wall_s(self) -> float:
        return float(self.record.get("wall_s") or 0.0)

    @cached_property
    def returns(self) -> list[tuple[float, float]]:
        """(wall_s, mean return) of the evaluations."""
        points = [(entry.get("wall_s"), entry.get("return_mean")) for entry in self.evals]
        return [(wall_s, value) for wall_s, value in points if wall_s is not None and value is not None]

    @property
    def phase(self) -> str:
        states = {role.state for role in self.roles}
        if states & {"stopping", "ended"}:
            return "stopping"
        if not self.figure("env_steps"):
            return "starting"
        return "training" if self.figure("updates") else "collecting"

    @property
    def progress(self) -> float | None:
        """Share of the nearest limit that is reached; None without a limit in time or steps."""
        shares = []
        if self.header.seconds:
            shares.append(self.wall_s / self.header.seconds)
        if self.header.steps:
            shares.append((self.figure("env_steps") or 0) / self.header.steps)
        return min(1.0, max(shares)) if shares else None
