"""What one GPU can say about two: the halves of an update apart, what crosses, both halves at once on two streams, and
from those a prediction for two equal GPUs.

    python benchmarks/two_devices_timeline.py [--json FILE] [--algo sac] [--budget 20]

The sizes are HalfCheetah's: obs 17, act 6, 256-256, products in bfloat16. A prediction is no measurement: it takes the
pieces of an update as they were measured alone on this GPU, lays them on two (tuning/two_gpus.py draws how), and adds
what copies over PCIe 4, PCIe 5 and NVLink are taken to cost. On a machine without a GPU both places are the CPU: that
shows that the script works, and nothing else. Begins nothing that may end after the budget, in seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.monotonic()
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch  # noqa: E402

from spreeze.algos import make_algorithm, policy_spec_for  # noqa: E402
from spreeze.algos.choice import choose_update  # noqa: E402
from spreeze.bench.random_rows import fill  # noqa: E402
from spreeze.bench.two_devices import TwoDevices, halves_of  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.learner.graphs import Updates, make_updates  # noqa: E402
from spreeze.learner.pacing import UNBOUNDED  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402
from spreeze.tuning.two_gpus import LINKS, Sizes, crossing_of, exchange_seconds, split_seconds  # noqa: E402

LAYOUT = Layout(17, 6)
BATCH_SIZES = {"cuda": (8192, 4096, 32768, 16384, 256), "cpu": (32, 16)}  # in the order of their weight
REPLAY_ROWS = {"cuda": 200_000, "cpu": 2_000}
WINDOW_S, WINDOWS = 0.06, 5
A_MEASUREMENT_S = 4.0  # at most, captures and the compiler of kernels included
Row = dict[str, Any]


def make_config(algo: str, device: torch.device, batch_size: int, mode: str | None = None) -> RunConfig:
    on_gpu, both = device.type == "cuda", str(device) if mode else None
    return RunConfig(
        algo=algo, device=str(device), actor_device=both, critic_device=both, split_mode=mode, batch_size=batch_size,
        precision="bfloat16" if on_gpu else "float32", compile="on", target_entropy=-6.0, learner_threads=1,
        replay_size=REPLAY_ROWS[device.type],
    )  # fmt: skip


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def rate(updates: Updates, device: torch.device) -> float:
    """Updates a second: the median of windows."""

    def window(seconds: float) -> float:
        start, done = time.perf_counter(), 0
        while done < 3 or time.perf_counter() - start < seconds:
            done += updates.run(UNBOUNDED)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return done / (time.perf_counter() - start)

    window(0.0)
    return median([window(WINDOW_S) for _ in range(WINDOWS)])


def in_one_place(algo: str, device: torch.device, batch_size: int, kernels: bool) -> Row:
    config = make_config(algo, device, batch_size)
    replay = Replay(LAYOUT, config.replay_size, device)
    fill(replay, config.replay_size, device)
    reason = "the fused engine"
    if kernels:
        choice = choose_update(LAYOUT, config, device)
        algorithm, reason = choice.algorithm, choice.reason
    else:
        algorithm = make_algorithm(algo, 17, 6, config, device, engine="fused", precision=config.precision)
    updates = make_updates(algorithm, replay, batch_size, captured=device.type == "cuda")
    return {"engine": reason, "us": 1e6 / rate(updates, device)}


def in_two_places(algo: str, device: torch.device, batch_size: int, mode: str) -> Row:
    """Both places on `device`: two streams of a GPU."""
    config = make_config(algo, device, batch_size, mode)
    two = TwoDevices(config, LAYOUT)
    try:
        period = two.algorithm.period
        hz = median([two.run(WINDOW_S) for _ in range(WINDOWS)])
        measured = [two.pieces(2 * WINDOW_S) for _ in range(3)]
        pieces = type(measured[0])(*(median(list(times)) for times in zip(*measured, strict=True)))
        policy = policy_spec_for(algo, 17, 6, config.hidden)
        crossing = crossing_of(Sizes(algo, policy, batch_size, config.policy_delay))
        actor_s, critics_s = halves_of(pieces, period)
        return {
            "mode": mode, "us": 1e6 / hz, "overlap": two.overlap(2 * WINDOW_S),
            "pieces_us": {name: value * 1e6 for name, value in pieces._asdict().items()},
            "actor_us": actor_s * 1e6, "critics_us": critics_s * 1e6, "bytes_per_update": two.bytes_per_update(),
            "predicted_us": {
                f"{which}, {link.name}": split_seconds(pieces, crossing, link, which, period) * 1e6
                for which in ("pipelined", "exact") for link in LINKS
            },
        }  # fmt: skip
    finally:
        two.close()


def time_left(budget: float) -> bool:
    return time.monotonic() - STARTED < budget - A_MEASUREMENT_S


def tried(measure: Callable[[], Row], budget: float) -> Row | None:
    """None where time or the measurement failed; a failure is told and the rest goes on."""
    if not time_left(budget):
        return None
    try:
        return measure()
    except Exception:
        traceback.print_exc()
        return None


def add_halves_of_batch(algo: str, rows: list[Row]) -> None:
    """Both networks on both GPUs: what was measured with half of the rows, and the exchange of gradients."""
    by_size = {row["batch_size"]: row for row in rows}
    policy = policy_spec_for(algo, 17, 6, RunConfig().hidden)
    for row in rows:
        half = by_size.get(row["batch_size"] // 2, {})
        sizes = Sizes(algo, policy, row["batch_size"], RunConfig().policy_delay)
        row["halves_of_batch_us"] = {
            f"halves of the batch, {engine}, {link.name}": one["us"] + exchange_seconds(sizes, link) * 1e6
            for engine in ("fused", "kernels") if (one := half.get(engine)) for link in LINKS
        }  # fmt: skip


def told(row: Row) -> str:
    """A row for people."""
    lines = [f"batch {row['batch_size']:,}"]
    for name in ("fused", "kernels"):
        if one := row.get(name):
            lines.append(f"  one place, {name:19} {one['us']:8,.0f} us   {1e6 / one['us']:8,.0f} updates/s")
    if two := row.get("two"):
        pieces = ", ".join(f"{name} {value:,.0f}" for name, value in two["pieces_us"].items())
        lines += [
            f"  two places here, {two['mode']:11} {two['us']:8,.0f} us   both at work {two['overlap']:.0%} of the time",
            f"  apart: actor {two['actor_us']:,.0f} us, critics {two['critics_us']:,.0f} us ({pieces})",
            f"  {two['bytes_per_update']:,.0f} bytes cross, {two['bytes_per_update'] / row['batch_size']:.0f} a row",
        ]
    predictions = {**(row["two"]["predicted_us"] if row.get("two") else {}), **row.get("halves_of_batch_us", {})}
    for name, predicted in predictions.items():
        one_place = {engine: one["us"] for engine in ("fused", "kernels") if (one := row.get(engine))}
        against = ", ".join(f"{us / predicted:.2f} times {engine} on one" for engine, us in one_place.items())
        lines.append(f"  PREDICTED for two such GPUs, {name:38} {predicted:8,.0f} us   {against}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--algo", default="sac", choices=("sac", "td3", "ddpg"))
    parser.add_argument("--budget", type=float, default=20.0)
    options = parser.parse_args()
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
    else:
        torch.set_num_threads(1)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    rows: list[Row] = [{"batch_size": size} for size in BATCH_SIZES[device.type]]
    document = {"what": "two devices, timeline", "device": name, "torch": torch.__version__, "algo": options.algo}

    def note() -> None:
        if options.json:
            options.json.write_text(json.dumps({**document, "rows": rows}, indent=1) + "\n")

    for row in rows:
        size = row["batch_size"]
        row["two"] = tried(lambda size=size: in_two_places(options.algo, device, size, "pipelined"), options.budget)
        row["fused"] = tried(lambda size=size: in_one_place(options.algo, device, size, False), options.budget)
        if device.type == "cuda":
            row["kernels"] = tried(lambda size=size: in_one_place(options.algo, device, size, True), options.budget)
        note()
    add_halves_of_batch(options.algo, rows)
    note()
    print(f"{options.algo} on {name}, torch {torch.__version__}, {time.monotonic() - STARTED:.0f} s")
    for row in rows:
        print(told(row), flush=True)


if __name__ == "__main__":
    main()
