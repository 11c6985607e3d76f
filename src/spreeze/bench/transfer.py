"""`spreeze bench transfer`: rows from writers to one reader, each in a process of its own, through the real link.

Every way of experience can be measured (--transport all), and MPI beside them where mpi4py is installed (mpi.py). With
several --writers, --row-bytes or --block every combination is. Two rows each by default: flat out, where the writer
waits only for room and the reader never rests, and paced at 20,000 rows a second, where the reader looks every
--poll-ms and is busy in between, as a learner is with its updates. (One that sleeps pays for waking up, 25 us a time
on a virtual machine: more than for the rows.)

    rows_hz            that the reader got
    age_ms_p50, _p95   from the moment before a block was sent until the reader has copied it out
    reader_cpu_share   CPU time of looking for rows and draining them / wall-clock
    writers_cpu_share  CPU time of a writer's sending, waiting for its turn included / wall-clock; mean of the writers
    bare_copy_hz       the limit of the same run: one process copies the same blocks and nothing else
    share              rows_hz / bare_copy_hz (flat out only)

The rows' numbers are checked: all of them in one drain of 16, the first and the last row in the others (with one
writer); after each window as many rows must have come as were sent. Rows of a pool are drawn where they are: they are
not copied out, but for the drains that are checked.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spreeze.bench.folder import BENCH_DIR, bench_folder
from spreeze.bench.helper import Helper
from spreeze.bench.mpi import MpiMissing, measure_mpi
from spreeze.bench.options import read_options, several
from spreeze.bench.row_writer import BLOCKS_IN_TABLE
from spreeze.bench.windows import LEAST_WINDOWS, Windows, document
from spreeze.config import one_of, or_none, or_word, positive, setting, whole
from spreeze.errors import ConfigError, ExperienceError
from spreeze.experience.link import STEPPED_NS, Drained, Receiver
from spreeze.experience.pool import PoolReceiver
from spreeze.experience.ways import WAYS
from spreeze.runtime.topology import connect, wired_descriptors
from spreeze.spec import Layout

MPI, ALL = "mpi", "all"
FLAT_OUT = "flat-out"
PACED_HZ = 20_000.0
LEAST_ROW_BYTES = 20  # one number each: observation, action, next observation, reward, discount
_READER_ROWS = 1 << 14
_POOL_ROWS = 100_000  # that a pool keeps: more than a processor's cache holds
LEAD_S = 0.05  # writers begin so long before a window and end so long after it
_WHOLE_CHECK_EVERY = 16


@dataclass(frozen=True)
class TransferOptions:
    transport: tuple[str, ...] = setting(
        ("ring",), several(one_of(*WAYS, MPI, ALL)), f"the way of experience, {MPI}, or {ALL}: rows for each"
    )
    writers: tuple[int, ...] = setting((1,), several(whole(1, 256)), "writing processes: rows for each")
    row_bytes: tuple[int, ...] = setting(
        (200,), several(whole(LEAST_ROW_BYTES)), "bytes of a row, a multiple of 4: rows for each"
    )
    block: tuple[int, ...] = setting((32,), several(whole(1, 4096)), "rows handed over at once: rows for each")
    hz: float | str | None = setting(
        None, or_none(or_word(FLAT_OUT, positive())), "rows a second of all writers together (default: both rows)"
    )
    poll_ms: float = setting(1.0, positive(), "milliseconds between the reader's looks; none flat out")
    seconds: float = setting(1.0, positive(), "length of a window")
    windows: int = setting(LEAST_WINDOWS, whole(LEAST_WINDOWS), "windows of each figure")


def run(words: list[str]) -> dict[str, Any]:
    options = read_options("transfer", words, TransferOptions)
    for row_bytes in options.row_bytes:
        if row_bytes % 4:
            raise ConfigError(f"--row-bytes {row_bytes}: a row is made of numbers of 4 bytes; give a multiple of 4")
    paces = (None, PACED_HZ) if options.hz is None else (None if options.hz == FLAT_OUT else float(options.hz),)
    transports = (*WAYS, MPI) if ALL in options.transport else options.transport
    cases = itertools.product(transports, options.writers, options.row_bytes, options.block, paces)
    rows = [measure_case(Case(*case, options.poll_ms, options.seconds, options.windows)) for case in cases]
    return document("transfer", dataclasses.asdict(options), rows)


class Case(NamedTuple):
    """What one row of the document measures."""

    transport: str
    writers: int
    row_bytes: int
    block: int
    hz: float | None  # of all writers together; None: flat out
    poll_ms: float
    seconds: float
    windows: int

    @property
    def poll_s(self) -> float:
        return 0.0 if self.hz is None else self.poll_ms / 1e3

    def settings(self) -> dict[str, Any]:
        names = ("transport", "writers", "row_bytes", "block", "seconds")
        paced = {"offered_hz": FLAT_OUT} if self.hz is None else {"offered_hz": self.hz, "poll_ms": self.poll_ms}
        return {**{name: getattr(self, name) for name in names}, **paced}


def layout_of_row(row_bytes: int) -> Layout:
    """Some layout whose row has that many bytes."""
    row_size = row_bytes // 4
    obs_size = (row_size - 3) // 2
    return Layout(obs_size, row_size - 2 - 2 * obs_size)


def measure_case(case: Case) -> dict[str, Any]:
    windows = Windows()
    try:
        for figures in measure_mpi(case._asdict()) if case.transport == MPI else _measured(case):
            windows.add(**figures)
    except MpiMissing as reason:
        return {**windows.row(case.settings()), "why": str(reason)}
    return windows.row(case.settings())


def _measured(case: Case) -> Iterator[dict[str, float]]:
    with bench_folder(BENCH_DIR, "transfer") as folder, _writers(case, folder) as (helpers, reader):
        for _ in range(case.windows):
            figures = _window(helpers, reader, case.seconds, case.hz, case.poll_s)
            if case.hz is None:
                helpers[0].ask({"do": "bare", "seconds": case.seconds / 2})
                bare_hz = helpers[0].answer()["bare_hz"]
                figures |= {"bare_copy_hz": bare_hz, "share": figures["rows_hz"] / bare_hz}
            yield figures


def _window(helpers: list[Helper], reader: Reader, seconds: float, hz: float | None, poll_s: float) -> dict[str, float]:
    share_hz = None if hz is None else hz / len(helpers)
    for helper in helpers:
        helper.ask({"do": "write", "seconds": seconds + 2 * LEAD_S, "hz": share_hz})
    reader.read_for(LEAD_S, poll_s)
    figures = reader.measure(seconds, poll_s)
    while not all(helper.answered() for helper in helpers):
        reader.read_for(0.0, poll_s)
    answers = [helper.answer() for helper in helpers]
    sent = sum(answer["rows_sent"] for answer in answers)
    reader.read_the_rest()
    if reader.rows != sent:
        raise ExperienceError(f"{sent:,} rows were sent and {reader.rows:,} came")
    return {**figures, "writers_cpu_share": float(np.mean([answer["cpu_share"] for answer in answers]))}


class Reader:
    """Drains the rings and looks at what comes. With one writer the order of rows is checked as well: with several a
    drain holds pieces of all of them, and only whole pieces can be told apart."""

    def __init__(self, receiver: Receiver, writers: int, block: int, row_size: int) -> None:
        self._receiver = receiver
        self._pool = receiver if isinstance(receiver, PoolReceiver) else None
        self._ordered = writers == 1
        self._table_rows = BLOCKS_IN_TABLE * block
        self._into = np.zeros((max(_READER_ROWS, 8 * block), row_size), np.float32)
        self._drains = 0
        self._busy_s = 0.0
        self._drained: list[tuple[int, np.ndarray]] = []  # when, and what was announced
        self.rows = 0  # since the start

    def measure(self, seconds: float, poll_s: float) -> dict[str, float]:
        self._drained.clear()
        rows_before, cpu_before, start = self.rows, time.thread_time(), time.perf_counter()
        self._busy_s = 0.0
        self.read_for(seconds, poll_s)
        elapsed_s, cpu_s = time.perf_counter() - start, time.thread_time() - cpu_before
        p50, p95 = np.percentile(self._ages_ms(), (50, 95))
        return {
            "rows_hz": (self.rows - rows_before) / elapsed_s,
            "age_ms_p50": float(p50),
            "age_ms_p95": float(p95),
            "reader_cpu_share": (cpu_s - self._busy_s) / elapsed_s,
        }

    def read_for(self, seconds: float, poll_s: float) -> None:
        end = time.perf_counter() + seconds
        while True:
            drained = self._drain()
            if drained.rows:
                self._note(drained)
            if time.perf_counter() >= end:
                return
            if poll_s:
                self._be_busy(poll_s)

    def _be_busy(self, seconds: float) -> None:
        cpu_before, end = time.thread_time(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        self._busy_s += time.thread_time() - cpu_before

    def read_the_rest(self) -> None:
        while (drained := self._drain()).rows:
            self._note(drained)

    def _drain(self) -> Drained:
        if self._pool is not None and (self._drains + 1) % _WHOLE_CHECK_EVERY:
            return self._pool.take()
        return self._receiver.drain(self._into)

    def _note(self, drained: Drained) -> None:
        """In the timed section: no more than a glance, the arithmetic comes afterwards."""
        self._drained.append((time.monotonic_ns(), drained.announcements))
        self._drains += 1
        if self._drains % _WHOLE_CHECK_EVERY == 0:
            self._check(self._into[: drained.rows])
        elif self._ordered and self._pool is None:
            self._glance(drained.rows)
        self.rows += drained.rows

    def _glance(self, count: int) -> None:
        first, last = self.rows % self._table_rows, (self.rows + count - 1) % self._table_rows
        if self._into.item(0, 0) != first or self._into.item(count - 1, -1) != last:
            raise self._broken_order()

    def _check(self, rows: np.ndarray) -> None:
        if (rows[:, 0] != rows[:, -1]).any():
            raise ExperienceError("a row is torn: its first and its last number differ")
        if self._ordered and (rows[:, 0] != (self.rows + np.arange(len(rows))) % self._table_rows).any():
            raise self._broken_order()

    def _broken_order(self) -> ExperienceError:
        return ExperienceError(f"rows are missing, doubled or out of order after row {self.rows:,}")

    def _ages_ms(self) -> np.ndarray:
        ages = [now_ns - announcements[:, STEPPED_NS] for now_ns, announcements in self._drained]
        return np.concatenate(ages) / 1e6 if ages else np.array([np.nan])


@contextmanager
def _writers(case: Case, folder: Path) -> Iterator[tuple[list[Helper], Reader]]:
    layout = layout_of_row(case.row_bytes)
    topology = connect(layout, case.writers, case.block, 1, "ssd", 0, experience=case.transport, kept_rows=_POOL_ROWS)
    helpers: list[Helper] = []
    try:
        for index in range(case.writers):
            wiring = topology.wiring(f"sampler-{index}")
            setup = {"wiring": wiring, "folder": str(folder), "block": case.block, "row_size": layout.row_size}
            log = folder / f"writer-{index}.txt"
            helpers.append(Helper("spreeze.bench.row_writer", setup, log, wired_descriptors(wiring)))
        for helper in helpers:
            helper.answer()
        yield helpers, Reader(topology.experience.receiver(), case.writers, case.block, layout.row_size)
    finally:
        for helper in helpers:
            helper.close()
        topology.close()
