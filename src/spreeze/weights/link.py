"""What every way of weights promises.

Publisher.publish(flat, stamp)   makes the vector visible as a whole; afterwards its version is announced
Follower.version()               the newest announced version, 0 before the first; cheap enough for every step
Follower.load(into)              the newest whole vector, copied; raises WeightsError and leaves `into` in an
                                 unknown state when what is there is not whole: the caller keeps what it had
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class WeightsStamp(NamedTuple):
    version: int
    updates: int  # updates that these weights have seen
    published_ns: int  # monotonic clock when they were handed to the publisher


class Publisher(Protocol):
    def publish(self, flat: np.ndarray, stamp: WeightsStamp) -> None: ...


class Follower(Protocol):
    def version(self) -> int: ...
    def load(self, into: np.ndarray) -> WeightsStamp: ...
