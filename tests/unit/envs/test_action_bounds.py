"""Actions between [-1, 1] and the environment's bounds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spreeze.envs.bounds import Bounds
from spreeze.spec import EnvSpec


def bounds_of(low: list[float], high: list[float]) -> Bounds:
    return Bounds(EnvSpec("some-v0", 1, len(low), tuple(low), tuple(high)), np.dtype(np.float32))


def test_finite_bounds_are_reached_and_the_rest_passes_unscaled() -> None:
    scale = bounds_of([-2.0, 0.0, -np.inf, -3.0, -np.inf], [2.0, 10.0, np.inf, np.inf, 1.0])
    action = np.array([[-1, -1, -1, -1, -1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0.5, 0.5, 0.5, 0.5, 0.5]], np.float32)
    expected = [[-2, 0, -1, -1, -1], [0, 5, 0, 0, 0], [2, 10, 1, 1, 1], [1, 7.5, 0.5, 0.5, 0.5]]
    np.testing.assert_array_equal(scale(action), expected)


def test_the_given_action_is_never_handed_on() -> None:
    action = np.zeros((2, 1), np.float32)
    scaled = bounds_of([-1.0], [1.0])(action)
    assert not np.shares_memory(scaled, action)


_number = st.floats(-1e6, 1e6, width=32)


@given(st.tuples(_number, _number), st.floats(-1, 1, width=32))
def test_rounding_never_leaves_the_bounds(ends: tuple[float, float], action: float) -> None:
    low, high = sorted(ends)
    scaled = bounds_of([low], [high])(np.array([[-1.0], [action], [1.0]], np.float32))
    assert (scaled >= np.float32(low)).all()
    assert (scaled <= np.float32(high)).all()
