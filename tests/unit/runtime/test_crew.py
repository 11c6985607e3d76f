"""Who is replaced, when and how often: real rules, with processes and time in the test's hand."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from spreeze.board import Board
from spreeze.runtime import crew as crew_module
from spreeze.runtime.crew import DISMISSED_WITHIN_S, SPAWN_AGAIN_AFTER_S, Crew
from spreeze.runtime.limits import LEARNER_SILENT_AT_MOST_S, START_TIMES, Limits

LIMITS = Limits(hang_after_s=10.0, restarts_per_minute=3, memory_bytes=None)
ROLES = ("learner", "sampler-0", "evaluator")


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


class FakeChild:
    def __init__(self, pid: int, started_at: float) -> None:
        self.pid, self.started_at, self.code = pid, started_at, None

    def exit_code(self) -> int | None:
        return self.code

    def show_stacks(self) -> None:
        self.showed_stacks = self.code is None

    def kill(self) -> None:
        self.code = -signal.SIGKILL if self.code is None else self.code

    def wait_gone(self, timeout_s: float) -> bool:
        return True


class House:
    """A crew on a board whose other sections this test writes, as the roles would."""

    def __init__(self, clock: Clock, limits: Limits = LIMITS) -> None:
        self.clock, self.board = clock, Board.create(1)
        self.events: list[dict[str, Any]] = []
        self.children: dict[str, FakeChild] = {}
        self.refused: OSError | None = None
        self.crew = Crew(self.board, self._spawn, self._event, limits)  # type: ignore[arg-type]
        for role in ROLES:
            self.crew.start(role)
            self.works(role)

    def works(self, role: str) -> None:
        section = self.board.section(role)
        section.set("pid", self.children[role].pid)
        section.set("ready", 1)
        self.beats(role)

    def beats(self, *roles: str) -> None:
        for role in roles:
            self.board.section(role).set("heartbeat_ns", int(self.clock.now_s * 1e9))

    def pass_time(self, seconds: float, beating: tuple[str, ...] = ROLES) -> tuple[str, str] | None:
        """A second at a time, as a supervisor that is awake sees it."""
        lost = None
        for _ in range(int(seconds)):
            self.clock.now_s += 1.0
            self.beats(*beating)
            lost = lost or self.crew.heal()
        return lost

    def reasons(self, kind: str) -> list[str]:
        return [event["reason"] for event in self.events if event["kind"] == kind]

    def _spawn(self, role: str) -> FakeChild:
        if self.refused:
            raise self.refused
        self.children[role] = FakeChild(len(self.events) + 100, self.clock.now_s)
        return self.children[role]

    def state(self, role: str) -> str:
        return next(r.state for r in self.crew.states(self.clock.now_s) if r.name == role)

    def _event(self, kind: str, reason: str, **fields: Any) -> None:
        self.events.append({"kind": kind, "reason": reason, **fields})


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    clock = Clock()
    monkeypatch.setattr(crew_module, "time", clock)
    return House(clock)


def test_who_beats_is_left_alone(house: House) -> None:
    assert house.pass_time(300) is None
    assert house.crew.restarts() == dict.fromkeys(ROLES, 0)


@pytest.mark.parametrize("role", ["sampler-0", "evaluator"])
def test_a_dead_role_is_replaced_at_the_next_look(house: House, role: str) -> None:
    house.children[role].code = -signal.SIGKILL
    assert house.crew.heal() is None
    assert house.children[role].code is None
    assert house.reasons("restart") == ["it was killed by SIGKILL"]
    assert house.crew.restarts()[role] == 1


@pytest.mark.parametrize(("role", "patience"), [("sampler-0", 1), ("evaluator", 2)])
def test_a_silent_role_is_killed_and_replaced_after_its_deadline(house: House, role: str, patience: int) -> None:
    others, deadline_s = tuple(set(ROLES) - {role}), int(LIMITS.hang_after_s * patience)
    hung = house.children[role]
    house.pass_time(deadline_s, beating=others)
    assert house.children[role] is hung
    house.pass_time(1, beating=others)
    assert house.children[role] is not hung
    assert hung.showed_stacks
    assert hung.code == -signal.SIGKILL
    assert house.reasons("restart") == [f"it was silent for {deadline_s + 1} s"]


def test_a_role_that_never_gets_ready_is_replaced(house: House) -> None:
    house.board.section("sampler-0").set("ready", 0)
    house.pass_time(START_TIMES * LIMITS.hang_after_s)
    assert house.reasons("restart") == []
    house.pass_time(1)
    assert house.reasons("restart") == ["it did not start within 60 s"]


def test_the_heartbeat_of_a_predecessor_does_not_count(house: House) -> None:
    """A successor that hangs in its start-up while the cells still say what the dead one wrote."""
    house.children["sampler-0"].code = 1
    house.crew.heal()
    assert house.pass_time(30) is None  # pid and ready are the predecessor's
    assert house.crew.restarts()["sampler-0"] == 1


def test_a_supervisor_that_slept_holds_nobody_s_silence_against_him(house: House) -> None:
    house.clock.now_s += 3_600.0  # Ctrl-Z over lunch: everybody was silent for an hour as far as he can tell
    assert house.crew.heal() is None
    assert house.pass_time(LIMITS.hang_after_s, beating=()) is None
    assert sum(house.crew.restarts().values()) == 0
    house.pass_time(1, beating=("learner", "evaluator"))
    assert house.crew.restarts()["sampler-0"] == 1


def test_the_learner_is_not_replaced(house: House) -> None:
    assert house.pass_time(LEARNER_SILENT_AT_MOST_S + 1, beating=("sampler-0", "evaluator")) == (
        "learner",
        f"was silent for {LEARNER_SILENT_AT_MOST_S + 1:.0f} s",
    )


def test_a_budget_that_is_spent_ends_the_run_and_one_that_was_spent_slowly_does_not(house: House) -> None:
    for _ in range(10):
        house.children["sampler-0"].code = 1
        assert house.crew.heal() is None
        house.works("sampler-0")
        assert house.pass_time(60 / LIMITS.restarts_per_minute + 1) is None
    for _ in range(LIMITS.restarts_per_minute - 2):
        house.children["sampler-0"].code = 1
        assert house.crew.heal() is None
    house.children["sampler-0"].code = 1
    house.crew.heal()
    house.children["sampler-0"].code = 1
    assert house.crew.heal() == ("sampler-0", "ended with exit code 1")


def test_a_system_that_gives_no_process_is_asked_again(house: House) -> None:
    house.refused = OSError(24, "Too many open files")
    house.children["sampler-0"].code = 1
    assert house.pass_time(2) is None
    assert house.reasons("warning") == [
        "no process could be started in its place, tried again: [Errno 24] Too many open files"
    ]
    house.refused = None
    house.pass_time(SPAWN_AGAIN_AFTER_S)
    assert house.children["sampler-0"].code is None
    assert house.crew.restarts()["sampler-0"] == 1


def test_a_system_that_gives_no_process_for_long_ends_the_run(house: House) -> None:
    house.refused = OSError(11, "Resource temporarily unavailable")
    house.children["sampler-0"].code = 1
    assert house.pass_time(SPAWN_AGAIN_AFTER_S * (LIMITS.restarts_per_minute + 1)) is not None


def test_a_role_over_its_memory_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {house.children["sampler-0"].pid: 300 << 20, house.children["learner"].pid: 900 << 20}
    monkeypatch.setattr("spreeze.runtime.memory_watch.resident_bytes", lambda pid: taken.get(pid, 0))
    limited = House(house.clock, Limits(10.0, 3, memory_bytes=200 << 20))
    taken[limited.children["sampler-0"].pid] = 201 << 20
    taken[limited.children["learner"].pid] = 900 << 20  # its memory is planned, not limited
    assert limited.pass_time(2) is None
    assert limited.reasons("restart") == [
        "it took 201 MiB of memory, more than the 200 MiB that it may (--sampler-memory)"
    ]


def test_a_run_goes_on_without_its_visualizer(house: House) -> None:
    house.crew.start("visualizer")
    for restarts in range(LIMITS.restarts_per_minute):
        house.children["visualizer"].code = -signal.SIGKILL
        assert house.pass_time(1) is None
        assert house.crew.restarts()["visualizer"] == restarts + 1
    house.children["visualizer"].code = -signal.SIGKILL
    assert house.pass_time(100) is None
    assert house.reasons("warning") == ["it was killed by SIGKILL, again and again: the run goes on without it"]
    assert house.state("visualizer") == "dead"
    assert house.children["visualizer"].pid not in house.crew.pids()
    house.crew.start("visualizer")  # somebody asks for it again
    house.works("visualizer")
    assert house.state("visualizer") == "ok"
    assert house.crew.restarts()["visualizer"] == LIMITS.restarts_per_minute


def test_a_visualizer_may_leave(house: House) -> None:
    house.crew.start("visualizer")
    house.works("visualizer")
    house.children["visualizer"].code = 0
    assert house.pass_time(100) is None
    assert house.reasons("leave") == ["it has left"]
    assert house.crew.restarts()["visualizer"] == 0
    assert "visualizer" not in [role.name for role in house.crew.states(house.clock.now_s)]
    assert not house.crew.wanted("visualizer")


def test_a_visualizer_that_hangs_is_replaced_and_one_that_was_dismissed_is_ended(house: House) -> None:
    house.crew.start("visualizer")
    house.works("visualizer")
    first = house.children["visualizer"]
    assert house.pass_time(2 * LIMITS.hang_after_s + 2) is None
    assert first.code == -signal.SIGKILL
    second = house.children["visualizer"]
    assert second is not first
    house.crew.dismiss("visualizer")
    assert not house.crew.wanted("visualizer")
    assert house.pass_time(DISMISSED_WITHIN_S - 1) is None
    assert second.code is None
    assert house.pass_time(2) is None
    assert second.code == -signal.SIGKILL
    assert house.reasons("leave") == ["it has left"]
    house.crew.start("visualizer")
    assert house.crew.wanted("visualizer")
