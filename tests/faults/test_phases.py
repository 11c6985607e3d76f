"""Every role killed at every phase of a run, at a random moment of it. A sampler or an evaluator is replaced while
there is training and not missed when it ends; the learner's death ends the run in order; whatever happens, every
checkpoint that is there is whole, and nothing is left behind."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable

import pytest
from running import Run, wait_for
from strewn import Strewn

pytest.importorskip("torch")

ROUNDS = int(os.environ.get("FAULTS_ROUNDS") or 1)
WITHIN_PHASE_S = 0.4  # the longest that is waited within a phase
TRAINING = ("start", "warm-up", "capture", "steady")
ENDING = ("save", "stop")
ROLES = ("supervisor", "learner", "sampler-0", "evaluator")


def reach(phase: str, run: Run) -> None:
    if phase == "start":
        wait_for("all processes", lambda: len(run.pids()) == 3)
    elif phase == "warm-up":
        wait_for("the first rows", lambda: run.latest("env_steps"))
    elif phase == "capture":
        wait_for("the first updates to be prepared", lambda: run.events("updates"))
    else:
        run.wait_learning()
        if phase in ENDING:
            run.process.send_signal(signal.SIGINT)
        if phase == "stop":
            wait_for("the checkpoint", lambda: whole_checkpoints(run) or run.process.poll() is not None)


def whole_checkpoints(run: Run) -> list[str]:
    """Those whose files can all be read; a name without a dot in front claims that."""
    from safetensors import safe_open

    found = [path for path in (run.run_dir / "checkpoints").glob("*") if not path.name.startswith(".")]
    for checkpoint in found:
        for path in checkpoint.rglob("*"):
            if path.suffix == ".safetensors":
                with safe_open(path, framework="numpy") as file:
                    assert list(file.keys())
            elif path.suffix == ".json":
                json.loads(path.read_bytes())
    return [path.name for path in found]


def kill(run: Run, role: str) -> int | None:
    """-> the process that was killed; None where it was gone already"""
    pid = run.process.pid if role == "supervisor" else run.pids()[role]
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return pid


def see_to_its_end(run: Run, role: str, phase: str, victim: int | None) -> None:
    if role == "supervisor":
        assert run.wait_end() in (-signal.SIGKILL, 130)  # 130: it had ended before it could be killed
    elif role == "learner":
        code = run.wait_end()
        assert code == 1 or (code == 130 and phase in ENDING), run.stderr.read_text()
        if code == 1:
            summary = run.summary()
            assert summary["status"] == "failed"
            assert "learner was killed by SIGKILL" in summary["reason"]
        else:
            assert whole_checkpoints(run)
    else:
        if phase in TRAINING:
            wait_for("its successor", lambda: run.pids()[role] != victim)
            before = run.latest("env_steps") or 0
            wait_for("new rows", lambda: (run.latest("env_steps") or 0) > before)
            run.process.send_signal(signal.SIGINT)
        assert run.wait_end() == 130, run.stderr.read_text()
        assert run.summary()["status"] == "stopped"
        assert whole_checkpoints(run)


@pytest.mark.parametrize("phase", [*TRAINING, *ENDING])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.faults
def test_a_role_killed_at_a_phase(
    start_strewing: Callable[..., Strewn], moments: random.Random, role: str, phase: str
) -> None:
    for number in range(ROUNDS):
        long = {"learning_starts": 5_000_000, "replay_size": 5_000_000} if phase == "warm-up" else {}
        strewn = start_strewing(name=f"r{number}", **long)
        reach(phase, strewn.run)
        time.sleep(moments.uniform(0.0, WITHIN_PHASE_S))  # the random moment itself
        victim = kill(strewn.run, role)
        see_to_its_end(strewn.run, role, phase, victim)
        whole_checkpoints(strewn.run)
        strewn.assert_nothing_left()


def test_one_role_after_the_other_killed_from_start_to_stop(
    start_strewing: Callable[..., Strewn], moments: random.Random
) -> None:
    """The short form: one run, a kill in each of its phases."""
    strewn = start_strewing(restarts_per_minute=100)
    run = strewn.run
    for phase, role in (("start", "sampler-0"), ("capture", "evaluator"), ("steady", "sampler-0")):
        reach(phase, run)
        time.sleep(moments.uniform(0.0, WITHIN_PHASE_S))
        victim = kill(run, role)
        wait_for("its successor", lambda: run.pids()[role] != victim)  # noqa: B023
    run.process.send_signal(signal.SIGTERM)
    time.sleep(moments.uniform(0.0, WITHIN_PHASE_S))
    kill(run, "evaluator")
    assert run.wait_end() == 143, run.stderr.read_text()
    assert run.summary()["restarts"]["sampler-0"] == 2
    assert whole_checkpoints(run)
    strewn.assert_nothing_left()
