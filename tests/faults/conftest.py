"""The fault suite starts and watches runs as the integration tests do."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

sys.path.append(str(Path(__file__).parent.parent / "integration"))
from running import Run
from strewn import Strewn


@pytest.fixture
def moments() -> random.Random:
    """For random timing, the same in every `make test` and another in every `make faults`. Printed with a failure; the
    same again with FAULTS_SEED=... in the environment."""
    seed = int(os.environ.get("FAULTS_SEED") or 0)
    print(f"FAULTS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def start_strewing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Strewn]]:
    started: list[Strewn] = []
    temp = tmp_path / "t"
    temp.mkdir()
    monkeypatch.setenv("TMPDIR", str(temp))

    def make(name: str = "r", **settings: Any) -> Strewn:
        sleep = f"9{time.monotonic_ns() % 10**7}"
        monkeypatch.setenv("FAULTY_ENVS_SLEEP", sleep)
        run = Run(tmp_path / name, "faulty_envs:make_strewing", eval_episodes=1, envs_per_sampler=2, **settings)
        started.append(Strewn(run, sleep, temp))
        return started[-1]

    yield make
    for strewn in started:
        strewn.run.end()
        for pid in strewn.sleepers():
            psutil.Process(pid).kill()
