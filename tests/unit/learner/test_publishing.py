"""The publisher beside the loop: at most one vector on its way, the newest at the end, nothing that is not finite."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from spreeze.errors import NotFiniteError  # noqa: E402
from spreeze.learner import publishing as publishing_module  # noqa: E402
from spreeze.learner.publishing import PUBLISH_EVERY_S, Publishing  # noqa: E402
from spreeze.weights.link import WeightsStamp  # noqa: E402

WITHIN_S = 30.0


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


class Disk:
    """A publisher that can be held up, or fail; `published` is what came through."""

    def __init__(self) -> None:
        self.published: list[tuple[WeightsStamp, list[float]]] = []
        self.trouble: Exception | None = None
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def publish(self, flat: np.ndarray, stamp: WeightsStamp) -> None:
        self.entered.set()
        assert self.open.wait(WITHIN_S)
        if self.trouble is not None:
            raise self.trouble
        self.published.append((stamp, flat.tolist()))

    @property
    def updates(self) -> list[int]:
        return [stamp.updates for stamp, _ in self.published]


class Desk:
    """A Publishing with everything around it in the test's hand."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.disk = Disk()
        self.flat = torch.zeros(3)
        self.warnings: list[str] = []
        self.renew: Callable[[int], object] = lambda updates: None
        self.publishing = Publishing(
            self.disk, self.flat, self.warnings.append, renew=lambda updates: self.renew(updates)
        )

    def offer(self, updates: int, after_s: float = PUBLISH_EVERY_S) -> None:
        """The clock moves on, the updates are done, and they are offered; waits until what began has ended."""
        self.begin(updates, after_s)
        self.wait_idle()

    def begin(self, updates: int, after_s: float = PUBLISH_EVERY_S) -> None:
        self.clock.now_s += after_s
        self.flat.fill_(updates)
        self.publishing.offer(updates)

    def wait_idle(self) -> None:
        assert self.publishing._idle.wait(WITHIN_S)


@pytest.fixture
def make_desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Desk]]:
    clock = Clock()
    monkeypatch.setattr(publishing_module, "time", clock)
    made: list[Desk] = []

    def make() -> Desk:
        made.append(Desk(clock))
        return made[-1]

    yield make
    for desk in made:
        desk.disk.open.set()
        desk.publishing._jobs.put(None)
        desk.publishing._thread.join(WITHIN_S)
        assert not desk.publishing._thread.is_alive()


def test_what_is_new_is_published_with_its_stamp(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.offer(5)
    assert desk.disk.published == [(WeightsStamp(1, 5, desk.clock.monotonic_ns()), [5.0] * 3)]
    desk.offer(5)  # nothing new
    desk.offer(6, after_s=PUBLISH_EVERY_S / 2)
    assert desk.disk.updates == [5, 6]
    desk.offer(7, after_s=PUBLISH_EVERY_S / 2)  # not due yet
    desk.offer(8, after_s=PUBLISH_EVERY_S / 2)
    assert desk.disk.updates == [5, 6, 8]
    assert [stamp.version for stamp, _ in desk.disk.published] == [1, 2, 3]


def test_a_vector_that_is_made_from_the_actor_is_made_anew_for_each_publication(
    make_desk: Callable[[], Desk],
) -> None:
    desk = make_desk()
    desk.renew = lambda updates: desk.flat.fill_(-updates)
    for updates in (5, 6):
        desk.offer(updates)
    assert [values for _, values in desk.disk.published] == [[-5.0] * 3, [-6.0] * 3]


def test_a_slow_disk_holds_nothing_up_and_changes_no_vector(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.disk.open.clear()
    desk.begin(1)
    assert desk.disk.entered.wait(WITHIN_S)
    for updates in range(2, 50):
        desk.begin(updates)  # returns at once; the vector on its way stays what it was
    desk.disk.open.set()
    desk.wait_idle()
    desk.offer(50)
    assert [(stamp.updates, flat) for stamp, flat in desk.disk.published] == [(1, [1.0] * 3), (50, [50.0] * 3)]


def test_the_newest_is_published_at_the_end(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.offer(1)
    desk.flat.fill_(2)
    desk.publishing.close(2)
    assert desk.disk.updates == [1, 2]
    assert desk.disk.published[-1][1] == [2.0] * 3
    assert not desk.publishing._thread.is_alive()


def test_nothing_is_published_twice_at_the_end(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.offer(1)
    desk.publishing.close(1)
    assert desk.disk.updates == [1]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_ends_the_learner_unpublished(make_desk: Callable[[], Desk], bad: float) -> None:
    desk = make_desk()
    desk.offer(1)
    desk.flat[1] = bad
    desk.clock.now_s += 1
    desk.publishing.offer(2)
    desk.wait_idle()
    for _ in range(2):  # it stays so
        with pytest.raises(NotFiniteError, match="after 2 updates 1 of 3 actor weights are not finite"):
            desk.publishing.offer(3)
    assert desk.disk.updates == [1]


def test_what_is_not_finite_at_the_end_is_not_published_either(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.flat[0] = float("nan")
    with pytest.raises(NotFiniteError):
        desk.publishing.close(1)
    assert desk.disk.updates == []
    assert not desk.publishing._thread.is_alive()


def test_a_disk_that_refuses_is_said_once_and_tried_again(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.disk.trouble = OSError(28, "No space left on device")
    for updates in (1, 2, 3):
        desk.offer(updates)
    assert len(desk.warnings) == 1
    assert "12 bytes" in desk.warnings[0]
    assert "No space left" in desk.warnings[0]
    desk.disk.trouble = None
    desk.offer(4)
    assert desk.disk.updates == [4]
    desk.disk.trouble = OSError(28, "No space left on device")
    desk.offer(5)
    assert len(desk.warnings) == 2


def test_an_error_that_nobody_expected_is_raised_in_the_loop(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    desk.disk.trouble = ZeroDivisionError("a fault in the publisher")
    desk.offer(1)
    with pytest.raises(ZeroDivisionError, match="a fault in the publisher"):
        desk.publishing.offer(2)


def test_a_disk_that_hangs_at_the_end_does_not_get_a_mixed_vector(
    make_desk: Callable[[], Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing_module, "_CLOSE_WITHIN_S", 0.0)
    desk = make_desk()
    desk.disk.open.clear()
    desk.begin(1)
    desk.flat.fill_(2)
    desk.publishing.close(2)
    desk.disk.open.set()
    desk.publishing._thread.join(WITHIN_S)
    assert [(stamp.updates, flat) for stamp, flat in desk.disk.published] == [(1, [1.0] * 3)]
