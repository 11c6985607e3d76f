"""`spreeze watch` as it reads a run's folder, which may be anybody's."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from spreeze.errors import ConfigError, SpreezeError, WeightsError
from spreeze.runtime.run_lock import RunLock
from spreeze.spec import EnvSpec
from spreeze.watching import watch
from spreeze.watching.outlets import LiveOutlet
from spreeze.watching.watch import Watched, watch_run
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.policy_file import LIVE_POLICY_SPEC, save_policy

pytest.importorskip("pygame")
PENDULUM = EnvSpec("Pendulum-v1", 3, 1, (-2.0,), (2.0,), 200)
FITTING = PolicySpec("tanh", 3, 1, ())


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"env": "Pendulum-v1", "weights": "ssd"}))
    (tmp_path / "weights").mkdir()
    return tmp_path


def describe_policy(run_dir: Path, policy: object) -> None:
    (run_dir / LIVE_POLICY_SPEC).write_text(json.dumps({"policy": policy, "env": {}}))


def watch_it(run_dir: Path) -> None:
    watch_run(str(run_dir), "web", False, print)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (None, "no 'policy'"),
        ([1], "no 'policy'"),
        ({"kind": "tanh"}, "not a policy description"),
        ({**FITTING.as_json(), "hidden": [10**9]}, "policy sizes must be"),
        ({**FITTING.as_json(), "obs_size": 17}, "takes 17 numbers and gives 1; Pendulum-v1 has 3 and 1"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(run_dir: Path, policy: object, message: str) -> None:
    describe_policy(run_dir, policy)
    with closing(RunLock(run_dir)), pytest.raises(SpreezeError, match=message):
        watch_it(run_dir)


def test_a_run_that_is_over_shows_its_best_policy_or_says_that_there_is_none(run_dir: Path) -> None:
    with pytest.raises(ConfigError, match="no policy here"):
        watch_it(run_dir)
    save_policy(run_dir, PolicySpec("tanh", 5, 1, ()), EnvSpec("X", 5, 1, (-1.0,), (1.0,), None), np.zeros(6), {})
    with pytest.raises(WeightsError, match="takes 5 numbers"):
        watch_it(run_dir)


def test_how_a_run_ended(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.0)
    with closing(RunLock(run_dir)):
        watched = Watched(run_dir)
        assert watched.was_live
        assert not watched.ended()
    assert watched.ended()
    assert watched.end() == "the run is over, and left no summary: it was killed"
    (run_dir / "summary.json").write_text('{"status": "solved", "reason": "it was easy"}')
    assert watched.end() == "the run has ended: solved, it was easy"
    late = Watched(run_dir)
    assert not late.was_live
    assert not late.ended(), "its best policy is played until somebody stops it"


def test_a_picture_is_not_written_through_a_link(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere, said = tmp_path_factory.mktemp("elsewhere"), []
    os.symlink(elsewhere, run_dir / "live")
    outlet = LiveOutlet(run_dir, "watch", said.append)
    assert not outlet.open()
    assert "is a link" in said[0]
    assert list(elsewhere.iterdir()) == []
