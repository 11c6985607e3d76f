"""Spreeze trains policies for continuous control, with samplers, learner and evaluator as processes of their own.

    result = spreeze.train("HalfCheetah-v5", algo="sac", seconds=60)
    policy = spreeze.load_policy("runs/latest")

Importing this package imports neither torch nor NumPy and starts nothing: every name below is fetched at its first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spreeze.config import RunConfig
    from spreeze.runtime.supervisor import Result
    from spreeze.weights.policy_file import load_policy

__version__ = "0.1.0"
__all__ = ["RunConfig", "__version__", "load_policy", "resume", "train"]


def train(env: str | Callable[[], Any], quiet: bool = False, **settings: Any) -> Result:
    """Trains `env` (an id, 'module:Id', 'module:callable', or a callable that makes one) until a limit or Ctrl-C.

    Settings are named as the flags of `spreeze train`, with '_' for '-'; `quiet` leaves out the progress display.
    """
    from spreeze.config import RunConfig
    from spreeze.runtime import supervisor

    return supervisor.train(env, RunConfig.of(settings), quiet=quiet)


def resume(
    run: str | os.PathLike[str],
    env: str | Callable[[], Any] | None = None,
    trust: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Result:
    """Goes on from a run's last complete checkpoint, replay included, in the run's own folder.

    `env`: for a run whose environment was given as a callable. `trust`: import the code that the folder names as its
    environment. Settings win over those that the run had; limits count the whole run.
    """
    from spreeze.runtime import supervisor

    return supervisor.resume(os.fspath(run), settings, env=env, trust=trust, quiet=quiet)


def __getattr__(name: str) -> Any:
    if name == "RunConfig":
        from spreeze.config import RunConfig

        return RunConfig
    if name == "load_policy":
        from spreeze.weights.policy_file import load_policy

        return load_policy
    raise AttributeError(f"module 'spreeze' has no attribute {name!r}")
