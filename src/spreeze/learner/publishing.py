"""The publisher beside the learner's loop: a thread that writes the newest weights, so that a slow disk slows nothing
but the weights. A vector that is not finite is never published. What the thread cannot handle ends the learner."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import numpy as np
import torch

from spreeze.errors import NotFiniteError, WeightsError
from spreeze.weights.link import Publisher, WeightsStamp

PUBLISH_EVERY_S = 0.03
_CLOSE_WITHIN_S = 30.0


class Publishing:
    """`offer` after updates; at most one vector is on its way at a time."""

    def __init__(
        self,
        publisher: Publisher,
        flat: torch.Tensor,
        warn: Callable[[str], None],
        version: int = 0,
        losses: torch.Tensor | None = None,
        renew: Callable[[int], object] | None = None,
    ) -> None:
        """`version`: the last one of an earlier command. `losses`: checked beside the weights where they lie on the
        same device. `renew`: makes `flat` from the actor after so many updates."""
        self._publisher = publisher
        self._flat = flat  # on the actor's device
        self._renew = renew
        self._losses = losses if losses is not None and losses.device == flat.device else flat[:0]
        self._host = torch.zeros(flat.shape, pin_memory=flat.is_cuda)
        self._host_losses = torch.zeros(self._losses.shape, pin_memory=flat.is_cuda)
        self.checked_updates = 0  # that weights and losses had seen when they were found finite
        self._copied = torch.cuda.Event() if flat.is_cuda else None
        self._copying: WeightsStamp | None = None
        self._warn = warn
        self._jobs: queue.SimpleQueue[WeightsStamp | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._failure: Exception | None = None
        self._disk_refuses = False
        self._due = 0.0
        self.version = version
        self._published_updates = -1
        self._thread = threading.Thread(target=self._work, name="publisher", daemon=True)
        self._thread.start()

    def offer(self, updates: int) -> None:
        """Starts a publication when one is due, there is something new and the one before has ended."""
        if self._failure is not None:
            raise self._failure
        if self._copying is not None:
            if self._copied is not None and not self._copied.query():
                return
            self._hand_over()
        elif updates > self._published_updates and time.monotonic() >= self._due and self._idle.is_set():
            self._begin(updates)

    def recover(self) -> None:
        """Goes on after weights that were not finite."""
        self._idle.wait(_CLOSE_WITHIN_S)
        self._failure = None

    def publish_now(self, updates: int) -> None:
        """Returns when the weights are announced, unless these are already."""
        if updates <= self._published_updates:
            return
        self._begin(updates)
        if self._copying is not None:
            self._hand_over()
        if not self._idle.wait(_CLOSE_WITHIN_S):
            raise WeightsError(f"weights of version {self.version} were not written within {_CLOSE_WITHIN_S:.0f} s")
        if self._failure is not None:
            raise self._failure
        if self._disk_refuses:
            raise WeightsError(f"weights of version {self.version} were not written: the disk refuses")

    def close(self, updates: int) -> None:
        """Publishes what is newest and ends the thread."""
        if self._copying is not None:
            self._hand_over()
        idle = self._idle.wait(_CLOSE_WITHIN_S)
        if idle and updates > self._published_updates and self._failure is None:
            self._begin(updates)
            if self._copying is not None:
                self._hand_over()
        self._jobs.put(None)
        self._thread.join(_CLOSE_WITHIN_S)
        if self._failure is not None:
            raise self._failure

    def _begin(self, updates: int) -> None:
        self.version += 1
        self._published_updates = updates
        self._due = time.monotonic() + PUBLISH_EVERY_S
        self._idle.clear()
        self._copying = WeightsStamp(self.version, updates, time.monotonic_ns())
        if self._renew is not None:
            self._renew(updates)
        self._host.copy_(self._flat.detach(), non_blocking=True)
        self._host_losses.copy_(self._losses.detach(), non_blocking=True)
        if self._copied is None:
            self._hand_over()
        else:
            self._copied.record(torch.cuda.current_stream(self._flat.device))

    def _hand_over(self) -> None:
        if self._copied is not None:
            self._copied.synchronize()
        self._jobs.put(self._copying)
        self._copying = None

    def _work(self) -> None:
        host = self._host.numpy()
        while (stamp := self._jobs.get()) is not None:
            try:
                self._publish(host, stamp)
            except Exception as error:
                self._failure = error
            self._idle.set()

    def _publish(self, host: np.ndarray, stamp: WeightsStamp) -> None:
        if not np.isfinite(host).all():
            raise NotFiniteError(
                f"after {stamp.updates} updates {np.count_nonzero(~np.isfinite(host))} of {len(host)} actor weights "
                "are not finite; they were not published. A lower --lr is the first thing to try."
            )
        if not torch.isfinite(self._host_losses).all():
            raise NotFiniteError(
                f"after {stamp.updates} updates the losses are not finite; the weights were not published. "
                "A lower --lr is the first thing to try."
            )
        self.checked_updates = stamp.updates
        try:
            self._publisher.publish(host, stamp)
            self._disk_refuses = False
        except OSError as error:  # the disk: the last good file stands, the next publication tries again
            if not self._disk_refuses:  # said once and not with each try
                self._warn(f"weights of version {stamp.version}, {host.nbytes:,} bytes, were not written: {error}")
            self._disk_refuses = True
