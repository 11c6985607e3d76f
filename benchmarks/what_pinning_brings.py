"""Whether it pays to pin the learner to a core of its own and the others to the rest.

    python benchmarks/what_pinning_brings.py ENV [flags of train]        about 100 s

In one run, in turn and several times: everybody where the scheduler puts him, then pinned. What is compared is windows
of the same run, so that a machine whose speed drifts, or that others use, says nothing in favour of either.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

TURNS, WINDOW_S, SETTLE_S = 8, 5.0, 1.0
FIGURES = ("updates", "env_steps")


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.is_file() else []


def wait_until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no updates within {within_s:.0f} s")
        time.sleep(0.1)


def put(pid: int, cores: set[int]) -> None:
    """Every thread of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def window(metrics: Path) -> dict[str, float]:
    """Rates between two lines of metrics.jsonl that are WINDOW_S apart."""
    time.sleep(SETTLE_S)
    first = lines_of(metrics)[-1]
    time.sleep(WINDOW_S)
    last = lines_of(metrics)[-1]
    span_s = last["wall_s"] - first["wall_s"]
    return {name: (last[name] - first[name]) / span_s for name in FIGURES}


def main() -> None:
    env, flags = sys.argv[1], sys.argv[2:]
    every = sorted(os.sched_getaffinity(0))
    rates: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "spreeze",
            "train",
            env,
            "--quiet",
            "--adapt",
            "off",
            "--run-dir",
            str(run_dir),
        ]
        run = subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: any(line["updates"] for line in lines_of(run_dir / "metrics.jsonl")))
            pids = {e["role"]: e["pid"] for e in lines_of(run_dir / "events.jsonl") if e["kind"] == "start"}
            for turn in range(2 * TURNS):
                pinned = turn % 2 == 1
                for role, pid in pids.items():
                    own = {every[0]} if role == "learner" else set(every[1:])
                    put(pid, own if pinned else set(every))
                rates[pinned].append(window(run_dir / "metrics.jsonl"))
        finally:
            run.terminate()
            run.wait()
    for name in FIGURES:
        free, pinned_hz = ([rate[name] for rate in rates[pinned]] for pinned in (False, True))
        shares = [b / a for a, b in zip(free, pinned_hz, strict=True)]
        print(
            f"{name:10} a second: free {median(free):10,.1f}, pinned {median(pinned_hz):10,.1f}; "
            f"pinned / free {median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"
        )


if __name__ == "__main__":
    main()
