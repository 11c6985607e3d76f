"""Real runs and real samplers, as the integration tests start, watch and end them. A wait is for a condition, with an
end."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from spreeze.config import RunConfig
from spreeze.envs.counting_env import check_rows, episode_length, instances, places
from spreeze.envs.registry import probe
from spreeze.envs.seeds import env_seed, role_seed
from spreeze.envs.source import EnvSource
from spreeze.experience.link import ROW_END, VERSION
from spreeze.experience.ring import RingChannel, RingReceiver, waiting_rows
from spreeze.roles.job import Job
from spreeze.runtime.process import Child
from spreeze.runtime.topology import connect
from spreeze.spec import layout_of
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.published import POLICIES
from spreeze.weights.ssd import SsdPublisher

WITHIN_S = 60.0
SRC = Path(__file__).parent.parent.parent / "src"
HERE = Path(__file__).parent
COUNTING = "spreeze.envs.counting_env:make_counting_env"
SMALL = {
    "hidden": "16,16",
    "batch_size": 32,
    "learning_starts": 200,
    "samplers": 1,
    "envs_per_sampler": 4,
    "env_backend": "gymnasium",
    "eval_episodes": 2,
    "eval_every": 0.2,
    "replay_size": 50_000,
}


def wait_for(what: str, condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """What the condition gave when it was true for the first time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        time.sleep(0.01)
    return value


def assert_no_gap(found: Iterable[tuple[int, ...]]) -> None:
    """Of counting environments: (instance, episode, step) of rows, which follow one another from each one's first."""
    expected: dict[int, tuple[int, int]] = {}
    for instance, episode, step in sorted(found):
        assert (episode, step) == expected.get(instance, (1, 0)), f"a row of environment {instance} is missing"
        over = step + 1 == episode_length(episode)
        expected[instance] = (episode + 1, 0) if over else (episode, step + 1)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # of a parent that never asks
    except psutil.NoSuchProcess:
        return True


class Run:
    """`spreeze train` as a program of its own, or `spreeze resume` of a run that is there: `again`. `address_kib`: what
    each of its processes may map (ulimit -v); `program`: what takes the place of `spreeze`."""

    def __init__(
        self,
        run_dir: Path,
        env: str = "Pendulum-v1",
        address_kib: int | None = None,
        program: Sequence[str] = (sys.executable, "-m", "spreeze"),
        again: bool = False,
        **settings: Any,
    ) -> None:
        self.run_dir = run_dir
        flags = settings if again else {**SMALL, **settings}
        command = [*program, *(["resume", str(run_dir)] if again else ["train", env, "--run-dir", str(run_dir)])]
        for name, value in flags.items():
            command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
        if address_kib is not None:
            command = ["sh", "-c", f'ulimit -v {address_kib} && exec "$@"', "sh", *command]
        path = os.pathsep.join([str(SRC), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.stderr = run_dir.with_name(run_dir.name + ".stderr")
        with open(self.stderr, "wb") as stderr:
            self.process = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL, stderr=stderr
            )

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The whole lines of a .jsonl file of the run so far."""
        path = self.run_dir / name
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]

    def events(self, kind: str, role: str | None = None) -> list[dict[str, Any]]:
        return [e for e in self.lines("events.jsonl") if e["kind"] == kind and role in (None, e.get("role"))]

    def pids(self) -> dict[str, int]:
        """The latest process of each role."""
        return {event["role"]: event["pid"] for event in self.events("start")}

    def all_pids(self) -> list[int]:
        return [event["pid"] for event in self.events("start")]

    def latest(self, key: str) -> Any:
        lines = self.lines("metrics.jsonl")
        return lines[-1][key] if lines else None

    def summary(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "summary.json").read_text())

    def wait_learning(self) -> Run:
        def learning() -> bool:
            assert self.process.poll() is None, self.stderr.read_text()
            return bool(self.latest("updates"))

        wait_for("the first updates", learning)
        return self

    def wait_end(self) -> int:
        return self.process.wait(WITHIN_S)

    def assert_nobody_left(self) -> None:
        pids = self.all_pids()
        assert len(pids) >= 3
        wait_for("every child to be gone", lambda: all(is_gone(pid) for pid in pids))

    def end(self) -> None:
        """After a test, a failed one as well."""
        self.process.kill()
        self.process.wait()
        for pid in self.all_pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if "spreeze.runtime.child" in process.cmdline():  # and not somebody who has its number by now
                    process.kill()


class Samplers:
    """Real sampler processes on one end, this process on the learner's end."""

    def __init__(self, run_dir: Path, env: str, count: int, **settings: Any) -> None:
        run_dir.mkdir()
        source = EnvSource.of(env)
        spec = probe(source)
        self.config = RunConfig.of({**SMALL, "device": "cpu", "samplers": count, **settings})
        self.run_dir, self.row_size = run_dir, layout_of(spec).row_size
        policy = PolicySpec("tanh_gaussian", spec.obs_size, spec.action_size, (8,))
        num_envs, n_step = int(self.config.envs_per_sampler), self.config.n_step
        self.topology = connect(
            layout_of(spec), count, num_envs, n_step, "ssd", policy.weight_count, self.config.experience, 100_000
        )
        self.board = self.topology.board
        self._job = {
            "config": self.config, "env": source, "env_spec": spec, "policy": policy, "run_dir": run_dir,
            "started_ns": time.monotonic_ns(), "parent_pid": os.getpid(),
        }  # fmt: skip
        self._learner = self.board.section("learner")
        self._learner.set("env_steps_permitted", 2**62)
        self._publisher = SsdPublisher(run_dir, lambda version: self._learner.set("weights_version", version))
        self._flat = np.zeros(POLICIES * policy.weight_count, np.float32)
        channel = self.topology.experience
        self._readers: list[Any] = [channel.receiver()]
        if isinstance(channel, RingChannel):  # the rows of each sampler by themselves
            self._readers = [RingReceiver([ring], channel.shape) for ring in channel.blocks]
        assert len(self._readers) == count
        self._into = np.zeros((waiting_rows(layout_of(spec), num_envs * n_step), self.row_size), np.float32)
        self.children: dict[int, Child] = {}
        self.versions_seen = [0] * count

    def start(self, index: int) -> Child:
        role = f"sampler-{index}"
        job = Job(role=role, wiring=self.topology.wiring(role), **self._job)  # type: ignore[arg-type]
        self.children[index] = Child(job, threads=1)
        return self.children[index]

    def kill(self, index: int) -> None:
        self.children[index].kill()
        assert self.children[index].wait_gone(WITHIN_S)

    def publish(self) -> int:
        version = self._learner.get("weights_version") + 1
        self._publisher.publish(self._flat, WeightsStamp(version, version, time.monotonic_ns()))
        return version

    def drain(self, index: int) -> np.ndarray:
        """New rows of one sampler (count, row_size), copied."""
        drained = self._readers[index].drain(self._into)
        if drained.rows:
            versions = drained.announcements[:, VERSION]
            assert drained.announcements[:, ROW_END].sum() == drained.rows
            self.versions_seen[index] = int(versions[-1])
        return self._into[: drained.rows].copy()

    def close(self) -> None:
        for index in self.children:
            self.kill(index)
        self.topology.close()


class Account:
    """All rows of one sampler, checked as they come."""

    def __init__(self, samplers: Samplers, index: int) -> None:
        self._samplers, self._index = samplers, index
        self._n_step, self._gamma = samplers.config.n_step, samplers.config.gamma
        self._life_of: dict[int, int] = {}  # instance -> life of this sampler
        self._next: dict[int, tuple[int, int]] = {}  # instance -> (episode, step) of its next row
        self.rows_of_life: list[int] = []

    def new_life(self) -> None:
        life, config = len(self.rows_of_life), self._samplers.config
        seed = role_seed(config.seed, self._index, life)
        own = [env_seed(seed, env) for env in range(int(config.envs_per_sampler))]
        assert not self._life_of.keys() & set(own), "a successor collects its predecessor's episodes again"
        self._life_of |= dict.fromkeys(own, life)
        self._next |= dict.fromkeys(own, (1, 0))
        self.rows_of_life.append(0)

    def drain(self) -> int:
        rows = self._samplers.drain(self._index)
        assert check_rows(rows, self._gamma, self._n_step) == []
        assert set(instances(rows).tolist()) <= self._life_of.keys(), "rows of another sampler"
        for instance, episode, step in places(rows).tolist():
            assert (episode, step) == self._next[instance], "a row is missing, or came twice"
            over = step + 1 == episode_length(episode)
            self._next[instance] = (episode + 1, 0) if over else (episode, step + 1)
            self.rows_of_life[self._life_of[instance]] += 1
        return len(rows)

    def drain_until(self, rows_of_latest_life: int) -> None:
        def enough() -> bool:
            self.drain()
            return self.rows_of_life[-1] >= rows_of_latest_life

        wait_for(f"{rows_of_latest_life} rows of sampler-{self._index}", enough)
