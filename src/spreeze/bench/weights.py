"""`spreeze bench weights`: what a run publishes, an actor and its average as one flat vector, from the publisher into
another process's hands, which takes one of the two.

publish_ms          publish() from call to return; at its end the version is announced
follow_ms_p50,_p95  from then until the follower, which looks all the time, holds the whole checked vector
together_ms_p50     both, publication by publication
bare_ms             the limit of the same run, in one process: write the same bytes to a file beside, rename, read
                    (ssd); copy them into shared memory and out (memory)
share               bare_ms / together_ms_p50
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spreeze.algos import policy_spec_for
from spreeze.bench.folder import BENCH_DIR, bench_folder
from spreeze.bench.helper import Helper
from spreeze.bench.options import read_options
from spreeze.bench.windows import LEAST_WINDOWS, Windows, document
from spreeze.config import one_of, setting, sizes, text, whole
from spreeze.errors import WeightsError
from spreeze.runtime.topology import Topology, connect, wired_descriptors
from spreeze.spec import Layout
from spreeze.weights.link import Publisher, WeightsStamp
from spreeze.weights.memory import MemoryPublisher
from spreeze.weights.published import POLICIES
from spreeze.weights.ssd import SsdPublisher

BOTH = "both"
TRANSPORTS = ("ssd", "memory")
_PAUSE_S = 0.002  # between publications; a learner publishes more seldom
_GIVE_UP_S = 60.0


@dataclass(frozen=True)
class WeightsOptions:
    transport: str = setting(BOTH, one_of(BOTH, *TRANSPORTS), "the way of weights")
    algo: str = setting("sac", one_of("sac", "td3", "ddpg"), "whose actor")
    obs: int = setting(17, whole(1, 65536), "numbers of an observation")
    act: int = setting(6, whole(1, 65536), "numbers of an action")
    hidden: tuple[int, ...] = setting((256, 256), sizes, "widths of the actor's hidden layers")
    publications: int = setting(100, whole(1), "in a window")
    windows: int = setting(LEAST_WINDOWS, whole(LEAST_WINDOWS), "windows of each figure")
    dir: str = setting(BENCH_DIR, text, "on the disk to measure")


def run(words: list[str]) -> dict[str, Any]:
    options = read_options("weights", words, WeightsOptions)
    transports = TRANSPORTS if options.transport == BOTH else (options.transport,)
    return document("weights", dataclasses.asdict(options), [measure(options, transport) for transport in transports])


def measure(options: WeightsOptions, transport: str) -> dict[str, Any]:
    windows = Windows()
    count = policy_spec_for(options.algo, options.obs, options.act, options.hidden).weight_count
    with (
        bench_folder(options.dir, "weights") as folder,
        _follower(options, transport, count, folder) as (publisher, helper),
    ):
        bare = _bare_way(transport, count, folder)
        for window in range(options.windows):
            figures = _window(publisher, helper, count, window * options.publications, options.publications)
            bare_ms = float(np.median([_timed_ms(bare) for _ in range(options.publications)]))
            windows.add(**figures, bare_ms=bare_ms, share=bare_ms / figures["together_ms_p50"])
    names = ("algo", "obs", "act", "hidden", "publications")
    settings = {name: getattr(options, name) for name in names} | {"hidden": list(options.hidden)}
    return windows.row({"transport": transport, **settings, "weights": count})


def _window(publisher: Publisher, helper: Helper, count: int, before: int, publications: int) -> dict[str, float]:
    """`before`: versions that were published in earlier windows."""
    first, last = before + 1, before + publications
    helper.ask({"until": last, "give_up_s": _GIVE_UP_S})
    flat = np.zeros(POLICIES * count, np.float32)
    begun_ns, done_ns = {}, {}
    for version in range(first, last + 1):
        flat[:] = version
        begun_ns[version] = time.monotonic_ns()
        publisher.publish(flat, WeightsStamp(version, version, begun_ns[version]))
        done_ns[version] = time.monotonic_ns()
        time.sleep(_PAUSE_S)
    here = dict(helper.answer(_GIVE_UP_S + 1)["here"])
    if last not in here:
        raise WeightsError(f"version {last} was published and did not come within {_GIVE_UP_S:.0f} s")
    follow_ms = [(at - done_ns[version]) / 1e6 for version, at in here.items()]
    return {
        "publish_ms": float(np.median([done_ns[version] - begun_ns[version] for version in begun_ns])) / 1e6,
        "follow_ms_p50": float(np.percentile(follow_ms, 50)),
        "follow_ms_p95": float(np.percentile(follow_ms, 95)),
        "together_ms_p50": float(np.median([at - begun_ns[version] for version, at in here.items()])) / 1e6,
    }


def _bare_way(transport: str, count: int, folder: Path) -> Callable[[], None]:
    flat, into = np.ones((2, POLICIES * count), np.float32)
    if transport == "memory":
        between = np.zeros_like(flat)

        def copy_twice() -> None:
            between[:] = flat
            into[:] = between

        return copy_twice
    path, beside = folder / "bare", folder / "bare.writing"

    def write_rename_read() -> None:
        with open(beside, "wb", buffering=0) as file:
            file.write(flat.data)
        os.replace(beside, path)
        with open(path, "rb", buffering=0) as file:
            file.readinto(into.data)

    return write_rename_read


def _timed_ms(way: Callable[[], None]) -> float:
    start = time.perf_counter()
    way()
    return (time.perf_counter() - start) * 1e3


@contextmanager
def _follower(options: WeightsOptions, transport: str, count: int, folder: Path) -> Iterator[tuple[Publisher, Helper]]:
    """The learner's end of the link here, an evaluator's end in another process."""
    topology = connect(Layout(options.obs, options.act), 1, 1, 1, transport, count)
    wiring = topology.wiring("evaluator")
    setup = {"wiring": wiring, "folder": str(folder), "count": count}
    helper = Helper("spreeze.bench.weights_reader", setup, folder / "reader.txt", wired_descriptors(wiring))
    try:
        helper.answer()
        yield _publisher(topology, count, folder), helper
    finally:
        helper.close()
        topology.close()


def _publisher(topology: Topology, count: int, folder: Path) -> Publisher:
    """As a learner opens it, but in the process that made the links and holds them."""
    cells = topology.board.section("learner")

    def announce(version: int) -> None:
        cells.set("weights_version", version)

    if topology.weights is None:
        return SsdPublisher(folder, announce)
    return MemoryPublisher(topology.weights, POLICIES * count, announce)
