"""Ctrl-C and its kin: noted for the supervisor, which ends the run in order."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SAME_SIGNAL_S = 0.3  # one Ctrl-C may arrive twice: timeout(1) and others send it to the process and to its group


@contextmanager
def signals_noted(noted: list[int]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the run in order while the block runs; only a program's main thread may do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted_at: dict[int, float] = {}

    def note(number: int, frame: object) -> None:
        now = time.monotonic()
        if now - noted_at.get(number, -math.inf) > SAME_SIGNAL_S:
            noted.append(number)
            noted_at[number] = now

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup asked for it to be ignored
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
