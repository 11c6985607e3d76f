"""The evaluator: whole episodes with the newest policy, without exploration, from fixed seeds; keeps the best."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from spreeze.board import Life, Section
from spreeze.envs.bounds import Bounds
from spreeze.envs.episodes import Episodes, run_episodes
from spreeze.envs.source import make_env
from spreeze.errors import EnvError
from spreeze.metrics.lines import LineFile, json_line
from spreeze.roles.env_faults import ENV_ERRORS_PER_LIFE
from spreeze.roles.job import Job
from spreeze.roles.links import EvaluatorLinks
from spreeze.roles.reporting import report_event, seconds_since_start
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import NumpyPolicy
from spreeze.weights.policy_file import save_policy
from spreeze.weights.refresh import Refresher

if TYPE_CHECKING:
    import gymnasium

NICENESS = 10  # training goes first; on busy cores an evaluation still gets about a tenth of one
FIRST_SEED = 10_000  # the same episodes at every evaluation of every run, and never a training seed of the same run
_WAIT_S = 0.01


def run(job: Job, links: EvaluatorLinks, life: Life) -> None:
    os.nice(NICENESS)
    evaluator = _Evaluator(job, links.board.section("evaluator"))
    refresher = Refresher(links.weights, evaluator.policy, links.board.section("evaluator"))
    life.ready()
    due = 0.0

    def go_on() -> bool:
        life.beat()
        return not life.ending()

    learner = links.board.section("learner")

    def is_due() -> bool:
        if job.config.deterministic:  # the learner publishes nothing else before these weights are loaded
            return learner.get("evaluation_asked") > refresher.stamp.version
        return time.monotonic() >= due

    while go_on():
        # once training has stopped, its last weights are looked at without delay
        if not (is_due() or life.stopping()) or not refresher.refresh():
            time.sleep(_WAIT_S)
            continue
        due = time.monotonic() + job.config.eval_every
        was_asked = learner.get("evaluation_asked") == refresher.stamp.version
        env_steps = learner.get("evaluation_env_steps" if was_asked else "env_steps")
        episodes = evaluator.play(go_on)
        if episodes is not None:
            evaluator.keep(episodes, refresher.stamp, env_steps)
        else:  # nobody waits for it any more
            links.board.section("evaluator").set("evaluated_version", refresher.stamp.version)


class _Evaluator:
    def __init__(self, job: Job, cells: Section) -> None:
        self._job = job
        self._cells = cells
        self._lines = LineFile(job.run_dir / "eval.jsonl")
        count = job.config.eval_episodes
        self._envs = self._make_envs()
        self._env_errors = 0
        self._seeds = range(FIRST_SEED, FIRST_SEED + count)
        self._bounds = Bounds(job.env_spec, np.dtype(np.float32))
        # an evaluator that replaces one which died keeps the best policy of both
        self._best = cells.get_float("best_return")
        self.policy = NumpyPolicy(job.policy, count)

    def play(self, go_on: Callable[[], bool]) -> Episodes | None:
        """None: there is nothing to keep, because the run ended first or an environment broke."""
        try:
            return run_episodes(self._envs, self._seeds, self._act, go_on)
        except Exception as error:
            self._replace_envs(error)
            return None

    def _replace_envs(self, error: Exception) -> None:
        """What a sampler does about a broken environment (env_faults): said, replaced, within a budget."""
        self._env_errors += 1
        if self._env_errors > ENV_ERRORS_PER_LIFE:
            raise EnvError(f"{self._env_errors} evaluations broke off, the last: {error}") from error
        report_event(self._job, "warning", f"an evaluation broke off: {type(error).__name__}: {error}")
        for env in self._envs:
            with contextlib.suppress(Exception):  # one that broke may not close either
                env.close()
        self._envs = self._make_envs()

    def _make_envs(self) -> list[gymnasium.Env]:
        return [make_env(self._job.env) for _ in range(self._job.config.eval_episodes)]

    def keep(self, episodes: Episodes, stamp: WeightsStamp, env_steps: int) -> None:
        """Writes the line, keeps the policy when it is the best so far, and says when the task is solved."""
        record = self._record(episodes, stamp, env_steps)
        mean, cells = float(record["return_mean"]), self._cells
        error = self._lines.append(json_line(record))
        if error is not None:
            report_event(self._job, "warning", f"a line of eval.jsonl waits: {error}")
        if mean > self._best:
            self._best = mean
            self._save_best(record)
        cells.set_float("last_return", mean)
        cells.set_float("best_return", self._best)
        target = self._job.config.until_return
        if target is not None and mean >= target and not cells.get("solved"):
            cells.set("solved_ns", time.monotonic_ns())
            cells.set("solved", 1)
        cells.set("evaluated_version", int(record["weights_version"]))
        cells.add("evaluations", 1)

    def _act(self, obs: np.ndarray) -> np.ndarray:
        return self._bounds(self.policy.act(obs))

    def _record(self, episodes: Episodes, stamp: WeightsStamp, env_steps: int) -> dict[str, Any]:
        returns = episodes.returns
        return {
            "wall_s": seconds_since_start(self._job, stamp.published_ns),
            "env_steps": env_steps,
            "updates": stamp.updates,
            "weights_version": stamp.version,
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
            "length_mean": float(episodes.lengths.mean()),
            "episodes": len(returns),
            "ended_s": seconds_since_start(self._job),
        }

    def _save_best(self, record: dict[str, Any]) -> None:
        try:
            save_policy(self._job.run_dir, self._job.policy, self._job.env_spec, self.policy.flat, record)
        except OSError as error:
            report_event(self._job, "warning", f"the best policy was not written: {error}")
