"""When a state is shown and which states are drawn, so that an episode goes at the speed of life and costs little.

Pure: it is told the time. Where there is too little of it, pictures are left out first, and only then does the episode
slow down: what was lost is not caught up.
"""

from __future__ import annotations

import math
from collections import deque

MOST_HZ = 30.0
LATE_S = 0.25  # further behind than this, the episode is slowed down
_LONGEST_GAP_S = 0.25  # of the episode's time without a picture, however late it is
_WITHIN_S = 2.0


class Pace:
    def __init__(self, step_s: float, now_s: float, most_hz: float = MOST_HZ) -> None:
        self._step_s, self._gap_s = step_s, 1 / most_hz
        self.due_s = now_s - step_s  # of the newest state, on the caller's clock
        self._next_s = -math.inf
        self._elapsed_s = 0.0  # of the episodes, which falls behind the clock where they are slowed down
        self._drawn_at_s = -math.inf  # likewise
        self._shown: deque[tuple[float, float]] = deque()  # (now, elapsed time of the episodes) of pictures

    def advance(self, now_s: float) -> None:
        """One more state."""
        self.due_s = max(self.due_s + self._step_s, now_s - LATE_S)
        self._elapsed_s += self._step_s

    def draws(self, now_s: float) -> bool:
        """Whether this state is to be drawn; True counts as drawn."""
        if self.due_s < self._next_s - 1e-9:
            return False
        if now_s - self.due_s > self._gap_s and self._elapsed_s - self._drawn_at_s < _LONGEST_GAP_S - 1e-9:
            return False
        self._next_s = max(self._next_s, self.due_s - self._gap_s) + self._gap_s
        self._drawn_at_s = self._elapsed_s
        return True

    def shown(self, now_s: float) -> None:
        self._shown.append((now_s, self._elapsed_s))
        while now_s - self._shown[0][0] > _WITHIN_S and len(self._shown) > 2:
            self._shown.popleft()

    def rates(self) -> tuple[float, float]:
        """-> pictures a second and speed (1: of life), both lately."""
        if len(self._shown) < 2:
            return 0.0, 1.0
        (first_s, first), (last_s, last) = self._shown[0], self._shown[-1]
        span_s = max(last_s - first_s, 1e-9)
        return (len(self._shown) - 1) / span_s, min(1.0, (last - first) / span_s)
