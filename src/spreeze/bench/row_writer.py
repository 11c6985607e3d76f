"""`python -m spreeze.bench.row_writer`: a sampler's end of a link without a simulator behind it.

Its rows lie ready in a table, so that a window times the link and not the making of rows. First and last number of a
row hold its place in the table, by which the reader sees lost, doubled and torn rows.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.bench.helper import Handler, serve
from spreeze.experience.link import Sender, Stamp
from spreeze.runtime.topology import open_board, open_sampler_links

BLOCKS_IN_TABLE = 32
_UNSTAMPED = Stamp(0, 0, 0)


def make_table(block: int, row_size: int) -> np.ndarray:
    """(BLOCKS_IN_TABLE x block, row_size) float32: numbers up to 2^24 are whole in it, and this table is shorter."""
    table = np.zeros((BLOCKS_IN_TABLE * block, row_size), np.float32)
    table[:, 0] = table[:, -1] = np.arange(len(table))
    return table


class RowWriter:
    def __init__(self, sender: Sender, block: int, row_size: int) -> None:
        table = make_table(block, row_size)
        self._sender = sender
        self._row_count = block
        self._blocks = [table[start : start + block] for start in range(0, len(table), block)]
        self._sent = 0  # blocks, since the start

    def write(self, seconds: float, hz: float | None) -> float:
        """-> CPU time / wall-clock."""
        cpu_before, start = time.process_time(), time.perf_counter()
        if hz is None:
            self.flat_out(seconds)
        else:
            self.paced(seconds, hz)
        return (time.process_time() - cpu_before) / (time.perf_counter() - start)

    def flat_out(self, seconds: float) -> None:
        sender, blocks, sent, clock = self._sender, self._blocks, self._sent, time.monotonic_ns
        end = clock() + int(seconds * 1e9)
        while (now := clock()) < end:
            if sender.send(blocks[sent % BLOCKS_IN_TABLE], _UNSTAMPED, now):
                sent += 1
            else:
                time.sleep(0)  # full: lets a reader on the same core go on
        self._sent = sent

    def paced(self, seconds: float, hz: float) -> None:
        """Blocks at equal distances; those that were missed are not made up for."""
        every_s = self._row_count / hz
        end = time.monotonic() + seconds
        due = time.monotonic()
        while due < end:
            time.sleep(max(0.0, due - time.monotonic()))
            if self._sender.send(self._blocks[self._sent % BLOCKS_IN_TABLE], _UNSTAMPED, time.monotonic_ns()):
                self._sent += 1
            due = max(due + every_s, time.monotonic() - every_s)

    def bare_copies(self, seconds: float) -> float:
        """Rows a second when the blocks are only copied, into memory as large as a ring's."""
        rows = self._row_count
        room = np.zeros((512 * rows, self._blocks[0].shape[1]), np.float32)
        places = [room[start : start + rows] for start in range(0, len(room), rows)]
        copied, start = 0, time.perf_counter()
        while (elapsed_s := time.perf_counter() - start) < seconds:
            places[copied % len(places)][:] = self._blocks[copied % BLOCKS_IN_TABLE]
            copied += 1
        return copied * rows / elapsed_s

    @property
    def rows_sent(self) -> int:
        return self._sent * self._row_count


def prepare(setup: dict[str, Any]) -> Handler:
    wiring = setup["wiring"]
    links = open_sampler_links(wiring, open_board(wiring), Path(setup["folder"]), 0)
    writer = RowWriter(links.rows, setup["block"], setup["row_size"])

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        if request["do"] == "bare":
            return {"bare_hz": writer.bare_copies(request["seconds"])}
        cpu_share = writer.write(request["seconds"], request["hz"])
        return {"rows_sent": writer.rows_sent, "cpu_share": cpu_share}

    return handle


if __name__ == "__main__":
    serve(prepare)
