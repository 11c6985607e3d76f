"""The picture of a policy while it trains: it comes, follows, and whatever befalls it does nothing to the run."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import HERE, SRC, Run, wait_for

from spreeze.requests import PICTURE_OFF, PICTURE_ON, STOP, ask
from spreeze.watching.live import FRAME, drawn_by, read_state

pytest.importorskip("torch")
pytest.importorskip("pygame")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    started: list[Run] = []

    def make(env: str = "Pendulum-v1", **settings: Any) -> Run:
        started.append(Run(tmp_path / f"run-{len(started)}", env, **settings))
        return started[-1]

    yield make
    for run in started:
        run.end()


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """`spreeze watch` as a program of its own, without a screen."""
    started: list[subprocess.Popen] = []

    def make(run: Run, *flags: str) -> subprocess.Popen:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), str(HERE)])}
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            env.pop(name, None)
        command = [sys.executable, "-m", "spreeze", "watch", str(run.run_dir), *flags]
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


class Onlooker:
    """Opens frame.jpg again and again meanwhile, as a page does."""

    def __init__(self, run: Run) -> None:
        self._path = run.run_dir / FRAME
        self._over = threading.Event()
        self.sizes: set[tuple[int, int]] = set()
        self.faults: list[str] = []
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.002):
            if not self._path.exists():
                continue
            try:
                image = Image.open(io.BytesIO(self._path.read_bytes()))
                image.load()
                assert image.format == "JPEG"
                self.sizes.add(image.size)
            except (OSError, AssertionError, SyntaxError) as error:
                self.faults.append(repr(error))


def drawn(run: Run, pid: int, **least: int) -> dict[str, Any] | None:
    """The state, where that process draws, with at least these numbers."""
    state = drawn_by(run.run_dir)
    fits = state is not None and state["pid"] == pid and all((state[name] or 0) >= n for name, n in least.items())
    return state if fits else None


def test_a_picture_comes_follows_and_goes_and_the_run_does_not_care(
    start: Callable[..., Run], watch: Callable[..., subprocess.Popen]
) -> None:
    run = start(visualize="web")
    with Onlooker(run) as onlooker:
        wait_for("the visualizer", lambda: "visualizer" in run.pids())
        first = run.pids()["visualizer"]
        state = wait_for("pictures of trained weights", lambda: drawn(run, first, frame=3, weights_version=1))
        assert (state["started_by"], state["policy"], state["env"]) == ("run", "live", "Pendulum-v1")
        wait_for("newer weights", lambda: drawn(run, first, weights_version=state["weights_version"] + 1))
        os.kill(first, signal.SIGKILL)
        second = wait_for("another visualizer", lambda: (pid := run.pids()["visualizer"]) != first and pid)
        wait_for("its pictures", lambda: drawn(run, second, frame=2))
        ask(run.run_dir, PICTURE_OFF, "a test")
        wait_for("it to leave", lambda: run.events("leave", "visualizer"))
        assert (read_state(run.run_dir) or {})["state"] == "ended"
        watching = watch(run)
        wait_for("pictures from another terminal", lambda: drawn(run, watching.pid, frame=2, weights_version=1))
        ask(run.run_dir, PICTURE_ON, "a test")
        third = wait_for("a visualizer again", lambda: (pid := run.pids()["visualizer"]) != second and pid)
        os.kill(third, signal.SIGSTOP)  # and it stays so until the end
        ask(run.run_dir, STOP, "a test")
        assert run.wait_end() == 0, run.stderr.read_text()
        out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err
    assert out == ""
    assert "the run has ended: stopped, a stop was asked for by a test" in err
    assert "spreeze dashboard" in err
    assert onlooker.faults == []
    assert onlooker.sizes == {(500, 500)}
    assert [(event["role"]) for event in run.events("restart")] == ["visualizer"]
    summary = run.summary()
    assert summary["restarts"] == {"learner": 0, "sampler-0": 0, "evaluator": 0, "visualizer": 1}
    assert summary["lost_rows"] == 0
    run.assert_nobody_left()


def test_an_environment_that_cannot_be_drawn_is_told_once(start: Callable[..., Run]) -> None:
    run = start("drawn_envs:NoScreen", visualize="web", steps=3_000)
    assert run.wait_end() == 0, run.stderr.read_text()
    reasons = [event["reason"] for event in run.events("warning", "visualizer")]
    assert len(reasons) == 1
    assert reasons[0].startswith("no picture: this environment cannot be drawn here: RuntimeError: no display")
    assert run.summary()["restarts"]["visualizer"] == 0
    assert (read_state(run.run_dir) or {})["state"] == "failed"


def test_a_renderer_that_ends_its_process_is_given_up(start: Callable[..., Run]) -> None:
    run = start("drawn_envs:DiesDrawing", visualize="web", restarts_per_minute=1)
    wait_for("the end of patience", lambda: run.events("warning", "visualizer"))
    assert [event["reason"] for event in run.events("warning", "visualizer")] == [
        "it ended with exit code 7, again and again: the run goes on without it"
    ]
    run.wait_learning()
    assert run.lines("metrics.jsonl")[-1]["roles"]["visualizer"] == "dead"
    ask(run.run_dir, STOP)
    assert run.wait_end() == 0
    assert run.summary()["restarts"] == {"learner": 0, "sampler-0": 0, "evaluator": 0, "visualizer": 1}
    run.assert_nobody_left()


@pytest.mark.slow
def test_clips_are_written_while_it_trains(start: Callable[..., Run]) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    run = start("drawn_envs:Plain", visualize="video")
    path = wait_for("a clip", lambda: next((run.run_dir / "video").glob("*-return-*.mp4"), None))
    ask(run.run_dir, STOP)
    assert run.wait_end() == 0
    with contextlib.closing(imageio.get_reader(path)) as reader:
        assert reader.get_meta_data()["fps"] == 30
        means = [frame.mean() for frame in reader]
    assert len(means) == 101  # every state of an episode
    assert means[100] - means[0] == pytest.approx(100, abs=8)
    assert [left.name for left in (run.run_dir / "video").iterdir() if left.name.startswith(".")] == []
