"""Gymnasium's MuJoCo tasks without the Python that Gymnasium runs around each step of the physics.

`lean_step(envs)` steps Gymnasium's own environment objects: the same MjModel and MjData, the same reset, the same
seeds. What it promises:

1. Observation, reward and termination are those of env.step, to the last bit. This is compared when it is made, on
   every environment, and where anything differs (another version of Gymnasium, a patched class) there is no lean step.
2. The environments are as they were after that comparison.
3. MjData is left as env.step leaves it, but for cacc, cfrc_int and cfrc_ext where the task reads none of them.

Only the physics runs once per environment; its results are read, and the formulas computed, once for all K.
Truncation is the caller's matter, as in Gymnasium.

Measured with K = 8 (one core of a Zen 4, busy; `pytest -m slow -s tests/unit/envs/test_mujoco_lean.py`), as a multiple
of the rate of gymnasium.make's env.step: HalfCheetah 1.3, Hopper 1.4 to 1.5, Walker2d, Ant and Humanoid 1.15 to 1.25,
Swimmer, InvertedPendulum and InvertedDoublePendulum 1.2 to 1.3, Reacher 1.65, Pusher 1.5, HumanoidStandup 1.05. What is
left is the physics: of HalfCheetah's 27 us, 26. With K = 1 the gain is nothing, for then nothing is shared.
"""

from __future__ import annotations

import copy
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from spreeze.envs.mujoco_formulas import FORMULAS, Answer, Formula
from spreeze.envs.quiet import keep_mujoco_out_of_cwd

_TASKS = "gymnasium.envs.mujoco."
_SPREADS = (0.01, 0.1, 1.0)  # of the states compared, in turn: about upright, moving, fallen
_COMPARED_STEPS = 9  # of all environments together, at least; each is compared at least once
_log = logging.getLogger(__name__)


def lean_step(envs: Sequence[Any]) -> LeanStep | None:
    """None: these have to be stepped by env.step, because they are not (only) Gymnasium's own, or differ in settings.

    `envs`: without the wrappers that only count and check (TimeLimit, OrderEnforcing).
    """
    try:
        formula = _common_formula(envs)
        if formula is None:
            return None
        lean = LeanStep(formula, envs)
        if _steps_alike(lean, envs):
            return lean
        _log.info("%s: stepped by env.step, from which the lean step differs", type(envs[0]).__name__)
    except Exception as error:  # another version of Gymnasium may break anything; env.step is what then counts
        _log.info("%s: stepped by env.step, because the lean step failed: %r", type(envs[0]).__name__, error)
    return None


class LeanStep:
    """Steps K environments. `index` is the one whose physics runs: after an exception, the one that raised it."""

    def __init__(self, formula: Formula, envs: Sequence[Any]) -> None:
        self.index = 0
        self._formula = formula
        self._controls = np.zeros((len(envs), envs[0].model.nu))
        self._simulations = [
            (env.data.ctrl.data, controls.data, _simulation(env, formula.reads_contact_forces))
            for env, controls in zip(envs, self._controls, strict=True)
        ]
        self._before = _Columns([formula.before(env) for env in envs])
        self._after = _Columns([formula.after(env) for env in envs])

    def __call__(self, action: np.ndarray) -> Answer:  # (K, A) in the environments' bounds
        before = self._before.read()
        self._controls[:] = action
        index = 0
        try:
            for data_controls, controls, simulate in self._simulations:
                data_controls[:] = controls
                simulate()
                index += 1
        finally:
            self.index = index
        return self._formula.answer(before, self._after.read(), action)


class _Columns:
    """Reads K rows of numbers that lie in pieces all over memory, in one call for all of them."""

    def __init__(self, rows: Sequence[Sequence[np.ndarray]]) -> None:
        self._pieces = [piece.data for row in rows for piece in row]
        self._shape = (len(rows), sum(piece.size for piece in rows[0]))

    def read(self) -> np.ndarray:  # (K, n) float64, a copy
        return np.frombuffer(b"".join(self._pieces)).reshape(self._shape)


def knows(entry_point: str) -> bool:
    """Whether there are formulas for a task, by its registered entry point ('module:Class')."""
    return entry_point.removeprefix(_TASKS).replace(":", ".") in FORMULAS


def _common_formula(envs: Sequence[Any]) -> Formula | None:
    formula = _formula_of(envs[0])
    for env in envs[1:]:
        other = _formula_of(env)
        if formula is None or type(other) is not type(formula) or vars(other) != vars(formula):
            return None
    return formula


def _formula_of(env: Any) -> Formula | None:
    kind = type(env)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if not name.startswith(_TASKS) or name.removeprefix(_TASKS) not in FORMULAS:
        return None
    if env.render_mode == "human":  # renders within step
        return None
    if any(callable(value) and hasattr(kind, attribute) for attribute, value in vars(env).items()):
        return None  # a method was replaced on this very object
    return FORMULAS[name.removeprefix(_TASKS)](env)


def _simulation(env: Any, with_contact_forces: bool) -> Callable[[], object]:
    import mujoco

    simulate = partial(mujoco.mj_step, env.model, env.data, env.frame_skip)
    if not with_contact_forces:
        return simulate
    add_contact_forces = partial(mujoco.mj_rnePostConstraint, env.model, env.data)

    def simulate_with_contact_forces() -> None:
        simulate()
        add_contact_forces()

    return simulate_with_contact_forces


def _steps_alike(lean: LeanStep, envs: Sequence[Any]) -> bool:
    import mujoco

    keep_mujoco_out_of_cwd()  # the fallen states make it warn
    kept = [copy.copy(env.data) for env in envs]
    generator = np.random.default_rng(0)
    spreads = itertools.cycle(_SPREADS)
    rounds = math.ceil(_COMPARED_STEPS / len(envs))
    try:
        return all(_one_step_alike(lean, envs, spreads, generator) for _ in range(rounds))
    finally:
        for env, data in zip(envs, kept, strict=True):
            mujoco.mj_copyData(env.data, env.model, data)


def _one_step_alike(
    lean: LeanStep, envs: Sequence[Any], spreads: Iterator[float], generator: np.random.Generator
) -> bool:
    starts = [_start_near(env, spread, generator) for env, spread in zip(envs, spreads, strict=False)]
    space = envs[0].action_space
    action = generator.uniform(space.low, space.high, (len(envs), *space.shape)).astype(space.dtype)
    for env, start in zip(envs, starts, strict=True):
        _place(env, *start)
    obs, reward, terminated = lean(action)
    for index, (env, start) in enumerate(zip(envs, starts, strict=True)):
        _place(env, *start)
        expected_obs, expected_reward, expected_terminated, truncated, _ = env.step(action[index])
        if (
            truncated
            or bool(expected_terminated) != (terminated is not None and bool(terminated[index]))
            or np.float64(expected_reward).tobytes() != np.float64(reward[index]).tobytes()
            or expected_obs.dtype != obs.dtype
            or expected_obs.tobytes() != obs[index].tobytes()
        ):
            return False
    return True


def _start_near(env: Any, spread: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    positions = env.init_qpos + spread * generator.standard_normal(env.model.nq)
    return positions, env.init_qvel + 10 * spread * generator.standard_normal(env.model.nv)


def _place(env: Any, positions: np.ndarray, velocities: np.ndarray) -> None:
    """Always gives the same MjData, whatever it held."""
    import mujoco

    mujoco.mj_resetData(env.model, env.data)
    env.data.qpos[:], env.data.qvel[:] = positions, velocities
    mujoco.mj_forward(env.model, env.data)
