"""How a run comes by its tuner: with what earlier runs found on this machine, and with what it may read and change."""

from __future__ import annotations

import os
from collections.abc import Callable

from spreeze.board import Board
from spreeze.errors import ConfigError
from spreeze.resolve import Resolved
from spreeze.runtime.crew import Crew
from spreeze.runtime.ending import WATCHERS
from spreeze.tuning.baselines import enumerate_all, optimise
from spreeze.tuning.hardware import Machine
from spreeze.tuning.readings import Readings
from spreeze.tuning.remembered import Remembered
from spreeze.tuning.search import Search, Setting, Space, Steps, search
from spreeze.tuning.tuner import Tuner


class MachineMemory:
    """What earlier runs found; a cache that cannot be used is a trouble to be told, and nothing else."""

    def __init__(self, remembered: Remembered | None) -> None:
        self._remembered = remembered
        self.trouble: str | None = None

    def recall(self, anew: bool) -> tuple[Setting, str] | None:
        if self._remembered is None:
            return None
        try:
            if anew:
                self._remembered.forget()
                return None
            return self._remembered.recall()
        except (ConfigError, OSError) as error:
            self.trouble = str(error)
            return None

    def keep(self, setting: Setting) -> None:
        if self._remembered is None:
            return
        try:
            self._remembered.keep(setting)
        except OSError as error:
            self.trouble = str(error)


def start_from_memory(resolved: Resolved, machine: Machine) -> tuple[Resolved, MachineMemory]:
    """The run as it starts, with what was found before where there is something to find."""
    assert resolved.space is not None, "resolve() says what may be adapted"
    if resolved.space.fixed or resolved.config.adapt != "on":
        return resolved, MachineMemory(None)
    memory = MachineMemory(Remembered(resolved.config, resolved.spec, machine, resolved.space))
    recalled = memory.recall(anew=resolved.config.retune)
    return (resolved if recalled is None else resolved.starting_at(*recalled)), memory


def make_tuner(
    resolved: Resolved, machine: Machine, board: Board, crew: Crew, event: Callable[..., object], memory: MachineMemory
) -> Tuner:
    assert resolved.space is not None
    assert resolved.start is not None

    def keep(setting: Setting) -> None:
        memory.keep(setting)
        if memory.trouble is not None:
            event("warning", f"what was found is not remembered: {memory.trouble}")

    blind = machine.cores_quota is not None or (hasattr(os, "nice") and os.nice(0) > 0)
    return Tuner(
        resolved.space,
        Search(_steps_of(resolved.config.adapt, resolved.space, resolved.start, resolved.known)),
        board,
        # the watchers run at low priority: what they take is not taken from anybody
        Readings(board, lambda: [os.getpid(), *crew.pids(but_not=WATCHERS)], blind=blind),
        event,
        keep,
    )


def _steps_of(adapt: str, space: Space, start: Setting, known: str | None) -> Steps:
    if adapt == "enumerate":
        return enumerate_all(space, start)
    return optimise(space, start) if adapt == "optuna" else search(space, start, known)
