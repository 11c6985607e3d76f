"""What a learner does about kernels before it touches a GPU."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from spreeze.config import RunConfig
from spreeze.roles import learner
from spreeze.spec import Layout
from spreeze.tuning.hardware import Gpu

CONFIG = RunConfig(device="cuda:0", actor_device=None, compile="on", precision="bfloat16")


@pytest.fixture(autouse=True)
def a_hopper_whose_triton_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "find_gpus", lambda: (Gpu(0, "a GPU", 80 << 30, 70 << 30, "550", (9, 0)),))
    monkeypatch.setattr(learner, "why_not_for", lambda hidden, precision: None)
    monkeypatch.setattr(learner.torch, "set_num_threads", lambda count: None)
    monkeypatch.setitem(sys.modules, "spreeze.algos.kernels.ahead", None)  # importing it fails


def test_parts_of_triton_that_are_gone_do_not_end_a_run() -> None:
    words = learner.compile_kernels(Layout(3, 1), CONFIG, ())
    assert words is not None
    assert words.startswith("Triton kernels are compiled when they are first launched: ModuleNotFoundError")


@pytest.mark.parametrize("change", [{"device": "cpu"}, {"compile": "off"}, {"actor_device": "cuda:0"}])
def test_nothing_is_compiled_for_updates_that_are_no_kernels(change: dict[str, str]) -> None:
    assert learner.compile_kernels(Layout(3, 1), CONFIG.replace(**change), ()) is None
