"""The run's processes: who runs, who died or hangs, and their replacement within a budget.

A dispensable role may leave (exit code 0), be dismissed, or fail too often: the run goes on without it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from spreeze.board import Board, role_kind
from spreeze.metrics.view import Role, State
from spreeze.runtime.limits import RESTARTS_WITHIN_S, Limits
from spreeze.runtime.memory_watch import MemoryWatch
from spreeze.runtime.process import Child, describe_exit

GONE_WITHIN_S = 60.0  # after SIGKILL
IRREPLACEABLE = ("learner",)
DISPENSABLE = ("visualizer",)
DISMISSED_WITHIN_S = 5.0  # it was told by the board
SPAWN_AGAIN_AFTER_S = 3.0  # the system refused a process: descriptors, memory or processes are used up


@dataclass
class _Member:
    child: Child
    attempts_at: deque[float] = field(default_factory=deque)  # of replacing it, within the last minute
    restarts: int = 0
    wait_until: float = 0.0  # before the next attempt
    dismissed_at: float | None = None
    gone: Literal["left", "given up"] | None = None  # of a dispensable role


class Crew:
    """Of one run. `spawn` starts a role's process; `event` is told what happened, as Recorder.event."""

    def __init__(
        self, board: Board, spawn: Callable[[str], Child], event: Callable[..., object], limits: Limits
    ) -> None:
        self._board = board
        self._spawn = spawn
        self._event = event
        self._limits = limits
        self._members: dict[str, _Member] = {}
        self._memory = MemoryWatch()
        self._looked_at = self._awake_since = time.monotonic()

    def start(self, role: str) -> None:
        """Also again, once it is gone or dismissed."""
        before = self._members.get(role)
        if before is not None:
            before.child.kill()
            before.child.wait_gone(GONE_WITHIN_S)
        self._members[role] = _Member(self._spawn_noted(role), restarts=0 if before is None else before.restarts)

    def dismiss(self, role: str) -> None:
        """It was told to leave, and is not replaced."""
        member = self._members.get(role)
        if member is not None and member.dismissed_at is None:
            member.dismissed_at = time.monotonic()

    def wanted(self, role: str) -> bool:
        """It runs, or will again."""
        member = self._members.get(role)
        return member is not None and member.gone is None and member.dismissed_at is None

    def heal(self) -> tuple[str, str] | None:
        """Replaces roles that died or hang. -> the role and what befell it, where the run cannot go on without it or
        its budget is spent"""
        self._notice_own_sleep()
        for role, member in self._members.items():
            if member.gone is not None or (role in DISPENSABLE and self._see_off(role, member)):
                continue
            trouble = self._trouble(role, member.child)
            if trouble is None or time.monotonic() < member.wait_until:
                continue
            member.child.show_stacks()
            member.child.kill()
            member.child.wait_gone(GONE_WITHIN_S)
            self._event("trouble", trouble, role=role)
            if role in IRREPLACEABLE or not self._replace(role, member, trouble):
                if role not in DISPENSABLE:
                    return role, trouble
                member.gone = "given up"
                self._event("warning", f"it {trouble}, again and again: the run goes on without it", role=role)
        return None

    def running(self, roles: Iterable[str] | None = None) -> list[str]:
        """Those of `roles`, by default all, whose process runs."""
        asked = self._members if roles is None else roles
        return [role for role in asked if role in self._members and self.exit_code(role) is None]

    def exit_code(self, role: str) -> int | None:
        return self._members[role].child.exit_code()

    def roles(self) -> list[str]:
        return list(self._members)

    def pids(self, but_not: Iterable[str] = ()) -> list[int]:
        return [member.child.pid for role, member in self._members.items() if not member.gone and role not in but_not]

    def restarts(self) -> dict[str, int]:
        return {role: member.restarts for role, member in self._members.items()}

    def states(self, now: float) -> list[Role]:
        return [
            Role(role, self._state(role, member, now), member.restarts)
            for role, member in self._members.items()
            if member.gone != "left"
        ]

    def kill(self, roles: Iterable[str]) -> None:
        for role in roles:
            self._members[role].child.kill()

    def kill_all(self) -> None:
        for member in self._members.values():
            member.child.kill()
        for member in self._members.values():
            member.child.wait_gone(GONE_WITHIN_S)

    def _see_off(self, role: str, member: _Member) -> bool:
        """True while it is on its way out, and once it is gone."""
        code, dismissed_at = member.child.exit_code(), member.dismissed_at
        if code is None and dismissed_at is not None and time.monotonic() - dismissed_at > DISMISSED_WITHIN_S:
            member.child.kill()
            member.child.wait_gone(GONE_WITHIN_S)
            code = member.child.exit_code()
        if code is None or (code != 0 and dismissed_at is None):
            return dismissed_at is not None
        member.gone = "left"
        self._event("leave", "it has left", role=role)
        return True

    def _spawn_noted(self, role: str) -> Child:
        child = self._spawn(role)
        self._event("start", f"process {child.pid}", role=role, pid=child.pid)
        return child

    def _replace(self, role: str, member: _Member, trouble: str) -> bool:
        """False when it was tried too often lately."""
        now = time.monotonic()
        while member.attempts_at and now - member.attempts_at[0] > RESTARTS_WITHIN_S:
            member.attempts_at.popleft()
        if len(member.attempts_at) >= self._limits.restarts_per_minute:
            return False
        member.attempts_at.append(now)
        try:
            member.child = self._spawn_noted(role)
        except OSError as error:
            member.wait_until = now + SPAWN_AGAIN_AFTER_S
            self._event("warning", f"no process could be started in its place, tried again: {error}", role=role)
            return True
        member.restarts += 1
        self._event("restart", f"it {trouble}", role=role, restarts=member.restarts)
        return True

    def _trouble(self, role: str, child: Child) -> str | None:
        code = child.exit_code()
        if code is not None:
            return describe_exit(code)
        now, limits = time.monotonic(), self._limits
        if self._works(role, child):
            silent_s = self._silent_s(role, now)
            if silent_s > limits.silent_at_most_s(role):
                return f"was silent for {silent_s:.0f} s"
        elif now - max(child.started_at, self._awake_since) > limits.start_within_s(role):
            return f"did not start within {limits.start_within_s(role):.0f} s"
        return self._memory.excess(child.pid, limits.memory_of(role), now)

    def _notice_own_sleep(self) -> None:
        """Who was stopped himself (Ctrl-Z, a frozen container, a disk that held him) has not listened: nobody's silence
        of that time counts."""
        now = time.monotonic()
        if now - self._looked_at > self._limits.hang_after_s / 3:
            self._awake_since = now
        self._looked_at = now

    def _state(self, role: str, member: _Member, now: float) -> State:
        if member.gone == "given up":
            return "dead"
        stopping = self._board.stopping()
        if member.child.exit_code() is not None:
            return "ended" if stopping else "dead"
        if stopping:
            return "stopping"
        if not self._works(role, member.child):
            return "restarting" if member.restarts else "starting"
        if role_kind(role) == "sampler" and 0 < self._board.active_samplers() <= int(role.removeprefix("sampler-")):
            return "parked"
        return "silent" if self._silent_s(role, now) > self._limits.silent_at_most_s(role) / 3 else "ok"

    def _works(self, role: str, child: Child) -> bool:
        """This very process, and not the one before it, has finished its start-up."""
        section = self._board.section(role)
        return section.get("pid") == child.pid and bool(section.get("ready"))

    def _silent_s(self, role: str, now: float) -> float:
        return now - max(self._awake_since, self._board.section(role).get("heartbeat_ns") / 1e9)
