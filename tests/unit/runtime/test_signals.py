"""Which signals the supervisor counts, with real signals and a clock in the test's hand."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from spreeze.runtime import signals
from spreeze.runtime.signals import SAME_SIGNAL_S, signals_noted


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(signals, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def handlers() -> Iterator[dict[int, object]]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield before
    assert {number: signal.getsignal(number) for number in numbers} == before


def send(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def test_one_ctrl_c_that_arrives_twice_is_one(clock: Clock) -> None:
    """timeout(1) sends it to the process and to its group."""
    noted: list[int] = []
    with signals_noted(noted):
        send(signal.SIGINT)
        clock.now_s += SAME_SIGNAL_S / 2
        send(signal.SIGINT)
        assert noted == [signal.SIGINT]
        clock.now_s += SAME_SIGNAL_S
        send(signal.SIGINT)
    assert noted == [signal.SIGINT] * 2


def test_a_key_that_is_held_down_counts_again_and_again(clock: Clock) -> None:
    noted: list[int] = []
    with signals_noted(noted):
        for _ in range(10):
            send(signal.SIGINT)
            clock.now_s += SAME_SIGNAL_S * 0.6
    assert len(noted) == 5


def test_another_signal_counts_at_once(clock: Clock) -> None:
    noted: list[int] = []
    with signals_noted(noted):
        send(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    assert noted == [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def test_nohup_is_respected(clock: Clock) -> None:
    noted: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_noted(noted):
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert noted == []


def test_elsewhere_than_in_the_main_thread_signals_are_left_alone(handlers: dict[int, object]) -> None:
    inside: list[object] = []

    def look() -> None:
        with signals_noted([]):
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert inside == [handlers[signal.SIGINT]]
