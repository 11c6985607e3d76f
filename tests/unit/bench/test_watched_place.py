"""How much of the time two places were both at work."""

from __future__ import annotations

import threading

import pytest

from spreeze.bench.watched_place import WatchedPlace, overlap, time_of_both
from spreeze.learner.places import CpuPlace


def test_the_time_of_both_by_hand() -> None:
    left = [(0.0, 2.0), (3.0, 4.0), (6.0, 9.0)]
    right = [(1.0, 3.5), (5.0, 7.0), (8.0, 8.5), (9.0, 10.0)]
    assert time_of_both(left, right) == time_of_both(right, left) == 1.0 + 0.5 + 1.0 + 0.5
    assert overlap(left, right) == pytest.approx(3.0 / 10.0)
    assert overlap(left, []) == 0.0


def test_spans_of_pieces_that_wait_for_each_other_do_not_overlap_and_of_those_at_once_do() -> None:
    one, other = WatchedPlace(CpuPlace("one")), WatchedPlace(CpuPlace("other"))
    one.submit(lambda: None)  # before the start: not noted
    for place in (one, other):
        place.start()
    mark = one.submit(lambda: None)
    other.submit(lambda: None, (mark,))
    assert time_of_both(one.stop(), other.stop()) == 0.0
    for place in (one, other):
        place.start()
    barrier = threading.Barrier(2)
    for place in (one, other):
        place.submit(lambda: (barrier.wait(60), barrier.wait(60)))
    spans = one.stop(), other.stop()
    assert [len(spans_of) for spans_of in spans] == [1, 1]
    assert time_of_both(*spans) > 0.0
    for place in (one, other):
        place.close()
