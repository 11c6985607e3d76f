"""The environment that a run was trained on, as its folder tells it.

A run folder may come from a stranger, and 'module:name' is the name of code: it is imported only for somebody who says
that they trust it. An id that Gymnasium has registered names nothing but what is installed here.
"""

from __future__ import annotations

from pathlib import Path

from spreeze.documents import read_document
from spreeze.envs.source import EnvSource, registered_ids
from spreeze.errors import ConfigError
from spreeze.run_folder import CONFIG_FILE

_LONGEST_ID = 200


def find_source(run_dir: Path, trust: bool = False) -> EnvSource:
    """`trust`: the user said --trust, so code that the folder names may be imported. Raises ConfigError."""
    path = run_dir / CONFIG_FILE
    env_id = read_document(path, "the config.json of a run").get("env")
    if not isinstance(env_id, str) or not env_id.isprintable() or not 0 < len(env_id) <= _LONGEST_ID:
        raise ConfigError(f"{path}: not the config.json of a run (no environment's name under 'env')")
    if ":" in env_id:
        return _trusted(env_id, path, trust)
    if env_id not in registered_ids():
        raise ConfigError(
            f"{run_dir}: trained on {env_id!r}, which is not registered here; an environment that was given as a "
            "Python callable is not kept with a run: call spreeze.load_policy and step your own"
        )
    return EnvSource.of(env_id)


def _trusted(env_id: str, path: Path, trust: bool) -> EnvSource:
    if not trust:
        raise ConfigError(
            f"{path} names code to import: {env_id!r}. If this run is yours, or you have read that code, "
            "say so with --trust"
        )
    return EnvSource.of(env_id)
