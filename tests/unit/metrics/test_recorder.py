"""The run folder's files: what they hold, on a full disk too, and that TensorBoard can read its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from spreeze.metrics.recorder import Recorder
from spreeze.metrics.tensorboard_file import Curves

LargestFile = Callable[[int], AbstractContextManager[None]]
RECORD = {
    "wall_s": 1.0, "env_steps": 500, "sample_hz": 500.5, "replay_ratio": None,
    "restarts": {"sampler-0": 2, "learner": 1}, "roles": {"sampler-0": "ok"},
}  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(tmp_path: Path, clock: Clock) -> Recorder:
    return Recorder(tmp_path, started_s=100.0, clock=clock, curves_after_s=0.0)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_events_carry_time_and_reason_and_stand_in_the_log(recorder: Recorder, clock: Clock, tmp_path: Path) -> None:
    clock.now_s = 112.3456
    event = recorder.event("restart", "exit code -9", role="sampler-3", restarts=2)
    assert event == {"wall_s": 12.346, "kind": "restart", "reason": "exit code -9", "role": "sampler-3", "restarts": 2}
    assert recorder.last_event == event
    recorder.log("two\nlines")
    recorder.close()
    assert lines_of(tmp_path / "events.jsonl") == [event]
    log = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    assert log == ["    12.346  restart sampler-3: exit code -9", "    12.346  two", "    12.346  lines"]


def test_summary_is_replaced_whole_and_without_nan(recorder: Recorder, tmp_path: Path) -> None:
    assert recorder.write_summary({"status": "stopped", "best_return": float("nan")}) is None
    assert recorder.write_summary({"status": "solved", "best_return": float("nan")}) is None
    recorder.close()
    assert json.loads((tmp_path / "summary.json").read_text()) == {"status": "solved", "best_return": None}
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_full_disk_costs_one_warning_and_no_line(
    recorder: Recorder, tmp_path: Path, largest_file: LargestFile
) -> None:
    recorder.metrics(RECORD)
    size_bytes = (tmp_path / "metrics.jsonl").stat().st_size
    with largest_file(size_bytes + 10):
        for wall_s in (2.0, 3.0, 4.0):
            recorder.metrics({**RECORD, "wall_s": wall_s})
        assert recorder.last_event is not None
        assert recorder.last_event["kind"] == "warning"
        assert recorder.last_event["bytes_needed"] == size_bytes
        assert recorder.write_summary({"status": "x" * size_bytes * 2}) is not None
    recorder.metrics({**RECORD, "wall_s": 5.0})
    recorder.close()
    assert [line["wall_s"] for line in lines_of(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4, 5]
    kinds = [line["kind"] for line in lines_of(tmp_path / "events.jsonl")]
    assert kinds == ["warning", "warning", "recovery"]  # the disk, the summary, the disk again
    assert not (tmp_path / "summary.json").exists()


def test_a_run_folder_that_vanished_is_survived(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "moved", started_s=0.0)
    recorder.metrics(RECORD)
    assert recorder.write_summary({"status": "finished"}) is not None
    recorder.close()


def read_curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_the_curves_back(recorder: Recorder, tmp_path: Path) -> None:
    recorder.metrics(RECORD)
    recorder.metrics({**RECORD, "env_steps": 1000, "replay_ratio": 2.5})
    recorder.evaluation({"wall_s": 1.5, "env_steps": 800, "return_mean": -145.5, "return_std": 3.0, "episodes": 10})
    recorder.close()
    curves = read_curves(tmp_path / "tensorboard")
    assert curves["sample_hz"] == [(500, 500.5), (1000, 500.5)]
    assert curves["replay_ratio"] == [(1000, 2.5)]
    assert curves["restarts"] == [(500, 3.0), (1000, 3.0)]
    assert curves["eval/return_mean"] == [(800, -145.5)]
    assert "eval/episodes" not in curves


def test_curves_that_a_full_disk_refused_are_written_later(tmp_path: Path, largest_file: LargestFile) -> None:
    curves = Curves(tmp_path, start_after_s=60.0)
    for step in range(3):
        curves.add({"sample_hz": 100.0 + step}, step)
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    from spreeze.metrics.tensorboard_file import _Encoder

    encode = _Encoder(event_pb2, summary_pb2, RecordWriter)
    with largest_file(20):
        waiting = curves._write(encode.version(), encode)
        assert waiting
        assert curves.trouble is not None
    curves.add({"sample_hz": 103.0}, 3)
    assert curves._write(waiting, encode) == b""
    assert curves.trouble is None
    curves.close()
    assert read_curves(tmp_path)["sample_hz"] == [(step, 100.0 + step) for step in range(4)]


def run_python(program: str, env: dict[str, str], *arguments: str) -> str:
    return subprocess.check_output([sys.executable, "-c", program, *arguments], env=env, text=True).strip()


def test_neither_torch_nor_rich_nor_tensorboard_is_imported_by_the_supervisor(child_env: dict[str, str]) -> None:
    program = (
        "import sys\nfrom spreeze.metrics import display, figures, recorder, usage\n"
        "print(sorted({'torch', 'rich', 'tensorboard', 'psutil', 'pynvml'} & set(sys.modules)))"
    )
    assert run_python(program, child_env) == "[]"


def test_writing_curves_imports_neither_torch_nor_tensorflow(tmp_path: Path, child_env: dict[str, str]) -> None:
    program = (
        "import sys; from pathlib import Path; from spreeze.metrics.tensorboard_file import Curves\n"
        "curves = Curves(Path(sys.argv[1]), 0.0); curves.add({'a': 1.0}, 1); curves.close()\n"
        "print(curves.trouble, sorted({'torch', 'tensorflow', 'grpc'} & set(sys.modules)))"
    )
    assert run_python(program, child_env, str(tmp_path)) == "None []"
