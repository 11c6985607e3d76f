"""A trained policy in its environment: its returns, and a video of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spreeze.envs.episodes import run_episodes
from spreeze.envs.kept import find_source
from spreeze.envs.source import make_env
from spreeze.run_folder import find_run
from spreeze.watching.drawing import DrawnEnv, prepare_drawing
from spreeze.watching.film import Film, check_film
from spreeze.watching.following import check_fits
from spreeze.weights.policy_file import load_policy

AT_ONCE = 64  # environments side by side; more only cost memory


def evaluate_run(run: str, episodes: int, seed: int, trust: bool = False) -> dict[str, Any]:
    """Episodes without exploration, the k-th from `seed` + k: the same figures at every call. `trust`: see
    envs.kept."""
    run_dir = find_run(run)
    policy, source = load_policy(run_dir), find_source(run_dir, trust)
    envs = [make_env(source) for _ in range(min(episodes, AT_ONCE))]
    check_fits(policy.spec, envs[0], source.env_id)
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
    """Writes the video, mp4 or gif, whole or not at all, and gives its path. Needs no screen."""
    run_dir = find_run(run)
    path = Path(out) if out else run_dir / "video" / f"{run_dir.name}-{seed}.mp4"
    check_film(path)
    policy, source = load_policy(run_dir), find_source(run_dir, trust)
    prepare_drawing()
    env = DrawnEnv(source)
    try:
        check_fits(policy.spec, env.env, source.env_id)
        film = Film(path, env.step_s)
        try:
            filmed = _Filmed(env, film)
            for episode_seed in range(seed, seed + episodes):
                run_episodes([filmed], [episode_seed], policy)
            return film.finish()
        finally:
            film.drop()  # nothing, once it is finished
    finally:
        env.close()


class _Filmed:
    """An environment whose states go into a film."""

    def __init__(self, env: DrawnEnv, film: Film) -> None:
        self._env, self._film = env, film
        self._step = 0

    def reset(self, seed: int) -> Any:
        answer = self._env.reset(seed)
        self._step = 0
        self._take()
        return answer

    def step(self, action: np.ndarray) -> Any:
        answer = self._env.step(action)
        self._step += 1
        self._take()
        return answer

    def _take(self) -> None:
        if self._step % self._film.stride == 0:
            self._film.take(self._env.picture())
