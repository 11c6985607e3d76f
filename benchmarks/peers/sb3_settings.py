"""SAC's settings per task as RL Baselines3 Zoo publishes them, re-stated; tasks that it does not list run with the
library's defaults, and the results say so. Its MuJoCo tasks are of version 3; their settings hold here for later ones.
Tasks with a learning rate that falls over a fixed number of steps are left out: these runs have a time, not steps.

Source: hyperparams/sac.yml of RL Baselines3 Zoo (github.com/DLR-RM/rl-baselines3-zoo).
"""

from __future__ import annotations

from typing import Any

ZOO = "RL Baselines3 Zoo, hyperparams/sac.yml"
DEFAULTS = "the library's defaults: nothing is published for this task that could be re-stated"
_MUJOCO = {"learning_starts": 10_000}
_BULLET = {
    "learning_rate": 7.3e-4, "buffer_size": 300_000, "batch_size": 256, "ent_coef": "auto", "gamma": 0.98, "tau": 0.02,
    "train_freq": 8, "gradient_steps": 8, "learning_starts": 10_000, "use_sde": True,
    "policy_kwargs": {"log_std_init": -3, "net_arch": [400, 300]},
}  # fmt: skip
SAC: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"learning_rate": 1e-3},
    **dict.fromkeys(("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid"), _MUJOCO),
    **dict.fromkeys(("HalfCheetahBulletEnv-v0", "AntBulletEnv-v0"), _BULLET),
}


def settings_for(env: str) -> tuple[dict[str, Any], str]:
    """-> the settings, where they are from."""
    found = SAC.get(env, SAC.get(env.rsplit("-", 1)[0]))
    return ({}, DEFAULTS) if found is None else (found, ZOO)
