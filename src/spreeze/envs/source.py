"""Where an environment comes from, and how one is made from it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spreeze.envs.quiet import keep_mujoco_out_of_cwd, silence, stdout_to_stderr
from spreeze.errors import ConfigError, nearest

if TYPE_CHECKING:
    import gymnasium

BULLET_PACKAGE = "pybullet_envs_gymnasium"


@dataclass(frozen=True)
class EnvSource:
    """A Gymnasium id, 'module:Id', 'module:callable', or a pickled callable under its name.

    The pickled bytes go from parent to child only: they are never written into a run folder, because unpickling runs
    code, and loading a stranger's run must not.
    """

    env_id: str
    pickled: bytes | None = None

    @staticmethod
    def of(env: str | Callable[..., Any] | EnvSource) -> EnvSource:
        if isinstance(env, EnvSource):
            return env
        if isinstance(env, str):
            if not env.strip() or env.startswith(":") or env.endswith(":"):
                raise ConfigError(f"environment {env!r}: expected a Gymnasium id, 'module:Id' or 'module:callable'")
            return EnvSource(env)
        if not callable(env):
            raise ConfigError(
                f"environment {type(env).__name__} object: expected an id or a callable that makes an environment, "
                "because every process makes its own: pass for example lambda: MyEnv()"
            )
        return EnvSource(getattr(env, "__name__", type(env).__name__), _pickle(env))

    def as_json(self) -> dict[str, Any]:
        return {"env_id": self.env_id, "pickled": self.pickled is not None}

    @staticmethod
    def from_json(data: dict[str, Any], pickled: bytes | None = None) -> EnvSource:
        """`pickled`: the bytes of a callable, handed over beside the JSON."""
        if data["pickled"] and pickled is None:
            raise ConfigError(
                f"environment {data['env_id']!r} was given as a Python callable, which is not kept with a run; "
                "call from Python with the callable, or train with 'module:callable' instead"
            )
        return EnvSource(str(data["env_id"]), pickled)


@dataclass(frozen=True)
class _Family:
    """Environments that need an optional dependency, and how to get it."""

    entry_prefix: str
    modules: tuple[str, ...]
    extra: str


_FAMILIES = (
    _Family("gymnasium.envs.mujoco", ("mujoco",), "mujoco"),
    _Family("gymnasium.envs.box2d", ("Box2D", "pygame"), "box2d"),
    _Family(BULLET_PACKAGE, (BULLET_PACKAGE, "pybullet"), "bullet"),
)


def install_command(extra: str) -> str:
    return f'pip install "spreeze[{extra}]"'


def make_env(source: EnvSource, render_mode: str | None = None) -> gymnasium.Env:
    """One environment. What its constructor prints goes to stderr."""
    import gymnasium

    with stdout_to_stderr():
        if source.pickled is not None:
            env = _call(_unpickle(source), source.env_id, render_mode)
        elif ":" in source.env_id:
            env = _make_from_module(source.env_id, render_mode)
        else:
            env = make_registered(source.env_id, render_mode)
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"{source.env_id} gave a {type(env).__name__}: expected a gymnasium.Env")
    return env


def registered_ids() -> list[str]:
    """Every id that Gymnasium knows, PyBullet's included where it is installed."""
    from gymnasium.envs.registration import registry

    if _installed(BULLET_PACKAGE):
        _register_bullet()
    return list(registry)


def entry_point_of(env_id: str) -> str:
    """Where a registered id's code lies, as 'module:name'; '' for what is not registered."""
    from gymnasium.envs.registration import registry

    spec = registry.get(env_id)
    return str(spec.entry_point) if spec is not None else ""


def missing_for(env_id: str) -> str | None:
    """The command that installs what a registered id needs; None when it is there."""
    from gymnasium.envs.registration import registry

    entry = registry[env_id].entry_point
    for family in _FAMILIES:
        if isinstance(entry, str) and entry.startswith(family.entry_prefix):
            return None if all(_installed(module) for module in family.modules) else install_command(family.extra)
    return None


def make_registered(env_id: str, render_mode: str | None = None, for_spaces_only: bool = False) -> gymnasium.Env:
    """One environment by its registered id. `for_spaces_only`: it will not be stepped, so leave out slow warm-up."""
    from gymnasium.envs.registration import registry

    if env_id not in registry:
        known = registered_ids()
        if env_id not in registry:
            raise ConfigError(_unknown_id(env_id, known))
    missing = missing_for(env_id)
    if missing is not None:
        raise ConfigError(f"{env_id} needs a simulator that is not installed: {missing}")
    entry = str(registry[env_id].entry_point)
    if entry.startswith("gymnasium.envs.mujoco"):
        keep_mujoco_out_of_cwd()
    if entry.startswith(BULLET_PACKAGE):
        return _make_bullet(env_id, render_mode, for_spaces_only)
    return _gymnasium_make(env_id, render_mode)


def _gymnasium_make(env_id: str, render_mode: str | None) -> gymnasium.Env:
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 'out of date', 'precision lowered': nothing the user can act on here
            return gymnasium.make(env_id, disable_env_checker=True, **_render_keyword(render_mode))
    except Exception as error:
        raise ConfigError(f"{env_id} cannot be made here: {type(error).__name__}: {error}") from error


def _make_bullet(env_id: str, render_mode: str | None, for_spaces_only: bool) -> gymnasium.Env:
    """Reset once before anyone sees it: PyBullet connects, and prints, in the first reset.

    The locomotion tasks' first episode also differs in its first reward from every later one of the same seed (0.914
    and 0.863 on HalfCheetahBulletEnv-v0), so the thrown-away reset makes every episode follow its seed.
    """
    with silence():
        env = _gymnasium_make(env_id, render_mode)
        if not for_spaces_only:
            env.reset()
    return env


def _register_bullet() -> None:
    with silence():
        importlib.import_module(BULLET_PACKAGE)


def _unknown_id(env_id: str, known: list[str]) -> str:
    if "Bullet" in env_id and not _installed(BULLET_PACKAGE):
        return f"{env_id} is not registered; PyBullet's environments need: {install_command('bullet')}"
    return f"unknown environment {env_id!r}.{nearest(env_id, known)} `spreeze envs` lists what can be trained here."


def _make_from_module(env_id: str, render_mode: str | None) -> gymnasium.Env:
    from gymnasium.envs.registration import registry

    module_name, _, name = env_id.partition(":")
    before = set(registry)
    module = _import_module(module_name, env_id)
    if name in registry:
        return make_registered(name, render_mode)
    make = getattr(module, name, None)
    if make is None:
        raise ConfigError(
            f"{env_id}: {module_name} has no {name!r}.{nearest(name, _choices(module, registry, before))}"
        )
    if not callable(make):
        raise ConfigError(f"{env_id} is a {type(make).__name__}: expected a callable that returns a gymnasium.Env")
    if "mujoco" in sys.modules:
        keep_mujoco_out_of_cwd()
    return _call(make, env_id, render_mode)


def _choices(module: types.ModuleType, registry: Iterable[str], before: set[str]) -> list[str]:
    own = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    return [*own, *(set(registry) - before)]


def _import_module(module_name: str, env_id: str) -> types.ModuleType:
    here = os.getcwd()
    if "/" in module_name or module_name.endswith(".py"):
        name, rest = module_name.removesuffix(".py").rpartition("/")[2], env_id.partition(":")[2]
        raise ConfigError(
            f"{env_id}: expected a module's name, as in '{name}:{rest}'; it is looked for in the folder you are in, "
            f"{here}, and among the installed ones"
        )
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does; a console script does not
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise ConfigError(f"{env_id}: no module {error.name!r} in {here} or among the installed ones") from error
        raise ConfigError(f"{env_id}: importing {module_name} needs {error.name!r}, which is not installed") from error
    except Exception as error:
        raise ConfigError(f"{env_id}: importing {module_name} failed: {type(error).__name__}: {error}") from error


def _call(make: Callable[..., Any], env_id: str, render_mode: str | None) -> Any:
    """The user's callable; it is told render_mode when it takes one."""
    try:
        return make(**(_render_keyword(render_mode) if _takes_render_mode(make) else {}))
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{env_id}: making the environment failed: {type(error).__name__}: {error}") from error


def _render_keyword(render_mode: str | None) -> dict[str, Any]:
    return {} if render_mode is None else {"render_mode": render_mode}  # not every environment takes one


def _takes_render_mode(make: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return False
    return "render_mode" in parameters


def _pickle(make: Callable[..., Any]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(make)
    except Exception as error:
        raise ConfigError(
            f"the environment's callable cannot be sent to other processes: {error}; "
            "let it make what it needs inside, or give 'module:callable'"
        ) from error


def _unpickle(source: EnvSource) -> Callable[..., Any]:
    import cloudpickle

    assert source.pickled is not None
    try:
        make = cloudpickle.loads(source.pickled)
    except Exception as error:
        raise ConfigError(f"{source.env_id}: its callable cannot be loaded: {type(error).__name__}: {error}") from error
    if "mujoco" in sys.modules:
        keep_mujoco_out_of_cwd()
    return make


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
