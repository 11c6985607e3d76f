"""Which seed starts which environment: no two environments of a run ever share one.

Engines give environment i the seed s + i (EnvPool does when given one number), so samplers with neighbouring seeds
would collect the same episodes twice. Here a seed is an address instead. From the low bits up:

    | environment in its role: 12 | role: 10 | generation: 9 |     31 bits, what every engine takes

A generation is spent when an environment is rebuilt after a fault; a restarted role starts some generations later.
The address is shifted by a number that the run's seed decides, so runs with different seeds differ everywhere.
Where a number outgrows its bits (a role restarted more than 31 times, an environment rebuilt more than 15 times in one
life), the seed is drawn from the whole space instead: one in a million of these meets another.
"""

from __future__ import annotations

import numpy as np

ENVS_PER_ROLE = 1 << 12
ROLES = 1 << 10
SEED_SPACE = 1 << 31
GENERATION_STRIDE = ENVS_PER_ROLE * ROLES
GENERATIONS_PER_LIFE = 16
LIVES = SEED_SPACE // (GENERATIONS_PER_LIFE * GENERATION_STRIDE)


def role_seed(run_seed: int, role_index: int, life: int = 0) -> int:
    """The `seed` for make_vec_env in the given role (sampler 0, 1, ...; evaluators take numbers of their own)."""
    if not 0 <= role_index < ROLES:
        raise ValueError(f"role {role_index} of a run: expected 0 to {ROLES - 1}")
    era, life = divmod(life, LIVES)
    shift = _drawn(run_seed, era) if era else _drawn(run_seed)
    return (shift + role_index * ENVS_PER_ROLE + life * GENERATIONS_PER_LIFE * GENERATION_STRIDE) % SEED_SPACE


def env_seed(seed: int, env_index: int, generation: int = 0) -> int:
    """The seed of one environment of a role."""
    if generation >= GENERATIONS_PER_LIFE:
        return _drawn(seed, env_index, generation) % SEED_SPACE
    return (seed + env_index + generation * GENERATION_STRIDE) % SEED_SPACE


def _drawn(*address: int) -> int:
    return int(np.random.SeedSequence(address if len(address) > 1 else address[0]).generate_state(1)[0])
