"""How peers are judged: a pretended peer as a real program, what its lines come to, and what is told of those that are
not there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from spreeze.bench.compare import CompareOptions, PeerRuns, compare, only_cores, peers_of, read_compare, read_peer
from spreeze.bench.study.trials import Trial
from spreeze.errors import ConfigError

PEERS = Path(__file__).parents[3] / "benchmarks" / "peers"
FAKE = """
import json, sys, time
told = json.loads(sys.argv[1])
print("a library's greeting")
if told["seed"] == 1:
    raise SystemExit("it has no such task")
print(json.dumps({"kind": "about", "peer": "fake", "version": "1", "settings": {}, "source": "none"}))
for turn in range(4):
    print(json.dumps({"kind": "evaluation", "wall_s": 2.0 * turn, "training_s": 1.5 * turn, "env_steps": 300 * turn,
                      "updates": 30 * turn, "return_mean": -400.0 + 100 * turn}))
print(json.dumps({"kind": "end", "solved": told["threshold"] <= -100}))
"""


def make_fake(folder: Path, installed: bool = True) -> CompareOptions:
    peers, python = folder / "peers", folder / "venvs" / "fake" / "bin" / "python"
    peers.mkdir()
    (peers / "fake.py").write_text(FAKE)
    (peers / "fake.txt").touch()
    (peers / "protocol.py").touch()
    if installed:
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    return CompareOptions(
        threshold=-200.0, seeds=2, seconds=20.0, peers_dir=str(peers), venvs_dir=str(folder / "venvs"),
        out=str(folder / "out"),
    )  # fmt: skip


def ours(trial: Trial, run_dir: Path, seconds: float) -> dict[str, Any]:
    assert trial.flags["until_return"] == -200.0
    assert (trial.flags["eval_episodes"], trial.variant) == (10, "spreeze")
    return {
        **trial._asdict(), "key": trial.key, "status": "solved", "took_s": 2.0, "solved_at_s": 1.5, "reason": "",
        "best_return": -150.0, "cpu_s": 1.0, "peak_bytes": 10**8, "env_steps": 5, "updates": 5, "windows": 0,
        "figures": {},
    }  # fmt: skip


def test_a_peer_is_run_and_judged_beside_spreeze(tmp_path: Path) -> None:
    options = make_fake(tmp_path)
    told = compare(["compare"], "Pendulum-v1", options, {}, ours, PeerRuns(options))
    spreeze, fake = told["rows"]
    assert (spreeze["variant"], spreeze["seeds"], spreeze["solved_at_s"]) == ("spreeze", 2, 1.5)
    assert (fake["variant"], fake["seeds"], fake["solved"], fake["solved_at_s"]) == ("fake", 1, 1, 3.0)
    assert (fake["sample_hz"], fake["update_hz"], fake["env_steps"]) == (200.0, 20.0, 900)
    assert fake["why"] == "1 more failed: it has no such task"
    json.dumps(told, allow_nan=False)
    assert "| fake | 1 | 1 | 3.0 |" in (tmp_path / "out" / "table.md").read_text()

    def nobody(*_: Any) -> dict[str, Any]:
        raise AssertionError("what has a record is not run again")

    assert compare(["compare"], "Pendulum-v1", options, {}, nobody, nobody)["rows"] == told["rows"]


def test_a_peer_that_is_not_installed_is_a_row_that_says_why(tmp_path: Path) -> None:
    options = make_fake(tmp_path, installed=False)
    _, fake = compare(["compare"], "Pendulum-v1", options, {}, ours, PeerRuns(options))["rows"]
    assert (fake["why"], fake["seeds"]) == ("not installed: make peers PEERS=fake", 0)


def test_lines_of_a_peer_that_did_not_get_there() -> None:
    evaluation = {
        "kind": "evaluation", "wall_s": 1, "training_s": 1, "env_steps": 0, "updates": 0, "return_mean": -900.0
    }  # fmt: skip
    told = {"threshold": -200.0}
    ended = [json.dumps(evaluation), json.dumps({"kind": "end", "solved": False})]
    record = read_peer(ended, told)
    assert (record["status"], record["solved_at_s"], record["figures"]) == ("finished", None, {})
    cut = read_peer([*ended[:1], "Traceback", "MemoryError: too much"], told)
    assert (cut["status"], cut["reason"]) == ("failed", "MemoryError: too much")
    late = read_peer(ended[:1], told, stopped=True)
    assert (late["status"], late["best_return"]) == ("finished", -900.0)
    assert read_peer([], told)["reason"] == "it left no message"


def test_peers_by_name(tmp_path: Path) -> None:
    assert {"sb3", "sbx"} <= set(peers_of("all", PEERS))
    assert peers_of("none", PEERS) == []
    assert peers_of("sbx,sb3", PEERS) == ["sbx", "sb3"]
    with pytest.raises(ConfigError, match="Did you mean 'sb3'"):
        peers_of("sb33", PEERS)
    assert all((PEERS / f"{name}.py").is_file() for name in peers_of("all", PEERS))


def test_the_threshold_is_asked_for() -> None:
    env, options, flags = read_compare(["Pendulum-v1", "--threshold", "-200", "--lr", "0.002"])
    assert (env, options.threshold, flags) == ("Pendulum-v1", -200.0, {"lr": "0.002"})
    with pytest.raises(ConfigError, match="--threshold is missing"):
        read_compare(["Pendulum-v1"])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot hold programs to cores")
def test_programs_are_held_to_the_same_cores() -> None:
    before = os.sched_getaffinity(0)
    with only_cores(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ConfigError, match="--cores 5000"), only_cores(5000):
        pass
