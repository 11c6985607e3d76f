"""What is kept of hours of lines: known numbers, and increments that add up to the whole."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spreeze.web.thinning import Thinned, last, mean


def after(before: dict[str, list[Any]], answer: dict[str, Any]) -> dict[str, list[Any]]:
    """What a page has after an answer, as page/series.js puts it together."""
    return {name: before.get(name, [])[: answer["keep"]] + values for name, values in answer["points"].items()}


def test_points_join_two_by_two() -> None:
    thinned = Thinned({"x": last, "y": mean, "top": max}, capacity=4)
    for number in range(1, 7):
        thinned.add({"x": number, "y": float(number), "top": number})
    # 1..4 filled it and became (1,2), (3,4); then came (5,6)
    assert thinned.since(None)["points"] == {"x": [2, 4, 6], "y": [1.5, 3.5, 5.5], "top": [2, 4, 6]}


def test_the_open_point_shows_what_it_has() -> None:
    thinned = Thinned({"y": mean}, capacity=2)
    for value in (1.0, 3.0, 5.0):
        thinned.add({"y": value})
    assert thinned.since(None)["points"] == {"y": [2.0, 5.0]}
    thinned.add({"y": 7.0})
    assert len(thinned.since(None)["points"]["y"]) == 1, "(1,3) and (5,7) filled it again"
    assert thinned.since(None)["points"]["y"] == [4.0]


def test_what_is_no_number_is_left_out() -> None:
    thinned = Thinned({"y": mean}, capacity=2)
    for value in (math.nan, None, "1e3", True, [1], 10**400, math.inf, 4.0):
        thinned.add({"y": value})
    assert [value for value in thinned.since(None)["points"]["y"] if value is not None] == [4.0]


@given(st.integers(2, 9), st.lists(st.integers(0, 3), max_size=60))
def test_increments_add_up_to_the_whole(capacity: int, steps: list[int]) -> None:
    thinned = Thinned({"x": last, "y": mean}, capacity=capacity)
    kept: dict[str, list[Any]] = {}
    cursor, number = None, 0
    for lines in steps:
        for _ in range(lines):
            thinned.add({"x": number, "y": float(number)})
            number += 1
        answer = thinned.since(cursor)
        kept, cursor = after(kept, answer), answer["cursor"]
        assert kept == thinned.since(None)["points"]
        assert len(kept["x"]) <= capacity


def test_a_cursor_of_another_server_gets_everything() -> None:
    one, other = Thinned({"y": mean}), Thinned({"y": mean})
    for thinned in (one, other):
        thinned.add({"y": 1.0})
    for cursor in (one.since(None)["cursor"], "", "x.99", "..", "9" * 500, f"{other.since(None)['cursor']}9" * 3):
        assert other.since(cursor)["keep"] == 0
        assert other.since(cursor)["points"] == {"y": [1.0]}
