"""Observation, reward and termination of Gymnasium's MuJoCo tasks, for K environments at once.

Each class repeats the formulas of one file of gymnasium/envs/mujoco, with rows in place of single environments and
with the operations in the same order and of the same type, so that every result is the same to the last bit. (The
sum of squared float32 actions is a float32, as there; `x**2` of a scalar is C's pow, which x * x is not.) All that a
constructor sets is read from the environment. mujoco_lean compares each with Gymnasium's own step before it is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Range = tuple[float, float]


class Answer(NamedTuple):
    obs: np.ndarray  # (K, O) float64
    reward: np.ndarray  # (K,)
    terminated: np.ndarray | None  # (K,) bool; None: this task never terminates


class Formula:
    """One task. Two of the same settings have equal attributes, so one of them may answer for both environments.

    `before` and `after` name the parts of MjData that are read on either side of the simulation, as views; their
    values come as the columns of `answer`'s first two arguments, in that order.
    """

    reads_contact_forces = False  # cfrc_ext, which mj_step leaves to mj_rnePostConstraint

    def __init__(self, env: Any) -> None:
        self.dt = env.dt
        self.positions, self.velocities = env.model.nq, env.model.nv

    def before(self, env: Any) -> tuple[np.ndarray, ...]:
        return ()

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        return env.data.qpos, env.data.qvel

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        raise NotImplementedError


@dataclass(frozen=True)
class _Survival:
    """The reward for not having fallen. In v4 the step of the fall is paid too, where the fall ends the episode."""

    weight: float
    terminates: bool
    pays_the_fall: bool

    def reward(self, healthy: np.ndarray) -> np.ndarray | float:
        return 1.0 * self.weight if self.pays_the_fall and self.terminates else healthy * self.weight

    def terminated(self, healthy: np.ndarray) -> np.ndarray | None:
        return ~healthy if self.terminates else None


def _survival(env: Any, pays_the_fall: bool) -> _Survival:
    return _Survival(env._healthy_reward, bool(env._terminate_when_unhealthy), pays_the_fall)


def _sum_of_squares(rows: np.ndarray) -> np.ndarray:  # (K, n) -> (K,)
    return np.add.reduce(np.square(rows), axis=1)


def _lengths(vectors: np.ndarray) -> np.ndarray:  # (K, n) -> (K,), by the same BLAS dot as np.linalg.norm of one
    return np.sqrt(np.matmul(vectors[:, None, :], vectors[:, :, None])[:, 0, 0])


def _clipped(rows: np.ndarray, low: float, high: float) -> np.ndarray:  # np.clip takes five times as long to begin
    return np.minimum(np.maximum(rows, low), high)


def _strictly_within(rows: np.ndarray, bounds: Range) -> np.ndarray:
    low, high = bounds
    return (low < rows) & (rows < high)


def _body(env: Any, name: str | int) -> np.ndarray:
    return env.data.body(name).xpos


class HalfCheetah(Formula):
    hidden_positions = 1

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.forward_weight, self.control_weight = env._forward_reward_weight, env._ctrl_cost_weight
        self.hidden = self.hidden_positions if env._exclude_current_positions_from_observation else 0

    def before(self, env: Any) -> tuple[np.ndarray, ...]:
        return (env.data.qpos[:1],)

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        x_velocity = (after[:, 0] - before[:, 0]) / self.dt
        reward = self.forward_weight * x_velocity - self.control_weight * _sum_of_squares(action)
        return Answer(after[:, self.hidden :], reward, None)


class Swimmer(HalfCheetah):
    hidden_positions = 2


class Walker2d(HalfCheetah):
    pays_the_fall = False

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.survival = _survival(env, self.pays_the_fall)
        self.z_range, self.angle_range = tuple(env._healthy_z_range), tuple(env._healthy_angle_range)

    def healthy(self, after: np.ndarray) -> np.ndarray:
        return _strictly_within(after[:, 1], self.z_range) & _strictly_within(after[:, 2], self.angle_range)

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        x_velocity = (after[:, 0] - before[:, 0]) / self.dt
        healthy = self.healthy(after)
        rewards = self.forward_weight * x_velocity + self.survival.reward(healthy)
        reward = rewards - self.control_weight * _sum_of_squares(action)
        obs = np.concatenate(
            (after[:, self.hidden : self.positions], _clipped(after[:, self.positions :], -10, 10)), axis=1
        )
        return Answer(obs, reward, self.survival.terminated(healthy))


class Walker2dV4(Walker2d):
    pays_the_fall = True


class Hopper(Walker2d):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.state_range = tuple(env._healthy_state_range)

    def healthy(self, after: np.ndarray) -> np.ndarray:
        state = np.logical_and.reduce(_strictly_within(after[:, 2:], self.state_range), axis=1)
        return state & super().healthy(after)


class HopperV4(Hopper):
    pays_the_fall = True


class Ant(Formula):
    reads_contact_forces = True
    pays_the_fall = False
    shown_contact_forces = slice(6, None)  # not the world's own

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.forward_weight, self.main_body = self.forward(env)
        self.control_weight, self.contact_weight = env._ctrl_cost_weight, env._contact_cost_weight
        self.contact_range: Range = tuple(env._contact_force_range)
        self.survival = _survival(env, self.pays_the_fall)
        self.z_range: Range = tuple(env._healthy_z_range)
        self.hidden = 2 if env._exclude_current_positions_from_observation else 0
        self.shows_contact_forces = self.shows(env)

    def forward(self, env: Any) -> tuple[float, str | int]:
        return env._forward_reward_weight, env._main_body

    def shows(self, env: Any) -> bool:
        return bool(env._include_cfrc_ext_in_observation)

    def before(self, env: Any) -> tuple[np.ndarray, ...]:
        return (_body(env, self.main_body)[:1],)

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        contacts = (env.data.cfrc_ext,) if self.reads_contact_forces else ()
        return _body(env, self.main_body)[:1], env.data.qpos, env.data.qvel, *contacts

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        x_velocity = (after[:, 0] - before[:, 0]) / self.dt
        end = 1 + self.positions + self.velocities
        state, forces = after[:, 1:end], after[:, end:]
        low, high = self.z_range
        healthy = np.isfinite(state).all(axis=1) & (low <= state[:, 2]) & (state[:, 2] <= high)
        rewards = x_velocity * self.forward_weight + self.survival.reward(healthy)
        costs = self.control_weight * _sum_of_squares(action)
        obs = state[:, self.hidden :]
        if self.reads_contact_forces:
            forces = _clipped(forces, *self.contact_range)
            costs = costs + self.contact_weight * _sum_of_squares(forces)
        if self.shows_contact_forces:
            obs = np.concatenate((obs, forces[:, self.shown_contact_forces]), axis=1)
        return Answer(obs, rewards - costs, self.survival.terminated(healthy))


class AntV4(Ant):
    pays_the_fall = True
    shown_contact_forces = slice(None)

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.reads_contact_forces = self.shows_contact_forces

    def forward(self, env: Any) -> tuple[float, str | int]:
        return 1, "torso"

    def shows(self, env: Any) -> bool:
        return bool(env._use_contact_forces)


class _Body(Formula):
    """What the two humanoid tasks have in common: what they show of the state."""

    reads_contact_forces = True
    extras = 0  # numbers after the observation's

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.hidden = 2 if self.hides_positions(env) else 0
        self.shown = self.parts_shown(env)
        self.contact_forces = env.data.cfrc_ext.size
        self.actuators = env.model.nu

    def hides_positions(self, env: Any) -> bool:
        return bool(env._exclude_current_positions_from_observation)

    def parts_shown(self, env: Any) -> tuple[tuple[str, int], ...]:
        """Names in MjData, and the first entry shown: the world's own entries and the root's forces are left out."""
        optional = (("cinert", 1), ("cvel", 1), ("qfrc_actuator", 6), ("cfrc_ext", 1))
        return tuple(part for part in optional if getattr(env, f"_include_{part[0]}_in_observation") is True)

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        data = env.data
        shown = (getattr(data, name)[start:] for name, start in self.shown)
        return data.qpos, data.qvel, *shown, data.cfrc_ext, data.ctrl

    def split(self, after: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The observation, the contact forces, the controls."""
        forces = after.shape[1] - self.extras - self.actuators - self.contact_forces
        controls = forces + self.contact_forces
        return after[:, self.hidden : forces], after[:, forces:controls], after[:, controls : controls + self.actuators]


class Humanoid(_Body):
    pays_the_fall = False

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.forward_weight, self.control_weight = env._forward_reward_weight, env._ctrl_cost_weight
        self.survival = _survival(env, self.pays_the_fall)
        self.z_range: Range = tuple(env._healthy_z_range)
        self.masses, self.mass = tuple(env.model.body_mass.tolist()), float(env.model.body_mass.sum())
        self.extras = env.data.xipos.size
        self.read_contact_cost(env)

    def read_contact_cost(self, env: Any) -> None:
        self.contact_weight, self.contact_range = env._contact_cost_weight, tuple(env._contact_cost_range)

    def before(self, env: Any) -> tuple[np.ndarray, ...]:
        return (env.data.xipos,)

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        return *super().after(env), env.data.xipos

    def center_x(self, bodies: np.ndarray) -> np.ndarray:  # (K, bodies * 3) -> (K,)
        weighted = np.einsum("b,kbj->kj", self.masses, bodies.reshape(len(bodies), -1, 3))
        return weighted[:, 0] / self.mass

    def costs(self, forces: np.ndarray, controls: np.ndarray) -> np.ndarray:
        contact = _clipped(self.contact_weight * _sum_of_squares(forces), *self.contact_range)
        return self.control_weight * _sum_of_squares(controls) + contact

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        x_velocity = (self.center_x(after[:, -self.extras :]) - self.center_x(before)) / self.dt
        obs, forces, controls = self.split(after)
        healthy = _strictly_within(after[:, 2], self.z_range)
        rewards = self.forward_weight * x_velocity + self.survival.reward(healthy)
        return Answer(obs, rewards - self.costs(forces, controls), self.survival.terminated(healthy))


ALL_PARTS = (("cinert", 0), ("cvel", 0), ("qfrc_actuator", 0), ("cfrc_ext", 0))


class HumanoidV4(Humanoid):
    pays_the_fall = True

    def read_contact_cost(self, env: Any) -> None:
        pass

    def parts_shown(self, env: Any) -> tuple[tuple[str, int], ...]:
        return ALL_PARTS

    def costs(self, forces: np.ndarray, controls: np.ndarray) -> np.ndarray:
        return self.control_weight * _sum_of_squares(controls)


class HumanoidStandup(_Body):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.timestep = env.model.opt.timestep
        self.control_weight, self.impact_weight, self.impact_range = self.weights(env)

    def weights(self, env: Any) -> tuple[float, float, Range]:
        return env._ctrl_cost_weight, env._impact_cost_weight, tuple(env._impact_cost_range)

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        obs, forces, controls = self.split(after)
        impact = _clipped(self.impact_weight * _sum_of_squares(forces), *self.impact_range)
        reward = after[:, 2] / self.timestep - self.control_weight * _sum_of_squares(controls) - impact + 1
        return Answer(obs, reward, None)


class HumanoidStandupV4(HumanoidStandup):
    def weights(self, env: Any) -> tuple[float, float, Range]:
        return 0.1, 0.5e-6, (-math.inf, 10)

    def hides_positions(self, env: Any) -> bool:
        return True

    def parts_shown(self, env: Any) -> tuple[tuple[str, int], ...]:
        return ALL_PARTS


class InvertedPendulum(Formula):
    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        standing = np.isfinite(after).all(axis=1) & ~(np.abs(after[:, 1]) > 0.2)
        return Answer(after, self.reward(standing), ~standing)

    def reward(self, standing: np.ndarray) -> np.ndarray:
        return standing.astype(np.float64)


class InvertedPendulumV4(InvertedPendulum):
    def reward(self, standing: np.ndarray) -> np.ndarray:
        return np.ones(len(standing))


class InvertedDoublePendulum(Formula):
    shown_constraint_forces = 1

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.survival = self.survival_of(env)

    def survival_of(self, env: Any) -> _Survival:
        return _Survival(env._healthy_reward, terminates=True, pays_the_fall=False)

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        data = env.data
        return data.qpos, data.qvel, data.qfrc_constraint[: self.shown_constraint_forces], data.site_xpos[0]

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        end = self.positions
        angles, rates = after[:, 1:end], after[:, end:-3]
        obs = np.concatenate((after[:, :1], np.sin(angles), np.cos(angles), _clipped(rates, -10, 10)), axis=1)
        standing = ~(after[:, -1] <= 1)
        penalties = np.array([self.penalties(*row) for row in after[:, (-3, -1, end + 1, end + 2)].tolist()])
        reward = self.survival.reward(standing) - penalties[:, 0] - penalties[:, 1]
        return Answer(obs, reward, self.survival.terminated(standing))

    def penalties(self, x: float, y: float, v1: float, v2: float) -> tuple[float, float]:
        return 0.01 * x**2 + (y - 2) ** 2, 1e-3 * v1**2 + 5e-3 * v2**2


class InvertedDoublePendulumV4(InvertedDoublePendulum):
    shown_constraint_forces = 3

    def survival_of(self, env: Any) -> _Survival:
        return _Survival(10, terminates=True, pays_the_fall=True)


class Reacher(Formula):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.distance_weight, self.control_weight = env._reward_dist_weight, env._reward_control_weight

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        return env.data.qpos, env.data.qvel[:2], _body(env, "fingertip"), _body(env, "target")

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        to_target = after[:, -6:-3] - after[:, -3:]
        reward = -_lengths(to_target) * self.distance_weight + -_sum_of_squares(action) * self.control_weight
        return Answer(self.obs(after, to_target[:, :2]), reward, None)

    def obs(self, after: np.ndarray, to_target: np.ndarray) -> np.ndarray:
        angles = after[:, :2]
        return np.concatenate((np.cos(angles), np.sin(angles), after[:, 2:-6], to_target), axis=1)


class ReacherV4(Reacher):
    """Pays for the distance before the simulation, and shows all three coordinates of the one after it."""

    def __init__(self, env: Any) -> None:
        Formula.__init__(self, env)

    def before(self, env: Any) -> tuple[np.ndarray, ...]:
        return _body(env, "fingertip"), _body(env, "target")

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        reward = -_lengths(before[:, :3] - before[:, 3:]) + -_sum_of_squares(action)
        return Answer(self.obs(after, after[:, -6:-3] - after[:, -3:]), reward, None)


class Pusher(Formula):
    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.near_weight, self.distance_weight = env._reward_near_weight, env._reward_dist_weight
        self.control_weight = env._reward_control_weight

    def after(self, env: Any) -> tuple[np.ndarray, ...]:
        bodies = (_body(env, name) for name in ("tips_arm", "object", "goal"))
        return env.data.qpos[:7], env.data.qvel[:7], *bodies

    def answer(self, before: np.ndarray, after: np.ndarray, action: np.ndarray) -> Answer:
        tips, thing, goal = after[:, -9:-6], after[:, -6:-3], after[:, -3:]
        near = -_lengths(thing - tips) * self.near_weight
        distance = -_lengths(thing - goal) * self.distance_weight
        control = -_sum_of_squares(action) * self.control_weight
        return Answer(after, distance + control + near, None)


# Pusher-v4 is left out: Gymnasium refuses it with MuJoCo 3 and later.
FORMULAS: dict[str, type[Formula]] = {
    "half_cheetah_v5.HalfCheetahEnv": HalfCheetah,
    "half_cheetah_v4.HalfCheetahEnv": HalfCheetah,
    "hopper_v5.HopperEnv": Hopper,
    "hopper_v4.HopperEnv": HopperV4,
    "walker2d_v5.Walker2dEnv": Walker2d,
    "walker2d_v4.Walker2dEnv": Walker2dV4,
    "swimmer_v5.SwimmerEnv": Swimmer,
    "swimmer_v4.SwimmerEnv": Swimmer,
    "ant_v5.AntEnv": Ant,
    "ant_v4.AntEnv": AntV4,
    "humanoid_v5.HumanoidEnv": Humanoid,
    "humanoid_v4.HumanoidEnv": HumanoidV4,
    "humanoidstandup_v5.HumanoidStandupEnv": HumanoidStandup,
    "humanoidstandup_v4.HumanoidStandupEnv": HumanoidStandupV4,
    "inverted_pendulum_v5.InvertedPendulumEnv": InvertedPendulum,
    "inverted_pendulum_v4.InvertedPendulumEnv": InvertedPendulumV4,
    "inverted_double_pendulum_v5.InvertedDoublePendulumEnv": InvertedDoublePendulum,
    "inverted_double_pendulum_v4.InvertedDoublePendulumEnv": InvertedDoublePendulumV4,
    "reacher_v5.ReacherEnv": Reacher,
    "reacher_v4.ReacherEnv": ReacherV4,
    "pusher_v5.PusherEnv": Pusher,
}
