"""Every bench, with windows of a blink: the contract's keys, figures that can be true, and nothing left behind.

No timing is asserted: what a busy machine does in 50 ms says nothing."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from spreeze.bench import render, run_bench
from spreeze.bench.run import steady_lines
from spreeze.errors import ConfigError


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else None
    yield
    assert psutil.Process().children(recursive=True) == []
    assert list(tmp_path.iterdir()) == []
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) <= descriptors


def check(document: dict[str, Any], what: str, figures: set[str], settings: set[str]) -> list[dict[str, Any]]:
    json.dumps(document, allow_nan=False)  # raises for what JSON has no word for
    assert list(document) == ["what", "machine", "settings", "rows"]
    assert document["what"] == what
    assert document["machine"]["cores"] >= 1
    for row in document["rows"]:
        assert figures | settings <= set(row)
        assert row["windows"] >= 5
        for name in figures:
            lowest, highest = row["spread"][name]
            assert lowest <= row[name] <= highest
            assert math.isfinite(row[name])
    assert document["what"] in render(document)
    return document["rows"]


SAMPLING_SETTINGS = {"env", "env_backend", "samplers", "envs_per_sampler"}


def test_sampling() -> None:
    words = ["Pendulum-v1", "--samplers", "2", "--envs-per-sampler", "3", "--seconds", "0.05"]
    document = run_bench("sampling", [*words, "--env-backend", "gymnasium"])
    (row,) = check(document, "sampling", {"raw_hz", "sample_hz", "share"}, SAMPLING_SETTINGS)
    assert (row["samplers"], row["envs_per_sampler"], row["env_backend"]) == (2, 3, "gymnasium")
    assert "raw_gymnasium_hz" not in row


def test_sampling_with_envpool_also_beside_gymnasium() -> None:
    pytest.importorskip("envpool")
    words = ["Pendulum-v1", "--samplers", "1", "--envs-per-sampler", "4", "--seconds", "0.05"]
    document = run_bench("sampling", [*words, "--env-backend", "envpool"])
    figures = {"raw_hz", "sample_hz", "share", "raw_gymnasium_hz", "share_of_gymnasium"}
    check(document, "sampling", figures, SAMPLING_SETTINGS)


def test_a_sampler_that_cannot_start_is_named_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no_such_module"):
        run_bench("sampling", ["no_such_module:make", "--seconds", "0.05"])


@pytest.mark.parametrize("writers", [1, 2])
def test_transfer(writers: int) -> None:
    document = run_bench("transfer", ["--seconds", "0.05", "--block", "5", "--writers", str(writers)])
    figures = {"rows_hz", "age_ms_p50", "age_ms_p95", "reader_cpu_share"}
    flat_out, paced = check(document, "transfer", figures, {"transport", "writers"})
    assert (flat_out["offered_hz"], paced["offered_hz"]) == ("flat-out", 20000.0)
    assert flat_out["share"] > 0


def test_transfer_by_every_way_and_size() -> None:
    ways = ["--transport", "ring,pool,queue,pipe", "--row-bytes", "40,200", "--hz", "flat-out"]
    document = run_bench("transfer", ["--seconds", "0.03", *ways])
    figures = {"rows_hz", "age_ms_p50", "age_ms_p95", "reader_cpu_share", "writers_cpu_share", "share"}
    rows = check(document, "transfer", figures, {"transport", "writers", "row_bytes", "block"})
    sizes = [(row["transport"], row["row_bytes"]) for row in rows]
    assert sizes == [(way, size) for way in ("ring", "pool", "queue", "pipe") for size in (40, 200)]


def test_transfer_says_why_mpi_was_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (row,) = run_bench("transfer", ["--transport", "mpi", "--hz", "flat-out"])["rows"]
    assert row["why"] == "mpi4py is not installed: pip install mpi4py mpich"
    assert (row["windows"], row["transport"]) == (0, "mpi")


def test_weights() -> None:
    document = run_bench("weights", ["--publications", "3", "--hidden", "8,8"])
    figures = {"publish_ms", "follow_ms_p50", "follow_ms_p95", "together_ms_p50", "bare_ms", "share"}
    assert [row["transport"] for row in check(document, "weights", figures, {"transport"})] == ["ssd", "memory"]


def test_learner() -> None:
    words = ["--seconds", "0.02", "--batch-size", "8,16", "--replay-size", "100", "--hidden", "8,8"]
    document = run_bench("learner", [*words, "--compile", "on,off", "--device", "cpu", "--precision", "float32"])
    figures = {"update_hz", "update_frames_hz", "flops_share"}
    rows = check(document, "learner", figures, {"batch_size", "mode"})
    modes = [(row["mode"], row["batch_size"]) for row in rows]
    assert modes == [("fused", 8), ("fused", 16), ("reference", 8), ("reference", 16)]


@pytest.mark.parametrize(("algo", "numbers"), [("sac", 2 * 3 + 1 + 3), ("td3", (2 * 3 + 3 + 3) / 2), ("ddpg", 3 * 3)])
def test_learner_in_two_places(algo: str, numbers: float) -> None:
    words = ["--algo", algo, "--seconds", "0.02", "--batch-size", "16", "--replay-size", "100", "--hidden", "8,8"]
    words += ["--act", "3", "--actor-device", "cpu", "--critic-device", "cpu", "--split-mode", "exact,pipelined"]
    document = run_bench("learner", words)
    figures = {"update_hz", "update_frames_hz", "flops_share", "one_device_hz", "actor_ms", "critics_ms", "overlap"}
    settings = {"batch_size", "mode", "actor_device", "critic_device", "split_mode"}
    rows = check(document, "learner", figures | {"bytes_per_update"}, settings)
    assert [row["split_mode"] for row in rows] == ["exact", "pipelined"]
    for row in rows:
        assert row["spread"]["bytes_per_update"] == [numbers * 4 * 16] * 2  # of what crosses, 4 bytes a number and row
        assert row["bytes_per_update"] <= (2 * 3 + 1 + 3) * 4 * 16
        assert 0 <= row["overlap"] <= 1
        assert min(row["actor_ms"], row["critics_ms"]) > 0


def test_a_run_too_short_to_be_steady_is_refused(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    lines = [{"wall_s": float(second), "samplers": 2, "batch_size": 64} for second in range(12)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = run_dir / "summary.json"
    try:
        summary.write_text(json.dumps({"first_update_s": 2.5}))
        # the warm-up ends at 5.5; windows that begin later end at 7, ..., 10; the run was being stopped in the last one
        with pytest.raises(ConfigError, match="4 steady seconds"):
            steady_lines(run_dir)
        summary.write_text(json.dumps({"first_update_s": 1.5}))
        assert [line["wall_s"] for line in steady_lines(run_dir)] == [6.0, 7.0, 8.0, 9.0, 10.0]
        adapted = [{**line, "samplers": 1} if line["wall_s"] > 4 else line for line in lines]
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in adapted))
        assert [line["wall_s"] for line in steady_lines(run_dir)] == [6.0, 7.0, 8.0, 9.0, 10.0]
        adapted = [{**line, "batch_size": 32} if line["wall_s"] > 5 else line for line in lines]
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in adapted))
        with pytest.raises(ConfigError, match="4 steady seconds"):  # in the sixth it changed
            steady_lines(run_dir)
        summary.write_text(json.dumps({"first_update_s": None}))
        with pytest.raises(ConfigError, match="0 steady seconds"):
            steady_lines(run_dir)
    finally:
        for path in (summary, run_dir / "metrics.jsonl"):
            path.unlink()
        run_dir.rmdir()


@pytest.mark.slow
def test_run() -> None:
    words = ["Pendulum-v1", "--seconds", "15", "--learning-starts", "200", "--batch-size", "16", "--samplers", "1"]
    document = run_bench("run", [*words, "--alone", "--env-backend", "gymnasium"])
    figures = {"sample_hz", "update_hz", "update_frames_hz", "replay_ratio", "transfer_age_ms_p95", "cpu_pct"}
    check(document, "run", figures | {"share_of_raw", "share_of_learner"}, {"env", "samplers", "batch_size"})
