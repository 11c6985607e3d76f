"""Who watches must not cost the training anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

LOWEST = 19


def lower_priority(niceness: int = LOWEST) -> None:
    """Of every thread of this process: Linux keeps it per thread, and a renderer has some of its own."""
    if sys.platform != "linux":
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        return
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
        except ProcessLookupError:  # it has just ended
            continue
