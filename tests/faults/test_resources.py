"""What the machine refuses for a while (room on the disk, descriptors, the run's folder, a clock that goes on evenly)
does not end a run, and a run that ends meanwhile leaves nothing that is half there."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import Run, wait_for

from spreeze.learner.checkpoint import find_checkpoint
from spreeze.requests import CHECKPOINT, ask

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits other processes: Linux")
pytest.importorskip("torch")

REFUSED = {
    "a full disk": (resource.RLIMIT_FSIZE, 100),  # as a disk does, it takes the first bytes of a file and then no more
    "no descriptor": (resource.RLIMIT_NOFILE, 3),
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(**settings: Any) -> Run:
        started.append(Run(tmp_path / "r", **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


class Refusal:
    """Of all processes of a run at once, or of one."""

    def __init__(self, run: Run, what: str, role: str | None = None, limit: int | None = None) -> None:
        self._kind, usual_limit = REFUSED[what]
        limit = limit or usual_limit
        self._pids = [run.process.pid, *run.pids().values()] if role is None else [run.pids()[role]]
        _, hard = self._before = resource.prlimit(run.process.pid, self._kind)
        for pid in self._pids:
            resource.prlimit(pid, self._kind, (limit, hard))

    def lift(self) -> None:
        for pid in self._pids:
            resource.prlimit(pid, self._kind, self._before)


def wait_for_work(learner: psutil.Process, seconds_of_cpu: float = 1.0) -> None:
    """Where no file tells any more what it does."""
    begun_s = learner.cpu_times().user
    wait_for("the learner to work on", lambda: learner.cpu_times().user > begun_s + seconds_of_cpu)


def learner_of(run: Run) -> psutil.Process:
    return psutil.Process(run.pids()["learner"])


def assert_nobody_was_replaced(run: Run) -> None:
    assert run.events("restart") == []
    assert not list((run.run_dir / "errors").glob("*"))


@pytest.mark.parametrize("what", ["a full disk", pytest.param("no descriptor", marks=pytest.mark.faults)])
def test_training_goes_on_while_it_is_refused(start: Callable[..., Run], what: str) -> None:
    run = start().wait_learning()
    refusal = Refusal(run, what)
    known = run.lines("metrics.jsonl")[-1]
    wait_for_work(learner_of(run))
    assert run.process.poll() is None
    assert run.lines("metrics.jsonl")[-1] == known
    refusal.lift()
    recovery = wait_for("the recovery", lambda: run.events("recovery"))[0]
    assert recovery["lines_dropped"] == 0
    wait_for("new weights", lambda: run.latest("weights_version") > known["weights_version"])
    refused = run.lines("metrics.jsonl")
    assert refused[refused.index(known) + 1]["updates"] > known["updates"]  # no second of it is missing
    assert [warning["bytes_needed"] for warning in run.events("warning") if "bytes_needed" in warning]
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    assert_nobody_was_replaced(run)
    assert find_checkpoint(run.run_dir)[0].counters["updates"] == run.summary()["updates"]


@pytest.mark.faults
@pytest.mark.parametrize("role", ["learner", None])
def test_a_run_whose_end_cannot_be_saved_fails_and_leaves_no_half_checkpoint(
    start: Callable[..., Run], role: str | None
) -> None:
    run = start()
    wait_for("an evaluation", lambda: run.lines("eval.jsonl"))
    ask(run.run_dir, CHECKPOINT)
    wait_for("a checkpoint", lambda: run.events("checkpoint"))
    Refusal(run, "a full disk", role, limit=20_000 if role else None)  # its traceback finds room, its rows do not
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 1
    assert find_checkpoint(run.run_dir)[0].number == 1  # the one that was whole stands, and no other claims to be
    assert [path.name for path in (run.run_dir / "checkpoints").glob("[!.]*")] == ["1"]
    if role == "learner":
        reason = run.summary()["reason"]
        assert "the end of the run could not be saved" in reason
        assert "File too large; 1 stands" in reason
    run.assert_nobody_left()


@pytest.mark.faults
def test_a_run_s_folder_that_is_gone_for_a_while(start: Callable[..., Run], tmp_path: Path) -> None:
    """As when a network disk is unmounted and comes back."""
    run = start().wait_learning()
    learner = learner_of(run)
    os.rename(run.run_dir, tmp_path / "away")
    wait_for_work(learner)
    assert run.process.poll() is None
    os.rename(tmp_path / "away", run.run_dir)
    known = run.latest("weights_version")
    wait_for("the recovery", lambda: run.events("recovery"))
    wait_for("new weights", lambda: run.latest("weights_version") > known)
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    assert_nobody_was_replaced(run)


@pytest.mark.faults
@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where nobody may")
def test_a_run_s_folder_that_is_made_read_only(start: Callable[..., Run]) -> None:
    run = start().wait_learning()
    folders = [run.run_dir, *(path for path in run.run_dir.rglob("*") if path.is_dir())]
    files = [path for path in run.run_dir.rglob("*") if path.is_file()]
    for path in (*files, *folders):
        path.chmod(0o555)
    wait_for_work(learner_of(run))
    assert run.process.poll() is None
    for path in (*files, *folders):
        path.chmod(0o755)
    wait_for("the recovery", lambda: run.events("recovery"))
    run.process.send_signal(signal.SIGINT)
    assert run.wait_end() == 130
    assert_nobody_was_replaced(run)


def test_a_clock_that_jumps(start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a day, forth and back, at every look at the time of day: nothing that a run decides depends on it."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "jumping_clock"))
    run = start(steps=1_500)
    assert run.wait_end() == 0, run.stderr.read_text()
    summary = run.summary()
    assert summary["status"] == "finished"
    assert 0 < summary["first_step_s"] < summary["first_update_s"] < summary["wall_s"] < 3_600
    moments = [line["wall_s"] for line in run.lines("metrics.jsonl")]
    assert moments == sorted(moments)
    assert_nobody_was_replaced(run)
