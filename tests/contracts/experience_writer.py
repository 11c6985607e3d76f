"""A writer process of the experience contract: sends self-proving rows until it has sent enough or is killed.

Its argument is JSON: way, wiring, writer, life, most_rows, block_rows, row_size, die_at_touch, and the descriptor of a
shared cells: in its first it counts the rows that `send` has taken, in its second how often it was refused.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np
from experience_ways import open_sender
from row_proof import make_rows

from spreeze.experience.link import Stamp
from spreeze.memory import SharedBlock


class DiesWhenTouched(np.ndarray):
    """Kills its process when a part of it is taken for the `touches_left`-th time: between two parts of one copy."""

    touches_left = 0

    def __getitem__(self, place: Any) -> Any:
        self.touches_left -= 1
        if self.touches_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.asarray(self)[place]


def main(told: dict[str, Any]) -> None:
    sender = open_sender(told["way"], told["wiring"])
    cells = SharedBlock(told["told_fd"], told["told_bytes"]).array(np.int64, (told["told_bytes"] // 16, 2))
    sizes = random.Random(f"{told['writer']}.{told['life']}")
    sent = 0
    while sent < told["most_rows"]:
        count = min(sizes.randint(1, told["block_rows"]), told["most_rows"] - sent)
        rows = make_rows(told["writer"], told["life"], sent, count, told["row_size"])
        if told["die_at_touch"]:
            rows = rows.view(DiesWhenTouched)
            rows.touches_left = told["die_at_touch"]
        while not sender.send(rows, Stamp(sent + 1, sent, told["life"]), stepped_ns=sent):
            cells[told["writer"], 1] += 1
            time.sleep(0)
        sent += count
        cells[told["writer"], 0] = sent


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
