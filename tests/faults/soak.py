"""A long run, looked at from outside: are memory, descriptors, threads and rates flat?

    python tests/faults/soak.py --seconds 3600 [--env ENV] [--kill-every 120] [-- flags of `spreeze train`]

Prints one table and a judgement; exit code 0 when everything is flat. The environment and the settings are light by
default, so that an hour of it takes a small share of a core. One sampler is killed again and again: a run that leaks
does it where it starts over. A role is judged over the life of one process, so the killed sampler itself is not.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parent.parent / "integration"))
from running import Run

SETTLED_AFTER_S = 600.0  # replay has been filled, every code path has been taken, the allocator has what it needs
LOOK_EVERY_S = 5.0
MOST_GROWTH_AN_HOUR = 0.01
MOST_CHANGE_OF_RATE = 0.15
SPARE_DESCRIPTORS = 2  # open for the moment of a look: a line being appended, weights being read
SPARE_BYTES = 1 << 20  # of a short soak: a page more is no leak
LIGHT = {
    "samplers": 2, "envs_per_sampler": 2, "hidden": "32,32", "batch_size": 64, "replay_ratio": 4,
    "learning_starts": 500, "replay_size": 20_000, "eval_episodes": 2, "eval_every": 1, "env_backend": "gymnasium",
    "device": "cpu", "learner_threads": 1,
}  # fmt: skip
ENV = "faulty_envs:make_unhurried"
VICTIM = "sampler-1"
HEAD = (
    f"{'':<12}{'MiB then':>10}{'most':>10}{'at last':>10}{'an hour':>11}{'descriptors':>13}{'threads':>10}{'looks':>6}"
)


@dataclass
class Series:
    """What one process had, look by look."""

    at_s: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def look(self, at_s: float, pid: int) -> None:
        process = psutil.Process(pid)
        with process.oneshot():
            now = process.memory_info().rss, process.num_fds(), process.num_threads()
        self.at_s.append(at_s)
        for values, value in zip((self.bytes, self.descriptors, self.threads), now, strict=True):
            values.append(value)

    def since(self, settled_s: float) -> Series:
        first = next((place for place, at_s in enumerate(self.at_s) if at_s >= settled_s), len(self.at_s))
        return Series(self.at_s[first:], self.bytes[first:], self.descriptors[first:], self.threads[first:])

    def growth_an_hour(self) -> float:
        """Share of the resident memory, from the medians of the first and the last tenth."""
        tenth = max(1, len(self.at_s) // 10)
        first, last = statistics.median(self.bytes[:tenth]), statistics.median(self.bytes[-tenth:])
        span_s = statistics.median(self.at_s[-tenth:]) - statistics.median(self.at_s[:tenth])
        return (last - first) / first * 3600 / span_s if span_s > 0 else 0.0

    def grown_bytes(self) -> float:
        tenth = max(1, len(self.at_s) // 10)
        return statistics.median(self.bytes[-tenth:]) - statistics.median(self.bytes[:tenth])


def judge(role: str, settled: Series) -> list[str]:
    """What is not flat, a sentence each."""
    if len(settled.at_s) < 4:
        return [f"{role}: {len(settled.at_s)} looks after it had settled, which say nothing"]
    found = []
    growth = settled.growth_an_hour()
    if growth > MOST_GROWTH_AN_HOUR and settled.grown_bytes() > SPARE_BYTES:
        found.append(f"{role}: resident memory grows by {growth:.1%} an hour")
    if min(settled.descriptors[-4:]) > min(settled.descriptors[:4]) + SPARE_DESCRIPTORS:
        found.append(f"{role}: from {min(settled.descriptors[:4])} to {min(settled.descriptors[-4:])} descriptors")
    if min(settled.threads[-4:]) > min(settled.threads[:4]):
        found.append(f"{role}: from {min(settled.threads[:4])} to {min(settled.threads[-4:])} threads")
    return found


def judge_rate(name: str, rates: Sequence[float]) -> list[str]:
    quarter = max(1, len(rates) // 4)
    first, last = statistics.median(rates[:quarter]), statistics.median(rates[-quarter:])
    if abs(last - first) <= MOST_CHANGE_OF_RATE * first:
        return []
    return [f"{name}: {first:.0f} at first, {last:.0f} at last"]


def row(role: str, series: Series) -> str:
    mib = [value / 2**20 for value in series.bytes]
    return (
        f"{role:<12}{mib[0]:>10.1f}{max(mib):>10.1f}{mib[-1]:>10.1f}{series.growth_an_hour():>11.2%}"
        f"{min(series.descriptors):>7}-{max(series.descriptors):<5}{min(series.threads):>5}-{max(series.threads):<4}"
        f"{len(series.at_s):>6}"
    )


def soak(run: Run, seconds: float, kill_every_s: float) -> tuple[str, list[str]]:
    """-> the table, what is not flat"""
    run.wait_learning()
    started = time.monotonic()
    settled_s = min(SETTLED_AFTER_S, seconds / 3)
    everybody = {"supervisor": run.process.pid, **run.pids()}
    watched = {role: pid for role, pid in everybody.items() if role != VICTIM}
    series = {role: Series() for role in watched}
    kill_due, kills = kill_every_s, 0
    while (now_s := time.monotonic() - started) < seconds:
        for role, pid in watched.items():
            series[role].look(now_s, pid)
        if kill_every_s and now_s >= kill_due:
            kill_due += kill_every_s
            kills += 1
            psutil.Process(run.pids()[VICTIM]).send_signal(signal.SIGKILL)
        time.sleep(min(LOOK_EVERY_S, seconds / 20))
    lines = run.lines("metrics.jsonl")
    run.process.send_signal(signal.SIGINT)
    exit_code = run.wait_end()
    restarts = run.summary()["restarts"]
    settled = {role: seen.since(settled_s) for role, seen in series.items()}
    begun_s = lines[-1]["wall_s"] - seconds + settled_s
    rates = {
        name: [line[name] for line in lines if line["wall_s"] >= begun_s and line[name] is not None]
        for name in ("sample_hz", "update_hz")
    }
    found = [sentence for role, seen in settled.items() for sentence in judge(role, seen)]
    if settled_s == SETTLED_AFTER_S:  # in less, what else this machine does shows more than what the run does
        found += [sentence for name, values in rates.items() for sentence in judge_rate(name, values)]
    if exit_code != 130:
        found.append(f"the run ended with exit code {exit_code} after Ctrl-C")
    if restarts != {**dict.fromkeys(restarts, 0), VICTIM: kills}:
        found.append(f"{kills} kills of {VICTIM} made restarts {restarts}")
    table = [f"{seconds:.0f} s, settled after {settled_s:.0f} s, {kills} kills of {VICTIM}", HEAD]
    table += [row(role, seen) for role, seen in settled.items() if seen.at_s]
    table += [f"{name:<12}{statistics.median(values):>10.1f} median" for name, values in rates.items() if values]
    return "\n".join(table), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--env", default=ENV)
    parser.add_argument("--kill-every", type=float, default=120.0, help="seconds; 0: nobody is killed")
    parser.add_argument("flags", nargs="*", help="of `spreeze train`, name=value, over the light ones")
    arguments = parser.parse_args()
    settings = {**LIGHT, **dict(flag.split("=", 1) for flag in arguments.flags)}
    with tempfile.TemporaryDirectory(prefix="spreeze-soak-") as folder:
        run = Run(Path(folder) / "run", arguments.env, **settings)
        try:
            table, found = soak(run, arguments.seconds, arguments.kill_every)
        finally:
            run.end()
    print(table)
    print("\n".join(f"NOT FLAT: {sentence}" for sentence in found) or "flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
