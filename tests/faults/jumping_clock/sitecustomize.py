"""On the import path of a process: its time of day jumps by a day at every look, forth and back."""

import itertools
import time

_look, _true_time = itertools.count(), time.time
time.time = lambda: _true_time() + (86_400.0 if next(_look) % 2 else -86_400.0)
