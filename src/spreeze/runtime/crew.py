"""The run's processes: who runs, who died or hangs, and their replacement within a budget."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spreeze.board import Board, role_kind
from spreeze.metrics.view import Role, State
from spreeze.runtime.process import Child, describe_exit

START_WITHIN_S = 180.0  # a role's first sign that it works: imports, simulators, captured updates
SILENT_AT_MOST_S = {"sampler": 30.0, "evaluator": 60.0, "learner": 120.0}
RESTARTS_AT_MOST, RESTARTS_WITHIN_S = 5, 60.0
GONE_WITHIN_S = 60.0  # after SIGKILL
IRREPLACEABLE = ("learner",)


@dataclass
class _Member:
    child: Child
    restarts_at: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_AT_MOST))
    restarts: int = 0


class Crew:
    """Of one run. `spawn` starts a role's process; `event` is told what happened, as Recorder.event."""

    def __init__(self, board: Board, spawn: Callable[[str], Child], event: Callable[..., object]) -> None:
        self._board = board
        self._spawn = spawn
        self._event = event
        self._members: dict[str, _Member] = {}

    def start(self, role: str) -> None:
        self._members[role] = _Member(self._spawn_noted(role))

    def heal(self) -> tuple[str, str] | None:
        """Replaces roles that died or hang. -> the role and what befell it, where the run cannot go on without it or
        its budget is spent"""
        for role, member in self._members.items():
            trouble = self._trouble(role, member.child)
            if trouble is None:
                continue
            member.child.kill()
            member.child.wait_gone(GONE_WITHIN_S)
            self._event("trouble", trouble, role=role)
            if role in IRREPLACEABLE or not self._replace(role, member, trouble):
                return role, trouble
        return None

    def running(self, roles: Iterable[str] | None = None) -> list[str]:
        """Those of `roles`, by default all, whose process runs."""
        asked = self._members if roles is None else roles
        return [role for role in asked if role in self._members and self.exit_code(role) is None]

    def exit_code(self, role: str) -> int | None:
        return self._members[role].child.exit_code()

    def roles(self) -> list[str]:
        return list(self._members)

    def pids(self) -> list[int]:
        return [member.child.pid for member in self._members.values()]

    def restarts(self) -> dict[str, int]:
        return {role: member.restarts for role, member in self._members.items()}

    def states(self, now: float) -> list[Role]:
        return [Role(role, self._state(role, member, now), member.restarts) for role, member in self._members.items()]

    def kill_all(self) -> None:
        for member in self._members.values():
            member.child.kill()
        for member in self._members.values():
            member.child.wait_gone(GONE_WITHIN_S)

    def _spawn_noted(self, role: str) -> Child:
        child = self._spawn(role)
        self._event("start", f"process {child.pid}", role=role, pid=child.pid)
        return child

    def _replace(self, role: str, member: _Member, trouble: str) -> bool:
        """False when it was replaced too often lately."""
        now = time.monotonic()
        budget_spent = len(member.restarts_at) == RESTARTS_AT_MOST
        if budget_spent and now - member.restarts_at[0] < RESTARTS_WITHIN_S:
            return False
        member.restarts_at.append(now)
        member.restarts += 1
        member.child = self._spawn_noted(role)
        self._event("restart", f"it {trouble}", role=role, restarts=member.restarts)
        return True

    def _trouble(self, role: str, child: Child) -> str | None:
        code = child.exit_code()
        if code is not None:
            return describe_exit(code)
        if self._works(role, child):
            silent_s, limit_s = self._silent_s(role, time.monotonic()), SILENT_AT_MOST_S[role_kind(role)]
            return f"was silent for {silent_s:.0f} s" if silent_s > limit_s else None
        starting_s = time.monotonic() - child.started_at
        return f"did not start within {START_WITHIN_S:.0f} s" if starting_s > START_WITHIN_S else None

    def _state(self, role: str, member: _Member, now: float) -> State:
        stopping = self._board.stopping()
        if member.child.exit_code() is not None:
            return "ended" if stopping else "dead"
        if stopping:
            return "stopping"
        if not self._works(role, member.child):
            return "restarting" if member.restarts else "starting"
        if role_kind(role) == "sampler" and 0 < self._board.active_samplers() <= int(role.removeprefix("sampler-")):
            return "parked"
        return "silent" if self._silent_s(role, now) > SILENT_AT_MOST_S[role_kind(role)] / 3 else "ok"

    def _works(self, role: str, child: Child) -> bool:
        """This very process, and not the one before it, has finished its start-up."""
        section = self._board.section(role)
        return section.get("pid") == child.pid and bool(section.get("ready"))

    def _silent_s(self, role: str, now: float) -> float:
        return now - self._board.section(role).get("heartbeat_ns") / 1e9
