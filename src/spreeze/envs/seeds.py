"""Which seed starts which environment: no two environments of a run ever share one.

Engines give environment i the seed s + i (EnvPool does when given one number), so samplers with neighbouring seeds
would collect the same episodes twice. Here a seed is an address instead. From the low bits up:

    | environment in its role: 12 | role: 10 | generation: 9 |     31 bits, what every engine takes

A generation is spent when an environment is rebuilt after a fault; a restarted role starts some generations later.
The address is shifted by a number that the run's seed decides, so runs with different seeds differ everywhere.
"""

from __future__ import annotations

import numpy as np

ENVS_PER_ROLE = 1 << 12
ROLES = 1 << 10
SEED_SPACE = 1 << 31
GENERATION_STRIDE = ENVS_PER_ROLE * ROLES
GENERATIONS_PER_LIFE = 16


def role_seed(run_seed: int, role_index: int, life: int = 0) -> int:
    """The `seed` for make_vec_env in the given role (sampler 0, 1, ...; evaluators take numbers of their own)."""
    if not 0 <= role_index < ROLES:
        raise ValueError(f"role {role_index} of a run: expected 0 to {ROLES - 1}")
    shift = int(np.random.SeedSequence(run_seed).generate_state(1)[0])
    return (shift + role_index * ENVS_PER_ROLE + life * GENERATIONS_PER_LIFE * GENERATION_STRIDE) % SEED_SPACE


def env_seed(seed: int, env_index: int, generation: int = 0) -> int:
    """The seed of one environment of a role."""
    return (seed + env_index + generation * GENERATION_STRIDE) % SEED_SPACE
