"""A place: where one half of the updates is computed. A device, and work on it that is done in the order it was given.

On a GPU that is a stream. On a CPU it is a thread with a queue, which keeps the same rules, so that whoever hands out
the work does not ask what kind of place it is:

    mark = place.submit(work, after=(other_mark,))     `work` begins when all that was submitted here before it and all
                                                       that the marks stand for has ended; `mark` stands for its own end

Whoever submits goes on at once, with one exception: work for a GPU after a mark of a CPU is launched when the CPU has
come so far. Since each mark is of something submitted earlier, no two places can wait for one another.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from spreeze.errors import SpreezeError

Work = Callable[[], object]
_WITHIN_S = 600.0  # far beyond any update: what takes longer hangs


class PlaceError(SpreezeError):
    """A place does not come to the end of its work."""


class Mark(Protocol):
    """The end of a piece of work."""

    def wait(self) -> None: ...  # the calling thread, until it is reached

    def hold(self, stream: torch.cuda.Stream) -> None: ...  # the stream, until it is reached


class Place(Protocol):
    name: str
    device: torch.device

    def submit(self, work: Work, after: Sequence[Mark] = ()) -> Mark: ...

    def begin(self) -> None: ...  # what is submitted from here on sees what the device's current stream has done

    def finish(self) -> Mark: ...  # the device's current stream, or the CPU's caller, sees all that was submitted

    def wait(self) -> None: ...  # until all that was submitted has been done

    def close(self) -> None: ...

    def capture(self, work: Work, generators: Sequence[torch.Generator]) -> Work: ...  # -> does the same, faster


class CpuMark:
    """A lock is the cheapest thing that a thread can wait for: it is released once and never taken again."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._lock = threading.Lock()
        self._lock.acquire()

    def reach(self) -> None:
        self._lock.release()

    def wait(self) -> None:
        if not self._lock.acquire(timeout=_WITHIN_S):
            raise PlaceError(f"waited {_WITHIN_S:.0f} s for {self._of} to end a piece of an update")
        self._lock.release()

    def hold(self, stream: torch.cuda.Stream) -> None:
        self.wait()


class CpuPlace:
    """A thread of its own. It begins with the floating-point mode of the thread that makes it."""

    device = torch.device("cpu")

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self._threads = threads
        self._jobs: queue.SimpleQueue[tuple[Work, Sequence[Mark], CpuMark] | None] = queue.SimpleQueue()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, after: Sequence[Mark] = ()) -> Mark:
        mark = CpuMark(self.name)
        self._jobs.put((work, after, mark))
        return mark

    def begin(self) -> None:
        """Its caller's work is done already."""

    def finish(self) -> Mark:
        last = self.submit(_nothing)
        last.wait()
        if self._failure is not None:
            raise self._failure
        return last

    def wait(self) -> None:
        self.finish()

    def capture(self, work: Work, generators: Sequence[torch.Generator]) -> Work:
        return work

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join(_WITHIN_S)

    def _work(self) -> None:
        torch.set_num_threads(self._threads)
        with torch.no_grad():
            while (job := self._jobs.get()) is not None:
                self._do(*job)

    def _do(self, work: Work, after: Sequence[Mark], mark: CpuMark) -> None:
        try:
            for other in after:
                other.wait()
            if self._failure is None:  # after a failure the rest is let go, so that nobody waits for it
                work()
        except Exception as error:
            self._failure = error
        finally:
            mark.reach()


class CudaMark:
    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.synchronize()

    def hold(self, stream: torch.cuda.Stream) -> None:
        stream.wait_event(self._event)


class CudaPlace:
    """A stream of its own; two of them may share a GPU."""

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        self.device = device
        self._stream = torch.cuda.Stream(device)

    def submit(self, work: Work, after: Sequence[Mark] = ()) -> Mark:
        with torch.cuda.stream(self._stream), torch.no_grad():
            for mark in after:
                mark.hold(self._stream)
            work()
            return self._mark()

    def begin(self) -> None:
        self._stream.wait_stream(torch.cuda.current_stream(self.device))

    def finish(self) -> Mark:
        torch.cuda.current_stream(self.device).wait_stream(self._stream)
        return self._mark()

    def wait(self) -> None:
        self._stream.synchronize()

    def close(self) -> None:
        self.wait()

    def capture(self, work: Work, generators: Sequence[torch.Generator]) -> Work:
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        with torch.cuda.device(self.device), torch.no_grad(), torch.cuda.graph(graph, stream=self._stream):
            work()
        return graph.replay

    def _mark(self) -> Mark:
        event = torch.cuda.Event(blocking=True)
        event.record(self._stream)
        return CudaMark(event)


def make_place(name: str, device: torch.device, threads: int = 1) -> Place:
    return CudaPlace(name, device) if device.type == "cuda" else CpuPlace(name, threads)


def _nothing() -> None:
    """The end of a queue."""
