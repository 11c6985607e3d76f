"""What the supervisor keeps of a run: the figures once a second, the evaluations, what the display shows, and the
summary at the end."""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from spreeze.board import Board
from spreeze.envs.source import EnvSource
from spreeze.metrics.display import make_display
from spreeze.metrics.evaluations import Evaluations
from spreeze.metrics.figures import Figures
from spreeze.metrics.lines import LineTail
from spreeze.metrics.recorder import Recorder
from spreeze.metrics.usage import Usage
from spreeze.metrics.view import Header
from spreeze.metrics.wandb_mirror import Mirror
from spreeze.resolve import Resolved
from spreeze.runtime.crew import Crew
from spreeze.runtime.ending import End
from spreeze.tuning.hardware import visible_gpus

METRICS_EVERY_S = 1.0


class Books:
    def __init__(
        self,
        resolved: Resolved,
        source: EnvSource,
        board: Board,
        run_dir: Path,
        started_ns: int,
        quiet: bool,
        wall_s_before: float = 0.0,
    ) -> None:
        """`wall_s_before`: of the run, until this command went on with it; `started_ns` lies so far before it."""
        self._config, self._source, self._board, self._run_dir = resolved.config, source, board, run_dir
        self._plan = resolved.plan
        self._started_ns = started_ns
        started_s = started_ns / 1e9
        self.recorder = Recorder(run_dir, started_s)
        began_s = started_s + wall_s_before
        self._figures = Figures(board, started_s, began_s)
        self._usage = Usage(self._config.device, began_s, visible_gpus)
        self._new_evaluations = LineTail(run_dir / "eval.jsonl")
        self._evaluations = Evaluations()
        for record in self._new_evaluations.read_new():  # of earlier commands, where the run is resumed
            self._evaluations.add(record)
        self._mirror = Mirror(run_dir, self._config.wandb) if self._config.wandb else None
        self._display = make_display(quiet, sys.stderr)
        self._metrics_due = time.monotonic() + METRICS_EVERY_S

    def open(self) -> None:
        config = self._config
        self._display.open(
            Header(
                env=self._source.env_id,
                algo=config.algo,
                device=config.device,
                seed=config.seed,
                run_dir=str(self._run_dir),
                steps=config.steps,
                seconds=config.seconds,
                until_return=config.until_return,
                env_is_kept=self._source.pickled is None,
            )
        )
        if self._plan is not None:
            self._display.say("\n".join([self._plan.line(), *self._plan.warnings()]))
        if config.visualize == "web":
            folder = shlex.quote(str(self._run_dir.parent))
            self._display.say(f"see it in the browser: spreeze dashboard {folder}")

    def keep(self, crew: Crew) -> None:
        """Evaluations as they come, figures when they are due."""
        now = time.monotonic()
        if self._board.section("evaluator").get("evaluations") > self._evaluations.count:
            self._take_evaluations()
        if now >= self._metrics_due:
            self._metrics_due = max(self._metrics_due + METRICS_EVERY_S, now)
            self._write_metrics(now, crew)

    def close(self, crew: Crew, end: End) -> dict[str, Any]:
        """-> summary.json"""
        self._take_evaluations()
        self._write_metrics(time.monotonic(), crew)
        summary = self._summary(crew, end)
        self.recorder.event("end", end.reason, status=end.status)
        self.recorder.write_summary(summary)
        self._finish_mirror()
        self._display.close(summary)
        self.recorder.close()
        self._usage.close()
        return summary

    def wall_s(self) -> float:
        return (time.monotonic_ns() - self._started_ns) / 1e9

    def _finish_mirror(self) -> None:
        if self._mirror is not None:
            if self._mirror.running:
                self._display.say("finishing the copy on Weights & Biases")
            self._warn(self._mirror.close())

    def _warn(self, trouble: str | None) -> None:
        if trouble is not None:
            self.recorder.event("warning", trouble)

    def _take_evaluations(self) -> None:
        for record in self._new_evaluations.read_new():
            self._evaluations.add(record)
            self.recorder.evaluation(record)

    def _write_metrics(self, now: float, crew: Crew) -> None:
        usage = self._usage.read(now, [os.getpid(), *crew.pids()])
        roles = crew.states(now)
        record = self._figures.read(now, int(self._config.envs_per_sampler), crew.restarts(), usage)
        record["roles"] = {role.name: role.state for role in roles}
        self.recorder.metrics(record)
        if self._mirror is not None:
            self._warn(self._mirror.trouble())
        self._display.show(record, roles, self._evaluations.curve, self.recorder.last_event)

    def _summary(self, crew: Crew, end: End) -> dict[str, Any]:
        learner, evaluator = self._board.section("learner"), self._board.section("evaluator")
        best_return = evaluator.get_float("best_return")
        solved_ns = evaluator.get("solved_ns")
        return {
            "env": self._source.env_id,
            "algo": self._config.algo,
            "seed": self._config.seed,
            "status": end.status,
            "reason": end.reason,
            "wall_s": round(self.wall_s(), 3),
            "first_step_s": self._figures.first_step_s(),
            "first_update_s": self._figures.first_update_s(),
            "solved_at_s": round((solved_ns - self._started_ns) / 1e9, 3) if solved_ns else None,
            "env_steps": learner.get("env_steps"),
            "updates": learner.get("updates"),
            "batch_size": learner.get("batch_size") or self._config.batch_size,  # in force at the end
            "samplers": self._board.active_samplers(),
            "envs_per_sampler": self._config.envs_per_sampler,
            **self._figures.steady(),
            "best_return": best_return if math.isfinite(best_return) else None,
            "final_return": self._evaluations.final_return,
            "restarts": crew.restarts(),
            "lost_rows": self._figures.lost_rows(),
            "run_dir": str(self._run_dir),
        }
