"""What a sampler does about an environment that broke, and about one that does not answer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.board import Section
from spreeze.envs.fault import EnvFault
from spreeze.errors import EnvError
from spreeze.metrics.lines import append_line
from spreeze.spec import VecEnv

ENV_ERRORS_PER_LIFE = 100  # broken environments that one sampler replaces before it gives up
ACTIONS_KEPT_BYTES = 4 << 20  # of a sampler's environments together, for the notes
FILES_PER_LIFE = 10  # of actions, one to a note
HUNG_NOTED_AT = 0.75  # of --hang-after, at which the supervisor ends the sampler


class Actions:
    """The latest actions of environments that are stepped together."""

    def __init__(self, num_envs: int, action_size: int) -> None:
        kept = max(1, ACTIONS_KEPT_BYTES // (4 * num_envs * action_size))
        self._kept = np.zeros((min(kept, 100_000), num_envs, action_size), np.float32)
        self._ticks = 0

    def note(self, action: np.ndarray) -> None:  # (K, A)
        self._kept[self._ticks % len(self._kept)] = action
        self._ticks += 1

    def of_episode(self, env_index: int, steps: int) -> np.ndarray | None:
        """(steps, A), oldest first; None where the episode's first are not kept any more."""
        if not 0 < steps <= min(self._ticks, len(self._kept)):
            return None
        return self._kept[np.arange(self._ticks - steps, self._ticks) % len(self._kept), env_index]


class EnvFaults:
    """A broken environment is written down, with what makes it break again, and replaced, within a budget."""

    def __init__(self, run_dir: Path, role: str, section: Section) -> None:
        self._folder, self._role = run_dir / "errors", role
        self._section = section
        self._life = section.get("lives")
        self._count = 0

    def recover(self, vec: VecEnv, fault: EnvFault, actions: Actions) -> np.ndarray:
        """-> the first observations (K, O) of new episodes; a replacement that breaks at once is a fault as well."""
        while True:
            self._note(fault, actions)
            try:
                return vec.recover(fault)
            except EnvFault as another:
                fault = another

    def write_down(self, fault: EnvFault, actions: Actions) -> None:
        """A line of errors/<role>-env.jsonl, and the actions of the episode beside it."""
        with contextlib.suppress(OSError):  # a full disk loses the note, not the training
            self._folder.mkdir(exist_ok=True)
            line: dict[str, Any] = fault.as_json()
            played = actions.of_episode(fault.env_index, fault.episode_step)
            if played is not None and self._count <= FILES_PER_LIFE:
                line["actions"] = f"{self._role}-env-{self._life}-{self._count}.npy"
                np.save(self._folder / line["actions"], played, allow_pickle=False)
            append_line(self._folder / f"{self._role}-env.jsonl", line)

    def _note(self, fault: EnvFault, actions: Actions) -> None:
        self._count += 1
        self._section.add("env_errors", 1)
        self._section.add("lost_rows", fault.lost_rows)
        self.write_down(fault, actions)
        if self._count > ENV_ERRORS_PER_LIFE:
            raise EnvError(f"{self._count} broken environments in one sampler, the last: {fault}") from fault


class HangWatch:
    """A thread that writes down at which environment its sampler hangs, before the supervisor ends it. One that hangs
    without letting go of Python's lock keeps this thread from running as well: then log.txt alone has its stack."""

    def __init__(self, silent_s: Callable[[], float], hang_after_s: float, write_down: Callable[[float], None]) -> None:
        self._silent_s, self._write_down = silent_s, write_down
        self._noted_at_s = HUNG_NOTED_AT * hang_after_s
        self._stopping = threading.Event()
        threading.Thread(target=self._watch, name="hang-watch", daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self) -> None:
        noted = False
        while not self._stopping.wait(min(1.0, self._noted_at_s / 8)):
            silent_s = self._silent_s()
            if silent_s < self._noted_at_s:
                noted = False
            elif not noted:
                noted = True
                self._write_down(silent_s)


def since(heartbeat_ns: int) -> float:
    return (time.monotonic_ns() - heartbeat_ns) / 1e9
