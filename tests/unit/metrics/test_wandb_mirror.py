"""The copy on Weights & Biases, with a package of that name that writes down what it is given, or fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spreeze.errors import ConfigError
from spreeze.metrics import wandb_mirror
from spreeze.metrics.lines import append_line
from spreeze.metrics.wandb_mirror import LOG, Mirror, check_installed

PACKAGE = """
import json, os, pathlib
given = pathlib.Path(__file__).with_name("given.jsonl")
def write(*what):
    with open(given, "a") as file:
        file.write(json.dumps(what) + "\\n")
class Run:
    def define_metric(self, *words, **more): write("define_metric", words, more)
    def log(self, figures): write("log", figures)
    def finish(self): write("finish", os.getpid())
def init(**settings):
    write("init", settings)
    return Run()
"""
RECORD = {
    "wall_s": 1.0,
    "env_steps": 10,
    "sample_hz": 5.5,
    "gpu_pct": None,
    "restarts": {"a": 1, "b": 2},
    "roles": {"a": "ok"},
}
EVALUATION = {"wall_s": 1.0, "env_steps": 10, "return_mean": -3.0, "episodes": 10}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"env": "Pendulum-v1", "lr": 0.001}')
    return folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "packages" / "wandb.py"
    path.parent.mkdir()
    path.write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(path.parent))
    return path


def given_to(package: Path) -> list[list]:
    return [json.loads(line) for line in package.with_name("given.jsonl").read_text().splitlines()]


def test_every_figure_is_copied_under_its_own_name(run_dir: Path, package: Path) -> None:
    check_installed()
    append_line(run_dir / "metrics.jsonl", RECORD)
    mirror = Mirror(run_dir, "my-project")
    assert mirror.trouble() is None
    append_line(run_dir / "metrics.jsonl", {**RECORD, "env_steps": 20})
    append_line(run_dir / "eval.jsonl", EVALUATION)
    assert mirror.close() is None
    (init, settings), define, *logged, (finish, _) = given_to(package)
    assert (init, define[0], finish) == ("init", "define_metric", "finish")
    assert settings["project"] == "my-project"
    assert settings["name"] == "a"
    assert settings["config"] == {"env": "Pendulum-v1", "lr": 0.001}
    assert sorted((figures for _, figures in logged), key=lambda figures: (len(figures), figures["env_steps"])) == [
        {"env_steps": 10, "eval/return_mean": -3.0},
        {"wall_s": 1.0, "env_steps": 10.0, "sample_hz": 5.5, "restarts": 3.0},
        {"wall_s": 1.0, "env_steps": 20.0, "sample_hz": 5.5, "restarts": 3.0},
    ]


def test_a_package_that_fails_is_told_once(run_dir: Path, package: Path) -> None:
    package.write_text("def init(**settings): raise OSError('no network\\x1b[2J')")
    mirror = Mirror(run_dir, "my-project")
    assert mirror._process is not None
    assert mirror._process.wait(60) == 1
    told = mirror.trouble()
    assert told is not None
    assert "OSError: no network [2J" in told
    assert str(run_dir / LOG) in told
    assert mirror.trouble() is None
    assert mirror.close() is None


def test_a_package_that_hangs_is_ended(run_dir: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package.write_text("import time\ndef init(**settings): time.sleep(600)")
    monkeypatch.setattr(wandb_mirror, "FINISH_WITHIN_S", 0.2)
    mirror = Mirror(run_dir, "my-project")
    assert "did not take everything within 0.2 s" in (mirror.close() or "")
    assert mirror._process is not None
    assert mirror._process.returncode == -9


def test_a_missing_package_is_said_before_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wandb").mkdir()  # what the package leaves where it ran; no package
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(ConfigError, match=r"pip install 'spreeze\[wandb\]'"):
        check_installed()
