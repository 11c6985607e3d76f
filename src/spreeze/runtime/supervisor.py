"""The supervisor: the parent of all roles. Starts them, watches heartbeats and exit codes, replaces what died, keeps
the figures, and stops everybody in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spreeze.algos import policy_spec_for
from spreeze.board import STOP_ALL, STOP_TRAINING, role_kind
from spreeze.config import RunConfig
from spreeze.envs.registry import choose_backend, probe
from spreeze.envs.source import EnvSource
from spreeze.metrics.display import make_display
from spreeze.metrics.figures import Figures
from spreeze.metrics.lines import LineTail
from spreeze.metrics.recorder import Recorder
from spreeze.metrics.usage import Usage
from spreeze.metrics.view import Header, Role, State
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.roles.job import Job
from spreeze.run_folder import make_run_dir
from spreeze.runtime.process import Child, describe_exit
from spreeze.runtime.signals import signals_noted
from spreeze.runtime.topology import Topology, connect
from spreeze.spec import layout_of
from spreeze.tuning.hardware import Machine, find_machine, visible_gpus
from spreeze.weights.policy_file import LIVE_POLICY_SPEC

POLL_S = 0.02
METRICS_EVERY_S = 1.0
START_WITHIN_S = 180.0  # a role's first sign that it works: imports, simulators, captured updates
SILENT_AT_MOST_S = {"sampler": 30.0, "evaluator": 60.0, "learner": 120.0}
RESTARTS_AT_MOST, RESTARTS_WITHIN_S = 5, 60.0
STOP_WITHIN_S = 60.0  # the learner saves meanwhile
LAST_EVALUATION_WITHIN_S = 20.0
LEAVE_WITHIN_S = 5.0


@dataclass
class Result:
    """How a run ended."""

    exit_code: int
    run_dir: Path
    summary: dict[str, Any]

    @property
    def status(self) -> str:
        return self.summary["status"]

    @property
    def best_return(self) -> float | None:
        return self.summary["best_return"]


@dataclass
class _End:
    status: str  # solved, finished, stopped, failed
    reason: str
    exit_code: int


@dataclass
class _Watched:
    child: Child
    restarts_at: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_AT_MOST))
    restarts: int = 0


def train(
    env: str | Callable[[], Any], config: RunConfig, quiet: bool = False, started_ns: int | None = None
) -> Result:
    """Trains until a limit, the target return, Ctrl-C or a failure. Raises ConfigError before anything has started."""
    started_ns = time.monotonic_ns() if started_ns is None else started_ns
    source = EnvSource.of(env)
    spec = probe(source)
    machine = find_machine()
    backend, reason = choose_backend(source, config.env_backend, spec)
    resolved = resolve(config, spec, machine, Choice(backend, reason))
    run_dir = make_run_dir(config.run_dir, source.env_id, config.algo)
    resolved = resolved.in_folder(run_dir)
    _write_json(run_dir / "config.json", resolved.as_json())
    _write_json(run_dir / "machine.json", machine.as_json())
    return _Supervisor(source, resolved, machine, run_dir, started_ns, quiet).run()


class _Supervisor:
    def __init__(
        self, source: EnvSource, resolved: Resolved, machine: Machine, run_dir: Path, started_ns: int, quiet: bool
    ) -> None:
        self._source, self._resolved, self._config = source, resolved, resolved.config
        self._machine, self._run_dir, self._started_ns = machine, run_dir, started_ns
        self._policy = policy_spec_for(
            self._config.algo, resolved.spec.obs_size, resolved.spec.action_size, self._config.hidden
        )
        self._topology = self._connect()
        self._board = self._topology.board
        self._cells = self._board.section("supervisor")
        self._cells.set("active_samplers", int(self._config.samplers))
        started_s = started_ns / 1e9
        self._recorder = Recorder(run_dir, started_s)
        self._figures = Figures(self._board, started_s)
        self._usage = Usage(self._config.device, started_s, visible_gpus)
        self._evaluations = LineTail(run_dir / "eval.jsonl")
        self._evals: list[dict[str, Any]] = []
        self._display = make_display(quiet, sys.stderr)
        self._roles: dict[str, _Watched] = {}
        self._signals: list[int] = []
        self._metrics_due = time.monotonic() + METRICS_EVERY_S

    def run(self) -> Result:
        with signals_noted(self._signals):
            try:
                self._start()
                end = self._stop(self._watch())
            except Exception as error:
                end = self._broken(error)
            finally:
                self._kill_all()
                self._topology.close()
            return self._finish(end)

    # --- starting -------------------------------------------------------------------------------------------------

    def _connect(self) -> Topology:
        config = self._config
        return connect(
            layout_of(self._resolved.spec),
            int(config.samplers),
            int(config.envs_per_sampler),
            config.n_step,
            config.weights,
            self._policy.weight_count,
        )

    def _start(self) -> None:
        _write_json(self._run_dir / LIVE_POLICY_SPEC, {
            "policy": self._policy.as_json(), "env": self._resolved.spec.as_json()
        })  # fmt: skip
        self._display.open(self._header())
        # the learner first: importing torch takes longest
        for role in ("learner", *(f"sampler-{k}" for k in range(int(self._config.samplers))), "evaluator"):
            self._roles[role] = _Watched(self._spawn(role))
        for name, choice in self._resolved.auto.items():
            self._recorder.event("choice", f"{name} {choice.value}: {choice.reason}", setting=name, value=choice.value)
        for name, change in self._resolved.adjusted.items():
            self._recorder.event("warning", f"{name} {change.value}: {change.reason}", setting=name, value=change.value)

    def _spawn(self, role: str) -> Child:
        job = Job(
            role=role,
            config=self._config,
            env=self._source,
            env_spec=self._resolved.spec,
            policy=self._policy,
            run_dir=self._run_dir,
            started_ns=self._started_ns,
            parent_pid=os.getpid(),
            wiring=self._topology.wiring(role),
        )
        child = Child(job, threads=int(self._config.learner_threads) if role == "learner" else 1)
        self._recorder.event("start", f"process {child.pid}", role=role, pid=child.pid)
        return child

    def _header(self) -> Header:
        config = self._config
        return Header(
            env=self._source.env_id,
            algo=config.algo,
            device=config.device,
            seed=config.seed,
            run_dir=str(self._run_dir),
            steps=config.steps,
            seconds=config.seconds,
            until_return=config.until_return,
        )

    # --- watching -------------------------------------------------------------------------------------------------

    def _watch(self) -> _End:
        """Until there is a reason to end."""
        while True:
            end = self._reason_to_end() or self._heal()
            self._keep_figures()
            if end is not None:
                return end
            time.sleep(POLL_S)

    def _reason_to_end(self) -> _End | None:
        config = self._config
        if self._signals:
            number = self._signals[0]
            return _End("stopped", f"{signal.Signals(number).name} was received", 128 + number)
        if solved := self._solved():
            return solved
        if self._board.section("learner").get("reached_steps"):
            return _End("finished", f"{config.steps} env steps were reached", 0)
        if config.seconds is not None and self._wall_s() >= config.seconds:
            return _End("finished", f"{config.seconds:g} seconds were reached", 0)
        return None

    def _solved(self) -> _End | None:
        if not self._board.section("evaluator").get("solved"):
            return None
        return _End("solved", f"an evaluation's mean return reached {self._config.until_return:g}", 0)

    def _heal(self) -> _End | None:
        """Replaces roles that died or hang; a run without its learner, or beyond the budget, ends."""
        for role, watched in self._roles.items():
            trouble = self._trouble(role, watched.child)
            if trouble is None:
                continue
            watched.child.kill()
            watched.child.wait_gone(STOP_WITHIN_S)
            self._recorder.event("trouble", trouble, role=role)
            now = time.monotonic()
            budget_spent = len(watched.restarts_at) == RESTARTS_AT_MOST
            exhausted = budget_spent and now - watched.restarts_at[0] < RESTARTS_WITHIN_S
            if role == "learner" or exhausted:
                return _End("failed", f"{role} {trouble}{self._last_words(role)}", 1)
            watched.restarts_at.append(now)
            watched.restarts += 1
            watched.child = self._spawn(role)
            self._recorder.event("restart", f"it {trouble}", role=role, restarts=watched.restarts)
        return None

    def _trouble(self, role: str, child: Child) -> str | None:
        code = child.exit_code()
        if code is not None:
            return describe_exit(code)
        section = self._board.section(role)
        if section.get("pid") == child.pid and section.get("ready"):
            silent_s = (time.monotonic_ns() - section.get("heartbeat_ns")) / 1e9
            limit_s = SILENT_AT_MOST_S[role_kind(role)]
            return f"was silent for {silent_s:.0f} s" if silent_s > limit_s else None
        starting_s = time.monotonic() - child.started_at
        return f"did not start within {START_WITHIN_S:.0f} s" if starting_s > START_WITHIN_S else None

    def _last_words(self, role: str) -> str:
        path = self._run_dir / "errors" / f"{role}.txt"
        if not path.is_file():
            return f"; see {self._run_dir / 'log.txt'}"
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f": {lines[-1] if lines else ''} (the whole traceback: {path})"

    def _keep_figures(self) -> None:
        now = time.monotonic()
        for record in self._evaluations.read_new() if self._new_evaluation() else ():
            self._evals.append(record)
            self._recorder.evaluation(record)
        if now < self._metrics_due:
            return
        self._metrics_due = max(self._metrics_due + METRICS_EVERY_S, now)
        self._write_metrics(now)

    def _new_evaluation(self) -> bool:
        return self._board.section("evaluator").get("evaluations") > len(self._evals)

    def _write_metrics(self, now: float) -> None:
        pids = [os.getpid(), *(watched.child.pid for watched in self._roles.values())]
        record = self._figures.read(
            now, int(self._config.envs_per_sampler), self._restarts(), self._usage.read(now, pids)
        )
        self._recorder.metrics(record)
        self._display.show(record, self._role_states(now), self._evals, self._recorder.last_event)

    def _restarts(self) -> dict[str, int]:
        return {role: watched.restarts for role, watched in self._roles.items()}

    def _role_states(self, now: float) -> list[Role]:
        return [Role(role, self._state(role, watched, now), watched.restarts) for role, watched in self._roles.items()]

    def _state(self, role: str, watched: _Watched, now: float) -> State:
        section = self._board.section(role)
        stopping = self._board.stopping()
        if watched.child.exit_code() is not None:
            return "ended" if stopping else "dead"
        if stopping:
            return "stopping"
        if section.get("pid") != watched.child.pid or not section.get("ready"):
            return "restarting" if watched.restarts else "starting"
        silent_s = now - section.get("heartbeat_ns") / 1e9
        return "silent" if silent_s > SILENT_AT_MOST_S[role_kind(role)] / 3 else "ok"

    # --- stopping -------------------------------------------------------------------------------------------------

    def _stop(self, end: _End) -> _End:
        """Samplers leave, the learner saves and leaves; where a limit was reached the last weights are evaluated; then
        the evaluator leaves. -> how it ended"""
        self._cells.set("stop", STOP_TRAINING)
        trainers = [role for role in self._roles if role != "evaluator"]
        if end.status != "finished":
            self._cells.set("stop", STOP_ALL)
        in_time = self._wait(lambda: not self._running(trainers), STOP_WITHIN_S)
        end = self._judge_stop(end, self._running(trainers))
        if end.status == "finished" and in_time:
            end = self._evaluate_last(end)
        self._cells.set("stop", STOP_ALL)
        self._wait(lambda: not self._running(["evaluator"]), LEAVE_WITHIN_S)
        return end

    def _judge_stop(self, end: _End, left: list[str]) -> _End:
        """What the stopping of samplers and learner makes of the end."""
        if len(self._signals) > 1:
            reason = f"{end.reason}; a second signal ended it before everything was saved"
            return _End(end.status, reason, end.exit_code)
        if left:
            self._recorder.event("warning", f"{', '.join(left)} did not stop within {STOP_WITHIN_S:.0f} s")
            return _End("failed", "learner did not stop and save in time", 1) if "learner" in left else end
        code = self._roles["learner"].child.exit_code()
        if end.status == "failed" or not code:
            return end
        return _End("failed", f"learner {describe_exit(code)} while it saved{self._last_words('learner')}", 1)

    def _evaluate_last(self, end: _End) -> _End:
        evaluator, version = self._board.section("evaluator"), self._board.section("learner").get("weights_version")

        def over() -> bool:
            return evaluator.get("evaluated_version") >= version or not self._running(["evaluator"])

        if not self._wait(over, LAST_EVALUATION_WITHIN_S):
            self._recorder.event("warning", f"the last weights were not evaluated in {LAST_EVALUATION_WITHIN_S:.0f} s")
        return self._solved() or end

    def _wait(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Until the condition holds; False when time is over or one more signal says to end at once."""
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline or len(self._signals) > 1:
                return False
            time.sleep(POLL_S)
        return True

    def _running(self, roles: list[str]) -> list[str]:
        return [role for role in roles if self._roles[role].child.exit_code() is None]

    def _broken(self, error: Exception) -> _End:
        """A fault of the supervisor itself, for example no process could be started."""
        path = self._run_dir / "errors" / "supervisor.txt"
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return _End("failed", f"supervisor: {type(error).__name__}: {error} (the whole traceback: {path})", 1)

    def _kill_all(self) -> None:
        for watched in self._roles.values():
            watched.child.kill()
        for watched in self._roles.values():
            watched.child.wait_gone(STOP_WITHIN_S)

    def _finish(self, end: _End) -> Result:
        for record in self._evaluations.read_new():
            self._evals.append(record)
            self._recorder.evaluation(record)
        self._write_metrics(time.monotonic())
        summary = self._summary(end)
        self._recorder.event("end", end.reason, status=end.status)
        self._recorder.write_summary(summary)
        self._display.close(summary)
        self._recorder.close()
        self._usage.close()
        return Result(end.exit_code, self._run_dir, summary)

    def _summary(self, end: _End) -> dict[str, Any]:
        learner, evaluator = self._board.section("learner"), self._board.section("evaluator")
        returns = [record["return_mean"] for record in self._evals]
        solved_ns = evaluator.get("solved_ns")
        return {
            "env": self._source.env_id,
            "algo": self._config.algo,
            "seed": self._config.seed,
            "status": end.status,
            "reason": end.reason,
            "wall_s": round(self._wall_s(), 3),
            "first_step_s": self._figures.first_step_s(),
            "first_update_s": self._figures.first_update_s(),
            "solved_at_s": round((solved_ns - self._started_ns) / 1e9, 3) if solved_ns else None,
            "env_steps": learner.get("env_steps"),
            "updates": learner.get("updates"),
            "batch_size": self._config.batch_size,
            **self._figures.steady(),
            "best_return": max(returns, default=None),
            "final_return": returns[-1] if returns else None,
            "restarts": self._restarts(),
            "lost_rows": self._figures.lost_rows(),
            "run_dir": str(self._run_dir),
        }

    def _wall_s(self) -> float:
        return (time.monotonic_ns() - self._started_ns) / 1e9


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing")
    beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    os.replace(beside, path)
