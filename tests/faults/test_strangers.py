"""A thousand corrupted files, given to what reads them: a clear error or a safe continuation each time, no traceback,
no hang. Seeded: the same thousand at every run."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corruption import damage_bytes, damage_document

from spreeze import cli
from spreeze.board import Board
from spreeze.config import RunConfig
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource
from spreeze.learner.checkpoint import Checkpoint, CheckpointWriter, find_checkpoint
from spreeze.metrics.lines import LineTail, json_line
from spreeze.resolve import Choice, resolve
from spreeze.run_folder import CONFIG_FILE
from spreeze.runtime import supervisor
from spreeze.tuning.hardware import find_machine
from spreeze.weights.link import WeightsStamp
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec
from spreeze.weights.policy_file import POLICY_FILE, save_policy
from spreeze.weights.refresh import Refresher
from spreeze.weights.ssd import LIVE_WEIGHTS, SsdFollower, SsdPublisher

ENV = "Pendulum-v1"
POLICY = PolicySpec("tanh", 3, 1, (8,))
FLAT = np.random.default_rng(0).normal(0, 0.1, POLICY.weight_count).astype(np.float32)
EACH = 250  # files of each of the four kinds
WITHIN_S = 20
RECORDED_EVERY = 25  # a video takes as long as ten evaluations

Reads = Callable[..., None]


class Trained:
    exit_code = 0


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A small run's folder, whole."""
    spec = probe(EnvSource.of(ENV))
    resolved = resolve(RunConfig.of({"device": "cpu"}), spec, find_machine(), Choice("gymnasium", "the plain one"))
    (tmp_path / CONFIG_FILE).write_text(json.dumps(resolved.as_json(), indent=2), encoding="utf-8")
    save_policy(tmp_path, POLICY, spec, FLAT, {"return_mean": -150.0})
    return tmp_path


@pytest.fixture
def in_time() -> Iterator[Callable[[], object]]:
    """Called before each file: what then takes longer than WITHIN_S is a hang."""

    def over(number: int, frame: object) -> None:
        raise TimeoutError(f"not done within {WITHIN_S} s")

    before = signal.signal(signal.SIGALRM, over)
    yield lambda: signal.alarm(WITHIN_S)
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def reads(in_time: Callable[[], object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Reads:
    """A command line that is done, or ends with one sentence and the exit code that belongs to it."""
    monkeypatch.setattr(supervisor, "train", lambda *arguments, **settings: Trained())  # the reading is what is tried

    def read(*words: str) -> None:
        in_time()
        code = cli.main(words)
        printed = capsys.readouterr()
        assert code in (0, 1, 2), words
        assert "Traceback" not in printed.out + printed.err
        if code:
            assert printed.err.startswith("spreeze: "), printed.err
            assert len(printed.err) < 2_000
        elif words[0] == "eval":
            assert np.isfinite(json.loads(printed.out)["return_mean"])

    return read


def damaged_documents(document: Any, moments: random.Random) -> Iterator[bytes]:
    """Half of them JSON with hostile parts, half of them bytes."""
    data = json.dumps(document, indent=2).encode()
    for number in range(EACH):
        if number % 2:
            yield damage_bytes(data, moments)
        else:
            yield json.dumps(damage_document(document, moments)).encode()


def damaged_policies(data: bytes, moments: random.Random) -> Iterator[bytes]:
    """Half of them whole safetensors with a hostile description, half of them bytes."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    for number in range(EACH):
        if number % 2:
            yield damage_bytes(data, moments)
            continue
        hostile = dict(header)
        part = moments.choice(("policy", "env", "about", "weights"))
        if part == "weights":
            hostile["weights"] = damage_document(header["weights"], moments)
        else:
            described = damage_document(json.loads(header["__metadata__"][part]), moments)
            hostile["__metadata__"] = {**header["__metadata__"], part: json.dumps(described)}
        packed = json.dumps(hostile).encode()
        yield struct.pack("<Q", len(packed)) + packed + body


def test_corrupted_configs(run_dir: Path, reads: Reads, tmp_path: Path) -> None:
    path = run_dir / CONFIG_FILE
    for number, data in enumerate(damaged_documents(json.loads(path.read_bytes()), random.Random(1))):
        path.write_bytes(data)
        reads("train", ENV, "--config", str(path))
        reads("eval", str(run_dir), "--episodes", "1", "--json")
        reads("report", str(run_dir), "--no-plots", "--json", "--out", str(tmp_path / "report"))
        if number % RECORDED_EVERY == 0:
            reads("record", str(run_dir))


def test_corrupted_policies(run_dir: Path, reads: Reads, tmp_path: Path) -> None:
    path = run_dir / POLICY_FILE
    for number, data in enumerate(damaged_policies(path.read_bytes(), random.Random(2))):
        path.write_bytes(data)
        reads("eval", str(run_dir), "--episodes", "1", "--json")
        if number % RECORDED_EVERY == 0:
            reads("record", str(run_dir))
            reads("export", str(run_dir), "--format", "torchscript", "--out", str(tmp_path / "policy.pt"))


def test_corrupted_weights_are_counted_and_not_acted_with(tmp_path: Path, in_time: Callable[[], object]) -> None:
    """The follower keeps what it had, whatever lies there, and takes the next whole file."""
    board, path, moments = Board.create(1), tmp_path / LIVE_WEIGHTS, random.Random(3)
    cells, policy = board.section("learner"), NumpyPolicy(POLICY, 1)
    publisher = SsdPublisher(tmp_path, lambda version: cells.set("weights_version", version))
    follower = SsdFollower(tmp_path, announced=lambda: cells.get("weights_version"))
    for version in range(1, EACH + 1):
        publisher.publish(FLAT * version, WeightsStamp(version, version, 0))
        whole = path.read_bytes()
        damaged = damage_bytes(whole, moments)
        path.write_bytes(damaged)
        in_time()
        refresher = Refresher(follower, policy, board.section("sampler-0"))
        taken = refresher.refresh()
        assert (taken, refresher.failures) == ((True, 0) if damaged == whole else (False, 1))
        if not taken:
            np.testing.assert_array_equal(policy.flat, FLAT * (version - 1))
        SsdFollower(tmp_path).version()  # as a process that shares no memory with the run looks at it
        path.write_bytes(whole)
        assert Refresher(follower, policy).refresh()
        np.testing.assert_array_equal(policy.flat, FLAT * version)


def test_corrupted_metrics_lose_no_line_but_the_damaged(tmp_path: Path, in_time: Callable[[], object]) -> None:
    moments, path = random.Random(4), tmp_path / "metrics.jsonl"
    record = {"wall_s": 1.0, "env_steps": 10, "restarts": {"sampler-0": 0}, "cpu_pct": None}
    for number in range(EACH):
        hostile = json.dumps(damage_document(record, moments)).encode()
        data = hostile if number % 2 else damage_bytes(json_line(record), moments)
        path.write_bytes(json_line({"number": number}) + data.rstrip(b"\n") + b"\n" + json_line({"number": -number}))
        in_time()
        found = LineTail(path).read_new()
        assert found[0] == {"number": number}
        assert found[-1] == {"number": -number}
        assert all(isinstance(line, dict) for line in found)


def make_checkpoint(run_dir: Path, number: int, before: Checkpoint | None = None) -> Checkpoint:
    """Rows 0 to 39, or to 79 behind the one before."""
    first, end = (0, 40) if before is None else (0, 80)
    rows = np.arange(end * 4, dtype=np.float32).reshape(end, 4)
    writer = CheckpointWriter(run_dir, number, row_size=4, first_row=first, end_row=end, before=before)
    writer.add_rows(rows[0 if before is None else before.end_row :])
    writer.add_state({"weight": FLAT, "step": np.zeros((), np.int64)})
    return writer.finish({"env_steps": end, "updates": 3})


def rows_of(checkpoint: Checkpoint) -> list[float]:
    return np.concatenate(list(checkpoint.pieces()))[:, 0].tolist()


def test_corrupted_checkpoints_give_way_to_the_one_before(tmp_path: Path, in_time: Callable[[], object]) -> None:
    """Half of the damages are to bytes; half are hostile manifests whose own checksum fits. What is given is either the
    damaged one, whole in every respect, or the one before; rows are read from it without an error."""
    older = make_checkpoint(tmp_path, 1)
    newer, moments = make_checkpoint(tmp_path, 2, older), random.Random(7)
    expected = {1: rows_of(older), 2: rows_of(newer)}
    files = sorted(newer.path.iterdir())
    manifest = json.loads((newer.path / "manifest.json").read_bytes())
    del manifest["crc32"]
    taken = []
    for number in range(EACH):
        path = newer.path / "manifest.json" if number % 2 else moments.choice(files)
        whole = path.read_bytes()
        if number % 2:
            hostile = damage_document(manifest, moments)
            hostile = hostile if isinstance(hostile, dict) else {}
            damaged = json.dumps(
                {**hostile, "crc32": zlib.crc32(json.dumps(hostile, sort_keys=True).encode())}
            ).encode()
        else:
            damaged = damage_bytes(whole, moments)
        path.unlink()  # it may share its bytes with the other checkpoint's
        path.write_bytes(damaged)
        in_time()
        found, _ = find_checkpoint(tmp_path)
        taken.append(found.number)
        assert rows_of(found) == expected[found.number][-len(rows_of(found)) :]
        assert set(found.state()) == {"weight", "step"}
        path.write_bytes(whole)
    assert find_checkpoint(tmp_path)[0].number == 2
    assert taken.count(1) > EACH // 2


EVALUATION = {"wall_s": 1.0, "env_steps": 10, "return_mean": -1.5, "ended_s": 1.5, "episodes": 2}
SUMMARY = {"status": "solved", "wall_s": 9.5, "env_steps": 10, "restarts": {"sampler-0": 0}, "sample_hz": 10.0}
REPORTED = {"eval.jsonl": EVALUATION, "metrics.jsonl": {**EVALUATION, "sample_hz": 5.0}, "summary.json": SUMMARY}


@pytest.mark.parametrize("name", REPORTED)
def test_corrupted_lines_in_a_report(run_dir: Path, reads: Reads, tmp_path: Path, name: str) -> None:
    path, moments, hostile = run_dir / name, random.Random(5), damaged_documents(REPORTED[name], random.Random(6))
    for number in range(EACH // 3):
        damaged = next(hostile)
        whole = json_line(REPORTED[name])
        path.write_bytes(damaged if name.endswith(".json") else whole + damaged.replace(b"\n", b"") + b"\n" + whole)
        if number % 3 == 0 and name.endswith(".jsonl"):
            path.write_bytes(damage_bytes(whole * 3, moments))
        reads("report", str(run_dir), "--no-plots", "--json", "--out", str(tmp_path / "report"))


@pytest.mark.parametrize("name", [CONFIG_FILE, POLICY_FILE, LIVE_WEIGHTS, "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "endless device", "folder", "gone", "huge"])
def test_what_is_no_file(run_dir: Path, reads: Reads, tmp_path: Path, name: str, kind: str) -> None:
    path = run_dir / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    reads("eval", str(run_dir), "--episodes", "1", "--json")
    reads("train", ENV, "--config", str(run_dir / CONFIG_FILE))
    reads("report", str(run_dir), "--no-plots", "--json", "--out", str(tmp_path / "report"))
    follower = SsdFollower(run_dir)
    assert not Refresher(follower, NumpyPolicy(POLICY, 1)).refresh()
    if kind != "huge":  # a reader of lines goes through whatever there is, a piece at a time
        assert LineTail(run_dir / "metrics.jsonl").read_new() == []
