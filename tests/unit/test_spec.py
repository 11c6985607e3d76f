"""The layout's numbers, as its docstring draws them."""

from __future__ import annotations

import numpy as np
import pytest

from spreeze.errors import ConfigError
from spreeze.spec import EnvSpec, Field, Layout, layout_of

ENV = EnvSpec("Test-v0", 3, 2, (-1.0, -float("inf")), (1.0, float("inf")), 200)


def test_the_row_that_the_docstring_draws() -> None:
    """| obs (3) | action (2) | next_obs (3) | reward (1) | discount (1) |"""
    layout = Layout(obs_size=3, action_size=2)
    assert layout.fields == (
        Field("obs", 3, 0),
        Field("action", 2, 3),
        Field("next_obs", 3, 5),
        Field("reward", 1, 8),
        Field("discount", 1, 9),
    )
    assert layout.row_size == 10
    assert layout.row_bytes == 40


@pytest.mark.parametrize(("obs_size", "action_size"), [(1, 1), (3, 2), (17, 6), (376, 17)])
def test_fields_fill_the_row_without_a_gap(obs_size: int, action_size: int) -> None:
    layout = Layout(obs_size, action_size)
    places = np.zeros(layout.row_size, int)
    for field in layout.fields:
        places[layout.slice_of(field.name)] += 1
        assert layout.slice_of(field.name) == slice(field.offset, field.offset + field.size)
    assert (places == 1).all()


def test_a_batch_is_views_of_its_rows() -> None:
    layout = Layout(3, 2)
    rows = np.arange(20, dtype=np.float32).reshape(2, 10)
    batch = layout.split(rows)
    np.testing.assert_array_equal(batch.obs, [[0, 1, 2], [10, 11, 12]])
    np.testing.assert_array_equal(batch.action, [[3, 4], [13, 14]])
    np.testing.assert_array_equal(batch.obs_action, [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]])
    np.testing.assert_array_equal(batch.next_obs, [[5, 6, 7], [15, 16, 17]])
    np.testing.assert_array_equal(batch.reward, [8, 18])
    np.testing.assert_array_equal(batch.discount, [9, 19])
    for field in batch:
        assert np.shares_memory(field, rows)


def test_an_unknown_field_is_refused_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="next_obs"):
        Layout(3, 2).slice_of("done")


def test_a_description_survives_json() -> None:
    assert EnvSpec.from_json(ENV.as_json()) == ENV


@pytest.mark.parametrize(("obs_size", "action_size"), [(0, 2), (3, 0)])
def test_an_environment_without_numbers_has_no_layout(obs_size: int, action_size: int) -> None:
    assert layout_of(ENV) == Layout(3, 2)
    with pytest.raises(ConfigError, match="Test-v0"):
        layout_of(EnvSpec("Test-v0", obs_size, action_size, (), ()))
