"""A trained policy in its environment: its returns, and a video of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spreeze.envs.episodes import run_episodes
from spreeze.envs.kept import find_source
from spreeze.envs.registry import spec_of
from spreeze.envs.source import EnvSource, make_env
from spreeze.errors import ConfigError, SpreezeError, WeightsError
from spreeze.run_folder import find_run
from spreeze.weights.policy_file import Policy, load_policy

if TYPE_CHECKING:
    import gymnasium

AT_ONCE = 64  # environments side by side; more only cost memory
_FRAMES_PER_S = 30  # where the environment does not say


def evaluate_run(run: str, episodes: int, seed: int, trust: bool = False) -> dict[str, Any]:
    """Episodes without exploration, the k-th from `seed` + k: the same figures at every call. `trust`: see
    envs.kept."""
    run_dir = find_run(run)
    policy, source = load_policy(run_dir), find_source(run_dir, trust)
    envs = [make_env(source) for _ in range(min(episodes, AT_ONCE))]
    _check_fits(policy, envs[0], source)
    returns, lengths = np.zeros(0), np.zeros(0)
    for first in range(0, episodes, AT_ONCE):
        seeds = range(seed + first, seed + min(first + AT_ONCE, episodes))
        played = run_episodes(envs[: len(seeds)], seeds, policy)
        assert played is not None  # nobody stops it
        returns, lengths = np.append(returns, played.returns), np.append(lengths, played.lengths)
    for env in envs:
        env.close()
    return {
        "run": str(run_dir),
        "env": source.env_id,
        "episodes": episodes,
        "seed": seed,
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std()),
        "return_min": float(returns.min()),
        "return_max": float(returns.max()),
        "length_mean": float(lengths.mean()),
    }


def record_run(run: str, out: str | None, episodes: int, seed: int, trust: bool = False) -> Path:
    """Writes the video whole or not at all, and gives its path. Needs no screen."""
    run_dir = find_run(run)
    policy, source = load_policy(run_dir), find_source(run_dir, trust)
    path = Path(out) if out else run_dir / "video" / f"{run_dir.name}-{seed}.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    _draw_without_a_screen()
    env = make_env(source, render_mode="rgb_array")
    _check_fits(policy, env, source)
    writing = path.with_name(f"{path.stem}.writing{path.suffix}")
    try:
        _film(env, policy, range(seed, seed + episodes), writing)
        os.replace(writing, path)
    finally:
        writing.unlink(missing_ok=True)
        env.close()
    return path


def _check_fits(policy: Policy, env: gymnasium.Env, source: EnvSource) -> None:
    spec = spec_of(env, source.env_id)
    if (spec.obs_size, spec.action_size) != (policy.spec.obs_size, policy.spec.action_size):
        raise WeightsError(
            f"the policy takes {policy.spec.obs_size} numbers and gives {policy.spec.action_size}; {source.env_id} has "
            f"{spec.obs_size} and {spec.action_size}: they are not of one run"
        )


def _draw_without_a_screen() -> None:
    """MuJoCo chooses its way of drawing when it is imported, and its default needs a screen."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not screen:
        os.environ.setdefault("MUJOCO_GL", "egl")


def _film(env: gymnasium.Env, policy: Policy, seeds: range, path: Path) -> None:
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  imageio finds it by itself, but says less clearly that it is missing
    except ImportError:
        raise ConfigError("a video needs imageio with ffmpeg: pip install 'spreeze[video]'") from None
    frames_per_s = env.metadata.get("render_fps") or _FRAMES_PER_S
    try:
        # yuv420, which every player shows, needs even sides; the default rounds them to 16 and so distorts
        writer: Any = imageio.get_writer(path, fps=frames_per_s, macro_block_size=2)
        with writer:
            filmed = _Filmed(env, writer.append_data)
            for seed in seeds:
                run_episodes([filmed], [seed], policy)
    except (OSError, ValueError) as error:
        raise SpreezeError(f"{path}: the video could not be written: {error}") from error


class _Filmed:
    """An environment that shows every state to `take`."""

    def __init__(self, env: gymnasium.Env, take: Callable[[Any], None]) -> None:
        self._env = env
        self._take = take

    def reset(self, seed: int) -> Any:
        answer = self._env.reset(seed=seed)
        self._show()
        return answer

    def step(self, action: np.ndarray) -> Any:
        answer = self._env.step(action)
        self._show()
        return answer

    def _show(self) -> None:
        try:
            frame = self._env.render()
        except Exception as error:  # whatever a renderer raises, the user needs the same answer
            raise SpreezeError(
                f"this environment cannot be drawn here: {type(error).__name__}: {error}; "
                "'spreeze doctor' names what headless drawing needs"
            ) from error
        self._take(np.asarray(frame, np.uint8))
