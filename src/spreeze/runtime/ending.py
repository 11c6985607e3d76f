"""How a run ends: samplers leave, the learner saves and leaves, its last weights are evaluated, the rest leaves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spreeze.board import STOP_ALL, STOP_TRAINING, Board, Section
from spreeze.runtime.crew import Crew
from spreeze.runtime.process import describe_exit

POLL_S = 0.02
STOP_WITHIN_S = 60.0  # without a heartbeat of the learner, which saves meanwhile
SAVE_WITHIN_S = 900.0  # gigabytes of replay, on a slow disk
LAST_EVALUATION_WITHIN_S = 20.0
LEAVE_WITHIN_S = 5.0
VISUALIZER_LEAVES_WITHIN_S = 2.0  # since the evaluator has left; it was told when training stopped
SAMPLERS_LEAVE_WITHIN_S = 10.0  # one that hangs in a step must not hold up the end
SLEPT_S = 2.0  # between two looks, which are POLL_S apart: this process was stopped, and that time does not count
WATCHERS = ("evaluator", "visualizer")  # they look at what training left, and leave last


@dataclass
class End:
    status: str  # solved, finished, stopped, failed
    reason: str
    exit_code: int


class Ending:
    """Of one run. `signals`: those received so far, one more ends every wait; `solved`: the end that evaluations show;
    `event` is told what happened, as Recorder.event."""

    def __init__(
        self,
        board: Board,
        crew: Crew,
        run_dir: Path,
        signals: list[int],
        solved: Callable[[], End | None],
        event: Callable[..., object],
    ) -> None:
        self._board, self._crew, self._run_dir = board, crew, run_dir
        self._signals, self._solved, self._event = signals, solved, event

    def stop(self, end: End) -> End:
        """Everybody in order. -> how it ended"""
        cells = self._board.section("supervisor")
        cells.set("stop", STOP_TRAINING)
        if end.status != "finished":
            cells.set("stop", STOP_ALL)
        self._see_samplers_off()
        in_time = self._wait_for_learner()
        end = self._judge(end, self._crew.running(["learner"]))
        if end.status == "finished" and in_time:
            end = self._evaluate_last(end)
        cells.set("stop", STOP_ALL)
        self._wait(lambda: not self._crew.running(["evaluator"]), LEAVE_WITHIN_S)
        self._wait(lambda: not self._crew.running(["visualizer"]), VISUALIZER_LEAVES_WITHIN_S)
        return end

    def _see_samplers_off(self) -> None:
        samplers = [role for role in self._crew.roles() if role != "learner" and role not in WATCHERS]
        self._wait(lambda: not self._crew.running(samplers), SAMPLERS_LEAVE_WITHIN_S)
        if len(self._signals) <= 1 and (left := self._crew.running(samplers)):
            self._event("warning", f"{', '.join(left)} did not leave within {SAMPLERS_LEAVE_WITHIN_S:.0f} s: killed")
            self._crew.kill(left)  # what they announced is in their rings

    def _wait_for_learner(self) -> bool:
        """As long as its heart beats. False when time is over or one more signal says to end at once."""
        learner, last_moment = self._board.section("learner"), time.monotonic() + SAVE_WITHIN_S
        while self._crew.running(["learner"]):
            beat = learner.get("heartbeat_ns")
            if not self._wait(partial(self._has_moved, learner, beat), STOP_WITHIN_S) or time.monotonic() > last_moment:
                return False
            time.sleep(POLL_S)
        return True

    def _has_moved(self, learner: Section, beat: int) -> bool:
        return learner.get("heartbeat_ns") != beat or not self._crew.running(["learner"])

    def _judge(self, end: End, left: list[str]) -> End:
        """What the stopping of the learner makes of the end."""
        if len(self._signals) > 1:
            reason = f"{end.reason}; a second signal ended it before everything was saved"
            return End(end.status, reason, end.exit_code)
        if left:
            self._event("warning", f"{', '.join(left)} did not stop in time")
            return End("failed", "learner did not stop and save in time", 1)
        if end.status == "failed" or not (code := self._crew.exit_code("learner")):
            return end
        words = last_words(self._run_dir, "learner")
        return End("failed", f"learner {describe_exit(code)} while it saved{words}", 1)

    def _evaluate_last(self, end: End) -> End:
        evaluator, version = self._board.section("evaluator"), self._board.section("learner").get("weights_version")

        def over() -> bool:
            return evaluator.get("evaluated_version") >= version or not self._crew.running(["evaluator"])

        if not self._wait(over, LAST_EVALUATION_WITHIN_S):
            self._event("warning", f"the last weights were not evaluated in {LAST_EVALUATION_WITHIN_S:.0f} s")
        return self._solved() or end

    def _wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Until the condition holds; False when time is over or one more signal says to end at once."""
        looked_at = time.monotonic()
        deadline = looked_at + within_s
        while not condition():
            now = time.monotonic()
            if now - looked_at > SLEPT_S:
                deadline += now - looked_at
            looked_at = now
            if now > deadline or len(self._signals) > 1:
                return False
            time.sleep(POLL_S)
        return True


def last_words(run_dir: Path, role: str) -> str:
    """What a role that failed left behind, to be put after the sentence that says so."""
    path = run_dir / "errors" / f"{role}.txt"
    if not path.is_file():
        return f"; see {run_dir / 'log.txt'}"
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f": {lines[-1] if lines else ''} (the whole traceback: {path})"
