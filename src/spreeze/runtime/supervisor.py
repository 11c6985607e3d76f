"""The supervisor: the parent of all roles. Starts them, has them watched and replaced (crew), keeps the figures
(books), and stops everybody in order (ending)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.algos import policy_spec_for
from spreeze.config import RunConfig
from spreeze.envs.registry import choose_backend, probe
from spreeze.envs.source import EnvSource
from spreeze.learner.checkpoint import next_number
from spreeze.metrics import wandb_mirror
from spreeze.metrics.readable import one_line
from spreeze.requests import CHECKPOINT, PICTURE_OFF, PICTURE_ON, STOP, Inbox
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.roles.job import Job
from spreeze.run_folder import find_run, make_run_dir
from spreeze.runtime.books import Books
from spreeze.runtime.crew import Crew
from spreeze.runtime.ending import POLL_S, End, Ending, last_words
from spreeze.runtime.guardian import Guardian
from spreeze.runtime.history import count_lines
from spreeze.runtime.limits import Limits
from spreeze.runtime.process import Child
from spreeze.runtime.resuming import Resumption, check_env, find_env, find_resumption, kept_return, make_way
from spreeze.runtime.run_lock import RunLock
from spreeze.runtime.self_tuning import MachineMemory, make_tuner, start_from_memory
from spreeze.runtime.signals import signals_noted
from spreeze.runtime.temp_folder import remove_temp_folder, temp_folder
from spreeze.runtime.topology import Topology, connect
from spreeze.spec import layout_of
from spreeze.tuning.hardware import Machine, find_machine
from spreeze.watching.outlets import OFF, WEB, check_outlet
from spreeze.weights.policy_file import LIVE_POLICY_SPEC


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


def train(
    env: str | Callable[[], Any], config: RunConfig, quiet: bool = False, started_ns: int | None = None
) -> Result:
    """Trains until a limit, the target return, Ctrl-C or a failure. Raises ConfigError before anything has started."""
    started_ns = time.monotonic_ns() if started_ns is None else started_ns
    if config.wandb is not None:
        wandb_mirror.check_installed()
    source = EnvSource.of(env)
    check_outlet(config.visualize)
    guardian = Guardian()
    with guardian.marking():
        spec = probe(source)
        backend, reason = choose_backend(source, config.env_backend, spec)
    machine = find_machine()
    resolved, remembered = start_from_memory(resolve(config, spec, machine, Choice(backend, reason)), machine)
    run_dir = make_run_dir(config.run_dir, source.env_id, config.algo)
    with closing(RunLock(run_dir)) as lock:
        resolved = resolved.in_folder(run_dir)
        _write_json(run_dir / "config.json", resolved.as_json())
        _write_json(run_dir / "machine.json", machine.as_json())
        return _Supervisor(source, resolved, run_dir, started_ns, quiet, guardian, machine, remembered, lock).run()


def resume(
    run: str | Path,
    settings: Mapping[str, Any],
    env: str | Callable[[], Any] | None = None,
    trust: bool = False,
    quiet: bool = False,
    started_ns: int | None = None,
) -> Result:
    """Goes on from the run's last complete checkpoint, in its folder. `settings` win over those that it had; `env`
    where its folder cannot name it. Raises ConfigError before anything has started."""
    started_ns = time.monotonic_ns() if started_ns is None else started_ns
    run_dir = find_run(run)
    with closing(RunLock(run_dir)) as lock:
        resumption = find_resumption(run_dir, settings)
        check_outlet(resumption.config.visualize)
        source, config = find_env(run_dir, env, trust), resumption.config
        guardian = Guardian()
        with guardian.marking():
            spec = probe(source)
            backend, reason = choose_backend(source, config.env_backend, spec)
        check_env(resumption, spec)
        machine = find_machine()
        resolved, remembered = start_from_memory(resolve(config, spec, machine, Choice(backend, reason)), machine)
        resolved = resolved.in_folder(run_dir)
        undone = make_way(resumption)
        _write_json(run_dir / "config.json", {**resolved.as_json(), "resumes": resumption.resumes})
        _write_json(run_dir / "machine.json", machine.as_json())
        run_started_ns = started_ns - int(resumption.wall_s * 1e9)
        supervisor = _Supervisor(
            source, resolved, run_dir, run_started_ns, quiet, guardian, machine, remembered, lock, resumption
        )
        supervisor.say_resumed(undone)
        return supervisor.run()


class _Supervisor:
    def __init__(
        self,
        source: EnvSource,
        resolved: Resolved,
        run_dir: Path,
        started_ns: int,
        quiet: bool,
        guardian: Guardian,
        machine: Machine,
        remembered: MachineMemory,
        lock: RunLock,
        resumption: Resumption | None = None,
    ) -> None:
        """`started_ns`: of the run, as if there had been no time between its commands."""
        self._lock, self._resumption = lock, resumption
        self._source, self._resolved, self._config = source, resolved, resolved.config
        self._run_dir, self._started_ns = run_dir, started_ns
        self._policy = policy_spec_for(
            self._config.algo, resolved.spec.obs_size, resolved.spec.action_size, self._config.hidden
        )
        self._topology = self._connect()
        self._board = self._topology.board
        if resumption is not None:
            self._board.go_on_from(resumption.checkpoint.counters, count_lines(run_dir / "eval.jsonl"))
        self._board.section("evaluator").set_float("best_return", kept_return(run_dir))
        wall_s_before = 0.0 if resumption is None else resumption.wall_s
        self._books = Books(resolved, source, self._board, run_dir, started_ns, quiet, wall_s_before)
        self._event = self._books.recorder.event
        self._guardian = guardian
        self._crew = Crew(self._board, self._spawner(), self._event, Limits.of(self._config))
        self._remembered = remembered
        self._tuner = make_tuner(resolved, machine, self._board, self._crew, self._event, remembered)
        self._signals: list[int] = []
        self._inbox = Inbox(run_dir)

    def say_resumed(self, undone: int) -> None:
        assert self._resumption is not None
        self._event("resume", self._resumption.words(), resumes=self._resumption.resumes, undone_lines=undone)
        for damage in self._resumption.damages:
            self._event("warning", f"a newer checkpoint is damaged and was put aside: {damage}")

    def run(self) -> Result:
        ending = Ending(self._board, self._crew, self._run_dir, self._signals, self._solved, self._event)
        with signals_noted(self._signals):
            try:
                end = ending.stop(self._start_and_watch())
            except Exception as error:
                end = self._broken(error)
            finally:
                self._crew.kill_all()
                self._guardian.close()
                remove_temp_folder(self._run_dir)
                self._topology.close()
            return Result(end.exit_code, self._run_dir, self._books.close(self._crew, end))

    def _start_and_watch(self) -> End:
        """A fault of the supervisor itself also ends in order: the learner is there and can save."""
        try:
            self._start()
            return self._watch()
        except Exception as error:
            return self._broken(error)

    def _connect(self) -> Topology:
        config = self._config
        return connect(
            layout_of(self._resolved.spec),
            int(config.samplers),
            int(config.envs_per_sampler),
            config.n_step,
            config.weights,
            self._policy.weight_count,
            config.experience,
            int(config.replay_size),
        )

    def _spawner(self) -> Callable[[str], Child]:
        """What starts a role's process. It holds no reference to self: a cycle would keep the shared memory mapped."""
        topology, threads = self._topology, int(self._config.learner_threads)
        environment = self._guardian.environment
        common = Job(
            role="",
            config=self._config,
            env=self._source,
            env_spec=self._resolved.spec,
            policy=self._policy,
            run_dir=self._run_dir,
            started_ns=self._started_ns,
            parent_pid=os.getpid(),
            wiring={},
            origin=None if self._resumption is None else self._resumption.origin,
            next_batch_sizes=self._resolved.next_batch_sizes,
        )
        kept_open = [self._lock.fd]

        def spawn(role: str) -> Child:
            job = dataclasses.replace(common, role=role, wiring={**topology.wiring(role), "kept_open": kept_open})
            if role == "learner":
                return Child(job, threads, environment)
            return Child(job, 1, {**environment, **temp_folder(job.run_dir)})

        return spawn

    def _start(self) -> None:
        _write_json(self._run_dir / LIVE_POLICY_SPEC, {
            "policy": self._policy.as_json(), "env": self._resolved.spec.as_json()
        })  # fmt: skip
        self._books.open()
        # the learner first: importing torch takes longest
        for role in ("learner", *(f"sampler-{k}" for k in range(int(self._config.samplers))), "evaluator"):
            self._crew.start(role)
        if self._config.visualize != OFF:
            self._board.section("supervisor").set("picture", int(self._config.visualize == WEB))
            self._start_visualizer()
        self._guardian.start()
        for name, choice in self._resolved.auto.items():
            self._event("choice", f"{name} {choice.value}: {choice.reason}", setting=name, value=choice.value)
        for name, change in self._resolved.adjusted.items():
            self._event("warning", f"{name} {change.value}: {change.reason}", setting=name, value=change.value)
        if self._remembered.trouble is not None:
            self._event("warning", f"what earlier runs found is ignored: {self._remembered.trouble}")

    def _watch(self) -> End:
        """Until there is a reason to end."""
        while True:
            end = self._reason_to_end() or self._answer_requests() or self._heal()
            self._books.keep(self._crew)
            self._tuner.tick()
            if end is not None:
                return end
            time.sleep(POLL_S)

    def _reason_to_end(self) -> End | None:
        config = self._config
        if self._signals:
            number = self._signals[0]
            return End("stopped", f"{signal.Signals(number).name} was received", 128 + number)
        if solved := self._solved():
            return solved
        if self._board.section("learner").get("reached_steps"):
            return End("finished", f"{config.steps} env steps were reached", 0)
        if config.seconds is not None and self._books.wall_s() >= config.seconds:
            return End("finished", f"{config.seconds:g} seconds were reached", 0)
        return None

    def _answer_requests(self) -> End | None:
        """What other processes ask of the run (requests.py). -> the end, where that was asked for"""
        for request in self._inbox.take():
            asked_by = f" by {one_line(request.asked_by)}" if request.asked_by else ""
            if request.what == CHECKPOINT:
                self._board.section("supervisor").add("checkpoints_asked", 1)
                self._event("request", f"a checkpoint was asked for{asked_by}", request=CHECKPOINT)
            elif request.what == STOP:
                return End("stopped", f"a stop was asked for{asked_by}", 0)
            elif request.what in (PICTURE_ON, PICTURE_OFF):
                self._event("request", f"the live picture was asked for{asked_by}", request=request.what)
                self._show_picture(request.what == PICTURE_ON)
            else:
                self._event("warning", f"{one_line(request.what)!r} was asked for{asked_by}; it means nothing here")
        return None

    def _show_picture(self, on: bool) -> None:
        self._board.section("supervisor").set("picture", int(on))
        if not on and self._config.visualize in (OFF, WEB):  # it has nothing else to draw
            self._crew.dismiss("visualizer")
        elif on and not self._crew.wanted("visualizer"):
            self._start_visualizer()

    def _start_visualizer(self) -> None:
        try:
            self._crew.start("visualizer")
        except OSError as error:  # a run needs no picture
            self._event("warning", f"no process for the picture could be started: {error}", role="visualizer")

    def _solved(self) -> End | None:
        if not self._board.section("evaluator").get("solved"):
            return None
        return End("solved", f"an evaluation's mean return reached {self._config.until_return:g}", 0)

    def _heal(self) -> End | None:
        """A run without its learner, or with a role that fails again and again, ends."""
        lost = self._crew.heal()
        if lost is None:
            return None
        role, trouble = lost
        newest = next_number(self._run_dir) - 1
        again = f"; 'spreeze resume {self._run_dir}' goes on from checkpoint {newest}" if newest else ""
        return End("failed", f"{role} {trouble}{last_words(self._run_dir, role)}{again}", 1)

    def _broken(self, error: Exception) -> End:
        """A fault of the supervisor itself, for example no process could be started."""
        path = self._run_dir / "errors" / "supervisor.txt"
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        return End("failed", f"supervisor: {type(error).__name__}: {error} (the whole traceback: {path})", 1)


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.writing")
    beside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    os.replace(beside, path)
