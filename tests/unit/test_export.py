"""An exported policy acts as load_policy does, in its own runtime, and says what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spreeze.export as export
from spreeze import cli
from spreeze.errors import ConfigError, SpreezeError, WeightsError
from spreeze.export import FORMATS, INPUT, OUTPUT, export_run
from spreeze.spec import EnvSpec
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.policy_file import load_policy, save_policy

BOUNDS = {
    "usual": ((-2.0, 0.0), (2.0, 10.0)),
    "wide": ((-1000.0, 5.0), (3000.0, 5.5)),
    "one axis without": ((-np.inf, 0.1), (np.inf, 0.7)),
}
OBS = np.random.default_rng(2).normal(0, 3, size=(50, 3)).astype(np.float32)


def save_run(
    folder: Path, kind: str = "tanh_gaussian", bounds: str = "usual", hidden: tuple[int, ...] = (16, 8)
) -> Path:
    spec = PolicySpec(kind, 3, 2, hidden)
    flat = np.random.default_rng(0).normal(0, 0.5, spec.weight_count).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_policy(folder, spec, EnvSpec("Test-v0", 3, 2, *BOUNDS[bounds], 200), flat, {"return_mean": -150.0})
    return folder


def act_with(format: str, path: Path, obs: np.ndarray) -> np.ndarray:
    """As a program that knows nothing of Spreeze does."""
    if format == "onnx":
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(str(path)).run(None, {INPUT: obs})[0]
    import torch

    return torch.jit.load(str(path))(torch.from_numpy(obs)).numpy()


def metadata_of(format: str, path: Path) -> dict[str, Any]:
    if format == "onnx":
        import onnx

        return {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    import torch

    found = {"spreeze.json": ""}
    torch.jit.load(str(path), _extra_files=found)
    return json.loads(found["spreeze.json"])


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    pytest.importorskip({"onnx": "onnx", "torchscript": "torch"}[request.param])
    return request.param


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("kind", "hidden"), [("tanh", (16,)), ("tanh_gaussian", (16, 8)), ("tanh_gaussian", ())])
def test_the_exported_policy_acts_as_the_loaded_one(
    tmp_path: Path, format: str, bounds: str, kind: str, hidden: tuple[int, ...]
) -> None:
    run = save_run(tmp_path / "run", kind, bounds, hidden)
    out = tmp_path / f"robot{FORMATS[format]}"
    export_run(str(run), format, str(out))
    policy = load_policy(run)
    expected = policy(OBS)
    got = act_with(format, out, OBS)
    assert got.dtype == np.float32
    low, high = policy.bounds
    assert (np.abs(got - expected) <= 1e-5 * np.maximum((high - low) / 2, 1.0)).all()
    np.testing.assert_allclose(act_with(format, out, OBS[:1]), expected[:1], rtol=1e-5, atol=1e-4)
    far = act_with(format, out, 1e6 * OBS)
    assert (far >= low.astype(np.float32)).all()
    assert (far <= high.astype(np.float32)).all()


def test_the_file_says_what_it_is(tmp_path: Path, format: str) -> None:
    run = save_run(tmp_path / "run")
    document = export_run(str(run), format, str(tmp_path / "a" / "robot"))
    assert document["input"] == {"name": "observation", "dtype": "float32", "shape": ["batch", 3]}
    assert document["output"] == {"name": "action", "dtype": "float32", "shape": ["batch", 2]}
    assert document["bytes"] == (tmp_path / "a" / "robot").stat().st_size
    about = metadata_of(format, tmp_path / "a" / "robot")
    told = {
        name: json.loads(text) if format == "onnx" and name != "env" else text
        for name, text in about.items()
        if name != "spreeze"
    }
    assert told == {
        "env": "Test-v0",
        "obs_size": 3,
        "action_size": 2,
        "action_low": [-2.0, 0.0],
        "action_high": [2.0, 10.0],
        "policy": {"return_mean": -150.0},
    }


def test_inputs_of_onnx_have_names_and_a_free_batch(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    export_run(str(save_run(tmp_path / "run")), "onnx", str(tmp_path / "robot.onnx"))
    graph = onnx.load(tmp_path / "robot.onnx").graph
    for value, name, size in ((graph.input[0], INPUT, 3), (graph.output[0], OUTPUT, 2)):
        batch, width = value.type.tensor_type.shape.dim
        assert (value.name, batch.dim_param, width.dim_value) == (name, "batch", size)


def test_a_file_that_acts_otherwise_never_appears(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, out = save_run(tmp_path / "run"), tmp_path / "robot"
    out.write_text("an earlier one")
    right = export.scale_of
    writer = sys.modules.get(f"spreeze.export.{format}") or __import__(f"spreeze.export.{format}", fromlist=["write"])
    monkeypatch.setattr(
        writer, "scale_of", lambda policy: {**right(policy), "half_range": right(policy)["half_range"] * 1.001}
    )
    with pytest.raises(WeightsError, match="differ from the policy's"):
        export_run(str(run), format, str(out))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["robot"]
    assert out.read_text() == "an earlier one"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "runs" / "a")
    assert cli.main(["export", "runs/a"]) == 0
    assert capsys.readouterr().out == "a.onnx\n"
    assert cli.main(["export", "runs/a", "--format", "torchscript", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == "a.pt"
    assert document["largest_difference"] < 1e-5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "a.pt", "runs"]


def test_without_onnx_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'spreeze\[export\]'"):
        export_run(str(save_run(tmp_path / "run")), "onnx", None)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpreezeError, match="could not be written"):
        export_run(str(save_run(tmp_path / "run")), "torchscript", str(tmp_path / "file" / "robot.pt"))


def test_onnx_needs_neither_torch_nor_a_simulator(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    save_run(tmp_path / "run")
    program = (
        "import sys; from spreeze import cli; code = cli.main(['export', 'run']); "
        "sys.exit(code or any(name in sys.modules for name in ('torch', 'gymnasium')))"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, check=True)
