"""`mpiexec -n WRITERS+1 python -m spreeze.bench.mpi_ranks CASE`: rank 0 reads, the others write; rank 0 prints the
figures of all windows as a line of JSON.

A message is a block: its announcement, then its rows. Sending blocks while the receiver is behind, as MPI does it;
there is no way to be refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

from spreeze.bench.row_writer import RowWriter
from spreeze.bench.transfer import LEAD_S, Case, Reader
from spreeze.errors import ExperienceError
from spreeze.experience.link import Drained, Stamp, together

_ROWS, _SENT, _BARE = 0, 1, 2  # tags
_HEADER = 5 * 8
_MOST_MESSAGES = 256


class MpiSender:
    def __init__(self, block: int, row_size: int) -> None:
        self._message = np.zeros(_HEADER + 4 * block * row_size, np.uint8)
        self._header = self._message[:_HEADER].view(np.int64)
        self._rows = self._message[_HEADER:].view(np.float32).reshape(block, row_size)

    def send(self, rows: np.ndarray, stamp: Stamp, stepped_ns: int) -> bool:
        self._header[:] = (len(rows), stepped_ns, *stamp)
        self._rows[:] = rows
        MPI.COMM_WORLD.Send([self._message, MPI.BYTE], dest=0, tag=_ROWS)
        return True


class MpiReceiver:
    def __init__(self, block: int, row_size: int) -> None:
        self._block = block
        self._message = np.zeros(_HEADER + 4 * block * row_size, np.uint8)
        self._header = self._message[:_HEADER].view(np.int64)
        self._rows = self._message[_HEADER:].view(np.float32).reshape(block, row_size)

    def drain(self, into: np.ndarray) -> Drained:
        world, filled = MPI.COMM_WORLD, 0
        told: list[np.ndarray] = []
        while len(told) < _MOST_MESSAGES and filled + self._block <= len(into) and world.Iprobe(tag=_ROWS):
            world.Recv([self._message, MPI.BYTE], tag=_ROWS)
            into[filled : filled + self._block] = self._rows
            filled += self._block
            told.append(self._header.copy())
        return Drained(filled, together([np.stack(told)] if told else []))


def write(case: Case, rank: int) -> None:
    world, row_size = MPI.COMM_WORLD, case.row_bytes // 4
    writer = RowWriter(MpiSender(case.block, row_size), case.block, row_size)
    for _ in range(case.windows):
        world.Barrier()
        cpu_share = writer.write(case.seconds + 2 * LEAD_S, None if case.hz is None else case.hz / case.writers)
        world.send((writer.rows_sent, cpu_share), dest=0, tag=_SENT)
        world.Barrier()
        if case.hz is None and rank == 1:
            world.send(writer.bare_copies(case.seconds / 2), dest=0, tag=_BARE)


def read(case: Case) -> list[dict[str, Any]]:
    world, row_size, all_figures = MPI.COMM_WORLD, case.row_bytes // 4, []
    reader = Reader(MpiReceiver(case.block, row_size), case.writers, case.block, row_size)
    for _ in range(case.windows):
        world.Barrier()
        reader.read_for(LEAD_S, case.poll_s)
        figures = reader.measure(case.seconds, case.poll_s)
        answers: list[tuple[int, float]] = []
        while len(answers) < case.writers:
            reader.read_for(0.0, case.poll_s)
            if world.Iprobe(tag=_SENT):
                answers.append(world.recv(tag=_SENT))
        reader.read_the_rest()
        sent = sum(rows for rows, _ in answers)
        if reader.rows != sent:
            raise ExperienceError(f"{sent:,} rows were sent and {reader.rows:,} came")
        world.Barrier()
        if case.hz is None:
            bare_hz = world.recv(source=1, tag=_BARE)
            figures |= {"bare_copy_hz": bare_hz, "share": figures["rows_hz"] / bare_hz}
        all_figures.append({**figures, "writers_cpu_share": float(np.mean([share for _, share in answers]))})
    return all_figures


def main() -> None:
    case, rank = Case(**json.loads(sys.argv[1])), MPI.COMM_WORLD.Get_rank()
    if rank == 0:
        print(json.dumps(read(case)), flush=True)
    else:
        write(case, rank)


if __name__ == "__main__":
    main()
