"""What a child is told at its start: one JSON document, and the environment's pickle where there is one, through an
inherited descriptor. From parent to child only; nothing of it touches the run folder."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spreeze.config import RunConfig
from spreeze.envs.source import EnvSource
from spreeze.spec import EnvSpec
from spreeze.weights.numpy_policy import PolicySpec


@dataclass(frozen=True)
class Origin:
    """Where a run that is resumed goes on from."""

    checkpoint: Path  # complete, every byte of it was checked
    env_steps: int
    updates: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "checkpoint": str(self.checkpoint)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Origin:
        return Origin(**{**data, "checkpoint": Path(data["checkpoint"])})


@dataclass(frozen=True)
class Job:
    """The same for every role of a run but for `role` and `wiring`."""

    role: str
    config: RunConfig  # resolved: no 'auto' left
    env: EnvSource
    env_spec: EnvSpec
    policy: PolicySpec
    run_dir: Path
    started_ns: int  # monotonic clock at the run's start; moved on by the time between the commands of one run
    parent_pid: int
    wiring: dict[str, Any]
    origin: Origin | None = None  # of a run that is resumed
    next_batch_sizes: tuple[int, ...] = ()  # that may be stepped to soon, beside that of `config`


def write_job(job: Job) -> int:
    """-> a descriptor that the child inherits."""
    document = {
        "role": job.role,
        "config": job.config.as_json(),
        "env": job.env.as_json(),
        "env_spec": job.env_spec.as_json(),
        "policy": job.policy.as_json(),
        "run_dir": str(job.run_dir),
        "started_ns": job.started_ns,
        "parent_pid": job.parent_pid,
        "wiring": job.wiring,
        "origin": None if job.origin is None else job.origin.as_json(),
        "next_batch_sizes": list(job.next_batch_sizes),
    }
    head = json.dumps(document).encode()
    with tempfile.TemporaryFile() as file:
        file.write(len(head).to_bytes(8, "little") + head + (job.env.pickled or b""))
        file.flush()
        return os.dup(file.fileno())


def read_job(fd: int) -> Job:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    document = json.loads(data[8 : 8 + size])
    return Job(
        role=document["role"],
        config=RunConfig.of(document["config"]),
        env=EnvSource.from_json(document["env"], data[8 + size :] or None),
        env_spec=EnvSpec.from_json(document["env_spec"]),
        policy=PolicySpec.from_json(document["policy"]),
        run_dir=Path(document["run_dir"]),
        started_ns=document["started_ns"],
        parent_pid=document["parent_pid"],
        wiring=document["wiring"],
        origin=None if document["origin"] is None else Origin.from_json(document["origin"]),
        next_batch_sizes=tuple(document["next_batch_sizes"]),
    )
