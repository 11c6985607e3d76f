"""A CPU place keeps the rules of a stream: its own order, and marks of other places."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from spreeze.learner import places
from spreeze.learner.places import CpuPlace, PlaceError


@pytest.fixture
def two() -> Iterator[tuple[CpuPlace, CpuPlace]]:
    pair = CpuPlace("one"), CpuPlace("two")
    yield pair
    for place in pair:
        place.close()


def test_work_is_done_in_its_order_beside_the_caller(two: tuple[CpuPlace, CpuPlace]) -> None:
    place, _ = two
    gate, done = threading.Event(), []
    place.submit(gate.wait)
    for number in range(5):
        place.submit(lambda number=number: done.append(number))
    assert done == []  # and the caller came here all the same
    gate.set()
    place.finish()
    assert done == [0, 1, 2, 3, 4]


def test_work_waits_for_the_marks_of_another_place(two: tuple[CpuPlace, CpuPlace]) -> None:
    one, other = two
    gate, done = threading.Event(), []
    mark = one.submit(lambda: (gate.wait(), done.append("first")))
    for after in (mark, mark):  # a mark may be waited for twice
        other.submit(lambda: done.append("second"), (after,))
    assert done == []
    gate.set()
    other.finish()
    assert done == ["first", "second", "second"]


def test_two_places_work_at_once(two: tuple[CpuPlace, CpuPlace]) -> None:
    barrier = threading.Barrier(2)
    for place in two:
        place.submit(lambda: barrier.wait(60))
    for place in two:
        place.finish()


def test_a_failure_lets_the_rest_go_and_is_told_at_the_end(two: tuple[CpuPlace, CpuPlace]) -> None:
    one, other = two
    done = []

    def fail() -> None:
        raise ZeroDivisionError("in the middle")

    failed = one.submit(fail)
    one.submit(lambda: done.append("after a failure"))
    other.submit(lambda: done.append("elsewhere"), (failed,))
    other.finish()
    with pytest.raises(ZeroDivisionError, match="in the middle"):
        one.finish()
    assert done == ["elsewhere"]


def test_a_place_that_hangs_is_named(two: tuple[CpuPlace, CpuPlace], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two
    gate = threading.Event()
    monkeypatch.setattr(places, "_WITHIN_S", 0.05)
    stuck = one.submit(gate.wait)
    other.submit(lambda: None, (stuck,))
    with pytest.raises(PlaceError, match="for one to end"):
        stuck.wait()
    monkeypatch.undo()
    gate.set()
    one.finish()


def test_a_place_works_without_gradients_and_in_its_makers_floating_point_mode() -> None:
    seen = {}

    def look() -> None:
        seen["grad"] = torch.is_grad_enabled()
        seen["denormal"] = float(torch.full((64,), 1e-30).mul(1e-10)[0])

    for flushed in (True, False):
        if not torch.set_flush_denormal(flushed):
            pytest.skip("this CPU cannot flush denormals")
        place = CpuPlace("mode")
        torch.set_flush_denormal(False)
        place.submit(look)
        place.finish()
        place.close()
        assert seen["grad"] is False
        assert (seen["denormal"] == 0.0) is flushed
