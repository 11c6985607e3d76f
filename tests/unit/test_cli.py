"""The command line: what it hands on, what it refuses and in which words, and that stdout carries results alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spreeze.bench
import spreeze.runtime
from spreeze import cli, doctor, play
from spreeze.config import SECTIONS, RunConfig
from spreeze.errors import RunFailed

CONTRACT_FLAGS = set(
    """
--algo --seed --run-dir --steps --seconds --until-return --samplers --envs-per-sampler --batch-size --replay-ratio
--device --actor-device --critic-device --env-backend --experience --weights --precision --compile --eval-every
--eval-episodes --visualize --checkpoint-every --deterministic --hidden --gamma --tau --lr --n-step --replay-size
--learning-starts --config
""".split()  # noqa: SIM905  a list of 33 lines tells no more
)


class FakeSupervisor:
    """Remembers what `train` was asked for."""

    def __init__(self, outcome: int | BaseException = 0) -> None:
        self.outcome = outcome
        self.calls: list[tuple[Any, RunConfig, bool]] = []

    def train(self, env: Any, config: RunConfig, quiet: bool, started_ns: int) -> SimpleNamespace:
        self.calls.append((env, config, quiet))
        assert 0 < started_ns < time.monotonic_ns()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return SimpleNamespace(exit_code=self.outcome)


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> FakeSupervisor:
    fake = FakeSupervisor()
    monkeypatch.setattr(spreeze.runtime, "supervisor", fake, raising=False)
    return fake


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, "one sentence"
    return printed.err


def test_train_hands_on_what_was_asked(supervisor: FakeSupervisor) -> None:
    words = "Pendulum-v1 --samplers 3 --batch-size auto --hidden 64,32 --lr 1e-3 --steps 1e5 --quiet"
    assert cli.main(["train", *words.split()]) == 0
    asked = RunConfig.of({"samplers": 3, "hidden": (64, 32), "lr": 1e-3, "steps": 100_000})
    assert supervisor.calls == [("Pendulum-v1", asked, True)]


def test_every_flag_of_the_contract_is_known() -> None:
    assert set(cli.make_parser("train")._option_string_actions) >= CONTRACT_FLAGS


@pytest.mark.parametrize("value", ["-200", "-2e2", "-200.0"])
@pytest.mark.parametrize("joined", [True, False])
def test_negative_values(supervisor: FakeSupervisor, value: str, joined: bool) -> None:
    words = [f"--until-return={value}"] if joined else ["--until-return", value]
    assert cli.main(["train", *words, "Pendulum-v1"]) == 0
    assert supervisor.calls[0][1].until_return == -200.0


@given(st.floats(max_value=-1e-9, allow_nan=False, allow_infinity=False))
def test_any_negative_number_is_a_value_and_not_a_flag(value: float) -> None:
    arguments = cli.parse("train", ["X", "--until-return", repr(value)])
    assert float(arguments.until_return) == value


def test_flags_win_over_the_file(supervisor: FakeSupervisor, tmp_path: Path) -> None:
    earlier = {**RunConfig(gamma=0.9, tau=0.1, samplers=4).as_json(), "env": "X", "auto": {"samplers": {"value": 4}}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(earlier), encoding="utf-8")
    assert cli.main(["train", "X", "--config", str(path), "--gamma", "0.5"]) == 0
    assert supervisor.calls[0][1] == RunConfig(gamma=0.5, tau=0.1)  # and 'auto' is chosen afresh


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tran X", "unknown command 'tran'. Did you mean 'train'?"),
        ("--jsn", "unknown flag '--jsn'"),
        ("train X --sampler 3", "unknown flag --sampler. Did you mean '--samplers'?"),
        ("train --sampler 3", "unknown flag --sampler. Did you mean '--samplers'?"),
        ("train X --run", "unknown flag --run."),
        ("train X -s 3", "unknown flag -s"),
        ("train X Y", "unrecognized arguments: Y"),
        ("train", "required: ENV"),
        ("train X --samplers", "--samplers: expected one argument"),
        ("train X --samplers three", "--samplers: 'three' is not a whole number"),
        ("train X --samplers 0", "--samplers: '0' is not"),
        ("train X --gamma 1.5", "--gamma: '1.5' is not a number of at least 0 and at most 1"),
        ("train X --algo scac", "Did you mean 'sac'?"),
        ("train X --device gpu", "is not a device such as cpu or cuda:0"),
        ("train X --hidden 64,x", "such as 256,256"),
        ("train X --experience pips", "Did you mean 'pipe'?"),
        ("train X --config /no/such/file", "--config /no/such/file: No such file"),
        ("bench", "required: WHAT"),
        ("bench samplin", "unknown bench 'samplin'. Did you mean 'sampling'?"),
        ("eval", "required: RUN"),
        ("export /no/such/run --format torchscript", "/no/such/run: no policy here"),
        ("export x --format onx", "Did you mean 'onnx'?"),
        ("report", "required: RUN"),
        ("report x", "x: no such run folder"),
        ("eval /no/such/run", "/no/such/run: no such run folder"),
        ("eval x --episodes 0", "--episodes: '0' is not a whole number of at least 1"),
        ("envs -json", "Did you mean '--json'?"),
    ],
)
def test_wrong_usage(supervisor: FakeSupervisor, capsys: pytest.CaptureFixture[str], words: str, expected: str) -> None:
    assert expected in refused(capsys, *words.split())
    assert not supervisor.calls


@pytest.mark.parametrize(
    ("outcome", "code"), [(0, 0), (1, 1), (143, 143), (RunFailed("learner died"), 1), (KeyboardInterrupt(), 130)]
)
def test_exit_codes(
    supervisor: FakeSupervisor, capsys: pytest.CaptureFixture[str], outcome: int | BaseException, code: int
) -> None:
    supervisor.outcome = outcome
    assert cli.main(["train", "X"]) == code
    assert capsys.readouterr().out == ""


def test_bench_passes_on_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def run_bench(what: str, options: list[str]) -> dict[str, Any]:
        os.write(1, b"pybullet build time: today\n")  # as C code prints
        print("and Python code too")
        asked.append((what, options))
        return {"what": what, "rows": [{"num_envs": 8, "sample_hz": 12345.6}, {"num_envs": 16, "share": 0.9}]}

    monkeypatch.setattr(spreeze.bench, "run_bench", run_bench)
    assert cli.main(["bench", "run", "HalfCheetah-v5", "--json", "--windows", "5"]) == 0
    assert asked == [("run", ["HalfCheetah-v5", "--windows", "5"])]
    assert json.loads(capfd.readouterr().out)["rows"][1]["share"] == 0.9


def test_eval_prints_one_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(play, "evaluate_run", lambda run, *rest: {"run": run, "of": rest})
    assert cli.main(["eval", "latest", "--episodes", "3", "--seed", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"run": "latest", "of": [3, 0, False]}


def test_doctor_prints_one_document_and_a_page_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"]["cores"] >= 1
    assert found["will_use"]["samplers"]["reason"]
    assert found["plan"]["places"][0]["needed_bytes"] > 0
    assert all("install" in part for part in found["missing"])
    assert cli.main(["doctor"]) == 0
    page = capsys.readouterr().out
    assert found["machine"]["cpu_model"] in page
    assert "will be used" in page
    assert found["plan"]["line"].split(";")[0] in page  # what is free behind it changes meanwhile
    assert found["plan"]["adapts"]["batch_size"] in page
    if found["mujoco_drawing"] is not None:
        assert found["mujoco_drawing"]["by"] in page


def test_doctor_names_the_driver_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library is there, and nothing can be drawn with it."""
    monkeypatch.setattr(doctor, "try_mujoco", lambda: (False, "egl: no display"))
    found = doctor.doctor()
    if found["mujoco_drawing"] is None or not found["headless_rendering"]:
        pytest.skip("without MuJoCo or EGL the missing part is another one")
    assert found["mujoco_drawing"] == {"works": False, "by": "egl: no display"}
    assert "libgl1-mesa-dri" in {part["name"]: part["install"] for part in found["missing"]}["OpenGL driver"]
    assert "does not work: egl: no display" in doctor.render(found)


def test_help_names_commands_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    overview = capsys.readouterr().out
    assert all(name in overview for name in cli.COMMANDS)
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in CONTRACT_FLAGS)
    assert "sac|td3|ddpg" in shown
    assert "noise (default: 0)" in " ".join(shown.split())
    places = [shown.index(f"\n{title}:\n") for title in SECTIONS.values()]
    assert places == sorted(places)


def test_a_reader_that_leaves_is_no_error() -> None:
    source = Path(cli.__file__).parents[1]
    program = [sys.executable, "-m", "spreeze", "train", "--help"]
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(source)}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
