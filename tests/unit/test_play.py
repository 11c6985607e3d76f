"""A trained policy outside its run: the same figures at every call, and a video that is whole or not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from spreeze import play
from spreeze.envs.registry import probe
from spreeze.envs.source import EnvSource
from spreeze.errors import ConfigError, SpreezeError
from spreeze.weights.numpy_policy import PolicySpec
from spreeze.weights.policy_file import save_policy

TASK = '''
import gymnasium
import numpy as np

class Walk(gymnasium.Env):
    """Five steps; the reward is the seed's own number plus the action."""
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-3, 3, (1,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count, self.own = 0, self.np_random.random()
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.step_count += 1
        return np.zeros(2, np.float32), self.own + float(action[0]), self.step_count == 5, False, {}

    def render(self):
        if %(broken)r:
            raise RuntimeError("no display")
        return np.full((34, 50, 3), 40 * self.step_count, np.uint8)
'''
BIAS = 0.5  # the policy's only weight that is not 0


def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool = False) -> Path:
    module = f"task_{'broken' if broken else 'whole'}"
    (tmp_path / f"{module}.py").write_text(TASK % {"broken": broken}, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    env_id, run_dir = f"{module}:Walk", tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "config.json").write_text(json.dumps({"env": env_id}), encoding="utf-8")
    policy = PolicySpec("tanh", obs_size=2, action_size=1, hidden=())
    flat = np.array([0.0, 0.0, BIAS], np.float32)
    save_policy(run_dir, policy, probe(EnvSource.of(env_id)), flat, {})
    return run_dir


def test_returns_are_those_of_the_policy_and_the_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = make_run(tmp_path, monkeypatch)
    figures = play.evaluate_run(str(run_dir), episodes=3, seed=7, trust=True)
    own = np.array([np.random.Generator(np.random.PCG64(seed)).random() for seed in (7, 8, 9)])
    expected = 5 * (own + 3 * np.tanh(BIAS))
    assert figures["return_mean"] == pytest.approx(expected.mean(), rel=1e-6)
    assert figures["return_min"] == pytest.approx(expected.min(), rel=1e-6)
    assert figures["return_max"] == pytest.approx(expected.max(), rel=1e-6)
    assert (figures["episodes"], figures["length_mean"]) == (3, 5.0)
    assert play.evaluate_run(str(run_dir), episodes=3, seed=7, trust=True) == figures


def test_more_episodes_than_fit_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = make_run(tmp_path, monkeypatch)
    all_at_once = play.evaluate_run(str(run_dir), episodes=5, seed=0, trust=True)
    monkeypatch.setattr(play, "AT_ONCE", 2)
    assert play.evaluate_run(str(run_dir), episodes=5, seed=0, trust=True) == all_at_once


def test_a_video_holds_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    run_dir = make_run(tmp_path, monkeypatch)
    path = play.record_run(str(run_dir), None, episodes=2, seed=3, trust=True)
    assert path == run_dir / "video" / "run-3.mp4"
    with imageio.get_reader(path) as reader:
        assert reader.get_meta_data()["size"] == (50, 34)
        assert reader.get_meta_data()["fps"] == 10
        frames = [frame.mean() for frame in reader]
    assert np.allclose(frames, 2 * [0, 40, 80, 120, 160, 200], atol=6)


def test_what_cannot_be_drawn_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("imageio_ffmpeg")
    run_dir = make_run(tmp_path, monkeypatch, broken=True)
    with pytest.raises(SpreezeError, match="cannot be drawn here: RuntimeError: no display"):
        play.record_run(str(run_dir), str(tmp_path / "out.mp4"), episodes=1, seed=0, trust=True)
    assert not list(tmp_path.glob("*.mp4"))


def test_a_run_on_a_callable_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = make_run(tmp_path, monkeypatch)
    (run_dir / "config.json").write_text('{"env": "<lambda>"}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"call spreeze\.load_policy"):
        play.evaluate_run(str(run_dir), episodes=1, seed=0, trust=True)


@pytest.mark.parametrize("play_it", [play.evaluate_run, lambda run, *rest: play.record_run(run, None, *rest)])
def test_code_that_a_folder_names_is_imported_only_when_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, play_it: Callable[..., object]
) -> None:
    run_dir = make_run(tmp_path, monkeypatch)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    (tmp_path / "stranger.py").write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n")
    (run_dir / "config.json").write_text('{"env": "stranger:make"}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"names code to import: 'stranger:make'.*--trust"):
        play_it(str(run_dir), 1, 0)
    assert not (tmp_path / "stranger.ran").exists()
    with pytest.raises(ConfigError, match="stranger has no 'make'"):
        play_it(str(run_dir), 1, 0, True)
    assert (tmp_path / "stranger.ran").exists()


def test_a_run_without_a_policy_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = make_run(tmp_path, monkeypatch)
    next((run_dir / "policy").iterdir()).unlink()
    with pytest.raises(ConfigError, match="no policy here"):
        play.evaluate_run(str(run_dir), episodes=1, seed=0, trust=True)
