"""The sampler processes of a run, acting with a published policy, and a light reader where the learner would be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

from spreeze.algos import policy_spec_for
from spreeze.bench.helper import START_WITHIN_S, last_lines
from spreeze.bench.stepper import WARM_UP_SHARE
from spreeze.board import STOP_ALL
from spreeze.envs.source import EnvSource
from spreeze.errors import SpreezeError
from spreeze.experience.packing import block_rows
from spreeze.learner.pacing import UNBOUNDED
from spreeze.resolve import Resolved
from spreeze.roles.job import Job
from spreeze.runtime.process import Child, describe_exit
from spreeze.runtime.topology import Topology, connect
from spreeze.spec import layout_of
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.published import POLICIES
from spreeze.weights.ssd import SsdPublisher

READER_POLL_S = 0.001  # a learner looks about as often, between its updates
_READER_ROWS = 1 << 15
_END_WITHIN_S = 5.0


class SamplerRoles:
    """Stopped between windows by the operating system, so that they cost nothing while something else is measured."""

    def __init__(
        self, topology: Topology, children: list[Child], run_dir: Path, row_size: int, block_rows: int
    ) -> None:
        self._children = children
        self._run_dir = run_dir
        self._board = topology.board
        self._receiver = topology.experience.receiver()
        self._rows = np.zeros((max(_READER_ROWS, 2 * block_rows), row_size), np.float32)

    def wait_until_acting(self) -> None:
        """With the published weights; then they are stopped."""
        deadline = time.monotonic() + START_WITHIN_S
        sections = self._board.sampler_sections()
        while not all(section.get("weights_version") and section.get("env_steps") for section in sections):
            self._check_alive()
            if time.monotonic() > deadline:
                raise SpreezeError(f"the samplers did not act within {START_WITHIN_S:.0f} s")
            self._read_for(READER_POLL_S)
        self._signal_all(signal.SIGSTOP)

    def measure(self, seconds: float) -> float:
        """Rows a second that reached the reader."""
        self._signal_all(signal.SIGCONT)
        self._read_for(WARM_UP_SHARE * seconds)
        start = time.perf_counter()
        rows = self._read_for(seconds)
        elapsed_s = time.perf_counter() - start
        self._signal_all(signal.SIGSTOP)
        self._check_alive()
        return rows / elapsed_s

    def close(self) -> None:
        self._board.section("supervisor").set("stop", STOP_ALL)
        self._signal_all(signal.SIGCONT)
        for child in self._children:
            if not child.wait_gone(_END_WITHIN_S):
                child.kill()
                child.wait_gone(_END_WITHIN_S)

    def _read_for(self, seconds: float) -> int:
        rows, end = 0, time.perf_counter() + seconds
        while True:
            rows += self._receiver.drain(self._rows).rows
            if time.perf_counter() >= end:
                return rows
            time.sleep(READER_POLL_S)

    def _signal_all(self, number: int) -> None:
        for child in self._children:
            if child.exit_code() is None:
                os.kill(child.pid, number)

    def _check_alive(self) -> None:
        for child in self._children:
            code = child.exit_code()
            if code is not None:
                told = last_lines(self._run_dir / "errors" / f"{child.role}.txt")
                raise SpreezeError(f"{child.role} {describe_exit(code)}: {told}")


@contextmanager
def sampler_roles(env_id: str, resolved: Resolved, run_dir: Path) -> Iterator[SamplerRoles]:
    config, layout = resolved.config, layout_of(resolved.spec)
    policy = policy_spec_for(config.algo, layout.obs_size, layout.action_size, config.hidden)
    samplers = int(config.samplers)
    topology = connect(
        layout, samplers, int(config.envs_per_sampler), config.n_step, config.weights, policy.weight_count
    )
    cells = topology.board.section("learner")
    cells.set("env_steps_permitted", UNBOUNDED)
    SsdPublisher(run_dir, announce=lambda version: cells.set("weights_version", version)).publish(
        np.tile(fresh_weights(policy), POLICIES), WeightsStamp(1, 0, time.monotonic_ns())
    )
    children: list[Child] = []
    most = block_rows(int(config.envs_per_sampler), config.n_step)
    roles = SamplerRoles(topology, children, run_dir, layout.row_size, most)
    try:
        for role in (f"sampler-{k}" for k in range(samplers)):
            children.append(Child(_job(role, env_id, resolved, policy, topology, run_dir), threads=1))
        roles.wait_until_acting()
        yield roles
    finally:
        roles.close()
        topology.close()


def _job(role: str, env_id: str, resolved: Resolved, policy: PolicySpec, topology: Topology, run_dir: Path) -> Job:
    return Job(
        role=role,
        config=resolved.config,
        env=EnvSource(env_id),
        env_spec=resolved.spec,
        policy=policy,
        run_dir=run_dir,
        started_ns=time.monotonic_ns(),
        parent_pid=os.getpid(),
        wiring=topology.wiring(role),
    )


def fresh_weights(policy: PolicySpec, seed: int = 0) -> np.ndarray:
    """As an algorithm draws them at a run's start: uniform within 1 / sqrt(inputs)."""
    rng = np.random.default_rng(seed)
    layers = [
        rng.uniform(-1.0, 1.0, (inputs + 1) * outputs) / np.sqrt(inputs)
        for inputs, outputs in pairwise(policy.layer_sizes)
    ]
    return np.concatenate(layers).astype(np.float32)
