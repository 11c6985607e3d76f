"""The engines that can step environments, and the choice among them.

Adding one: a file with the three functions of `Backend`, and its line in BACKENDS.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol, cast

from spreeze.envs.source import EnvSource, make_env, make_registered, missing_for, registered_ids
from spreeze.errors import ConfigError, nearest
from spreeze.spec import EnvSpec, VecEnv

if TYPE_CHECKING:
    import gymnasium

# The order is the preference of 'auto'. Imported when asked for: an engine may take a second and 100 MB.
BACKENDS = {
    "envpool": "spreeze.envs.envpool_env",
    "gymnasium": "spreeze.envs.gymnasium_env",
}


class Backend(Protocol):
    """What the module of an engine offers."""

    GROUPS: int  # a sampler's environments are made in so many VecEnvs, stepped in turn

    def known_ids(self) -> Collection[str] | None: ...  # None: every environment that Gymnasium can make
    def why_not(self, source: EnvSource, spec: EnvSpec) -> str | None: ...  # None: it can step this one
    def why_not_unasked(self, source: EnvSource) -> str | None: ...  # None: 'auto' may take it; asked before why_not
    def make(self, source: EnvSource, spec: EnvSpec, num_envs: int, seed: int, render: bool) -> VecEnv: ...


def find_backend(name: str) -> Backend:
    if name not in BACKENDS:
        raise ConfigError(f"unknown environment backend {name!r}.{nearest(name, BACKENDS)}")
    return cast(Backend, importlib.import_module(BACKENDS[name]))


def probe(source: EnvSource) -> EnvSpec:
    """Make one environment, read its spaces, close it. What cannot be trained is refused here."""
    env = make_env(source)
    try:
        return spec_of(env, source.env_id)
    finally:
        env.close()


def choose_backend(source: EnvSource, requested: str = "auto", spec: EnvSpec | None = None) -> tuple[str, str]:
    """The engine and the reason. `spec`: what probe said, where it is known already."""
    spec = spec or probe(source)
    if requested != "auto":
        refusal = find_backend(requested).why_not(source, spec)
        if refusal is not None:
            raise ConfigError(f"--env-backend {requested}: {refusal}")
        return requested, "asked for"
    refusals: list[str] = []
    for name in BACKENDS:
        backend = find_backend(name)
        refusal = backend.why_not_unasked(source) or backend.why_not(source, spec)
        if refusal is None:
            return name, "; ".join(refusals) or f"{name} knows {source.env_id}, with the same spaces and time limit"
        refusals.append(f"not {name}: {refusal}")
    raise ConfigError(f"{source.env_id}: no backend can step it ({'; '.join(refusals)})")


def make_vec_env(
    source: EnvSource,
    backend: str,
    num_envs: int,
    seed: int,
    *,
    spec: EnvSpec | None = None,
    render: bool = False,
) -> VecEnv:
    """K environments. `seed` comes from seeds.role_seed, so that no two environments of a run share one.

    `render`: render() will be called; `spec`: what probe said, where it is known already.
    """
    if num_envs < 1:
        raise ConfigError(f"{num_envs} environments: expected at least 1")
    return find_backend(backend).make(source, spec or probe(source), num_envs, seed, render)


def list_envs(text: str | None = None) -> list[dict[str, Any]]:
    """The registered environments that can be trained here (continuous actions, flat observation), by id.

    Each is made once without a reset, which takes milliseconds; what needs an uninstalled simulator is left out.
    """
    others = {name: find_backend(name).known_ids() or () for name in BACKENDS if name != "gymnasium"}
    rows = []
    for env_id in sorted(registered_ids()):
        if text is not None and text.lower() not in env_id.lower():
            continue
        spec = _spec_if_trainable(env_id)
        if spec is not None:
            backends = ["gymnasium", *(name for name, known in others.items() if env_id in known)]
            rows.append({**spec.as_json(), "backends": backends})
    return rows


def spec_of(env: gymnasium.Env, env_id: str) -> EnvSpec:
    low, high = _action_bounds(env.action_space, env_id)
    return EnvSpec(
        env_id=env_id,
        obs_size=_obs_size(env.observation_space, env_id),
        action_size=len(low),
        action_low=low,
        action_high=high,
        max_episode_steps=_time_limit(env),
    )


def _obs_size(space: Any, env_id: str) -> int:
    import gymnasium

    if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        raise ConfigError(
            f"{env_id}: the observation is a {type(space).__name__}, expected a flat Box; "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(space, gymnasium.spaces.Box):
        raise ConfigError(f"{env_id}: the observation is {space}, expected a flat Box of numbers")
    if len(space.shape) != 1:
        kind = "an image" if len(space.shape) == 3 else "an array"
        raise ConfigError(
            f"{env_id}: the observation is {kind} of shape {space.shape}, expected a flat Box (one dimension); "
            "wrap the environment in gymnasium.wrappers.FlattenObservation"
        )
    if space.shape[0] < 1:
        raise ConfigError(f"{env_id}: the observation is empty, expected at least one number")
    return int(space.shape[0])


def _action_bounds(space: Any, env_id: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    import gymnasium

    if not isinstance(space, gymnasium.spaces.Box) or space.dtype.kind != "f":
        raise ConfigError(
            f"{env_id}: the action is {space}, expected a Box of real numbers: "
            "SAC, TD3 and DDPG train continuous actions only"
        )
    if len(space.shape) != 1 or space.shape[0] < 1:
        raise ConfigError(f"{env_id}: the action has shape {space.shape}, expected a flat Box (one dimension)")
    low, high = tuple(float(x) for x in space.low), tuple(float(x) for x in space.high)
    if any(math.isnan(x) for x in (*low, *high)) or any(a > b for a, b in zip(low, high, strict=True)):
        raise ConfigError(f"{env_id}: the action's bounds are {low} and {high}, expected low <= high")
    return low, high


def _time_limit(env: gymnasium.Env) -> int | None:
    from gymnasium import Wrapper
    from gymnasium.wrappers import TimeLimit

    limits = [] if env.spec is None or env.spec.max_episode_steps is None else [int(env.spec.max_episode_steps)]
    while isinstance(env, Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(int(env._max_episode_steps))
        env = env.env
    return min(limits, default=None)


def _spec_if_trainable(env_id: str) -> EnvSpec | None:
    if missing_for(env_id) is not None:
        return None
    try:
        env = make_registered(env_id, for_spaces_only=True)
    except ConfigError:
        return None
    try:
        return spec_of(env, env_id)
    except ConfigError:
        return None
    finally:
        env.close()
