"""What can go wrong, by name. Every message says what was got, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SpreezeError(Exception):
    """Base of every error that Spreeze raises on purpose."""


class ConfigError(SpreezeError):
    """The user asked for something that cannot be run; raised before any process starts (exit code 2)."""


class EnvError(SpreezeError):
    """An environment raised, or gave something that must not become a row."""


class WeightsError(SpreezeError):
    """A weights file or block that is broken, half written or of another network."""


class ExperienceError(SpreezeError):
    """The way of experience was used against its contract."""


class DrawingError(SpreezeError):
    """An environment that cannot be drawn here."""


class CheckpointError(SpreezeError):
    """No checkpoint that is complete, or one that does not fit this run."""


class NotFiniteError(SpreezeError):
    """Losses or weights stopped being finite."""


class RunFailed(SpreezeError):
    """A run ended with status failed; carries the role and the file with the traceback."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for the closest known name, or the whole choice when it is short; '' when nothing helps."""
    choices = list(known)
    lowered = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f" Did you mean {lowered[close[0]]!r}?"
    return f" Valid: {', '.join(choices)}." if 0 < len(choices) <= 12 else ""
