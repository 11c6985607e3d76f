"""`spreeze bench sampling ENV`: how much of what the environments can do is left when they are stepped by samplers.

    raw_hz     N processes step the same environments with ready-made actions and nothing else (stepper.py)
    sample_hz  N sampler roles, with policy, packing and ring, as a reader sees their rows (sampler_roles.py)
    share      sample_hz / raw_hz, window beside window; the others are stopped meanwhile

An engine other than Gymnasium is also measured against Gymnasium's own environments: raw_gymnasium_hz and
share_of_gymnasium.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze.bench.folder import BENCH_DIR, bench_folder
from spreeze.bench.helper import START_WITHIN_S, Helper
from spreeze.bench.options import read_env_and_options
from spreeze.bench.stepper import STEPPERS
from spreeze.bench.windows import LEAST_WINDOWS, Windows, document
from spreeze.config import AUTO, RunConfig, one_of, or_word, positive, setting, sizes, text, whole
from spreeze.envs.registry import BACKENDS, choose_backend, find_backend, probe
from spreeze.envs.source import EnvSource
from spreeze.errors import ConfigError
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.tuning.hardware import find_machine

ALL = "all"
_RAW_SEED = 1


@dataclass(frozen=True)
class SamplingOptions:
    samplers: int | str = setting(AUTO, or_word(AUTO, whole(1, 512)), "sampler processes (auto: as train)")
    envs_per_sampler: int | str = setting(AUTO, or_word(AUTO, whole(1, 4096)), "environments that each steps")
    env_backend: str = setting(ALL, one_of(ALL, AUTO, *BACKENDS), "the engine (all: a row for each that knows ENV)")
    algo: str = setting("sac", one_of("sac", "td3", "ddpg"), "whose policy acts")
    hidden: tuple[int, ...] = setting((256, 256), sizes, "widths of the policy's hidden layers")
    seconds: float = setting(1.0, positive(), "length of a window")
    windows: int = setting(LEAST_WINDOWS, whole(LEAST_WINDOWS), "windows of each figure")
    dir: str = setting(BENCH_DIR, text, "where the samplers' run folder lies meanwhile")


def run(words: list[str]) -> dict[str, Any]:
    env_id, options = read_env_and_options("sampling", words, SamplingOptions)
    rows = [measure_backend(env_id, backend, options) for backend in choose_backends(env_id, options.env_backend)]
    return document("sampling", {"env": env_id, **dataclasses.asdict(options)}, rows)


def choose_backends(env_id: str, asked: str) -> list[str]:
    source = EnvSource.of(env_id)
    spec = probe(source)
    if asked != ALL:
        return [choose_backend(source, asked, spec)[0]]
    return sorted((name for name in BACKENDS if find_backend(name).why_not(source, spec) is None), reverse=True)


def resolve_sampling(env_id: str, backend: str, options: SamplingOptions) -> Resolved:
    """The settings that a training run would have here."""
    names = ("samplers", "envs_per_sampler", "algo", "hidden")
    config = RunConfig(env_backend=backend, **{name: getattr(options, name) for name in names})
    return resolve(config, probe(EnvSource.of(env_id)), find_machine(), Choice(backend, "asked for"))


def measure_backend(env_id: str, backend: str, options: SamplingOptions) -> dict[str, Any]:
    # The samplers' machinery is imported late: without an environment to step there is nothing to import it for.
    from spreeze.bench.sampler_roles import sampler_roles

    resolved = resolve_sampling(env_id, backend, options)
    samplers, num_envs = int(resolved.config.samplers), int(resolved.config.envs_per_sampler)
    with ExitStack() as stack:
        folder = stack.enter_context(bench_folder(options.dir, "sampling"))
        roles = stack.enter_context(sampler_roles(env_id, resolved, folder))
        measures: dict[str, Callable[[float], float]] = {"sample_hz": roles.measure}
        for name, engine in raw_engines(backend).items():
            measures[name] = stack.enter_context(raw_steppers(env_id, engine, samplers, num_envs, folder))
        windows = interleave(measures, options.seconds, options.windows)
    settings = {"env": env_id, "env_backend": backend, "samplers": samplers, "envs_per_sampler": num_envs}
    return windows.row({**settings, "algo": options.algo, "hidden": list(options.hidden), "seconds": options.seconds})


def raw_engines(backend: str) -> dict[str, str]:
    """figure -> engine that is stepped for it."""
    return {"raw_hz": backend} | ({} if backend == "gymnasium" else {"raw_gymnasium_hz": "gymnasium"})


def measure_raw(env_id: str, engine: str, processes: int, num_envs: int, seconds: float) -> dict[str, Any]:
    """A row with raw_hz alone, for who has measured the rest."""
    windows = Windows()
    with (
        bench_folder(BENCH_DIR, "raw") as folder,
        raw_steppers(env_id, engine, processes, num_envs, folder) as measure,
    ):
        for _ in range(LEAST_WINDOWS):
            windows.add(raw_hz=measure(seconds))
    return windows.row({})


def interleave(measures: dict[str, Callable[[float], float]], seconds: float, count: int) -> Windows:
    """Every round measures each once, forth and back in turn, so that a machine that gets slower (or faster) meanwhile
    does not favour one of them."""
    windows = Windows()
    names = list(measures)
    for turn in range(count):
        order = names if turn % 2 == 0 else names[::-1]
        hz = {name: measures[name](seconds) for name in order}
        figures = {name: hz[name] for name in ("raw_hz", "sample_hz")} | {"share": hz["sample_hz"] / hz["raw_hz"]}
        if "raw_gymnasium_hz" in hz:
            figures["raw_gymnasium_hz"] = hz["raw_gymnasium_hz"]
            figures["share_of_gymnasium"] = hz["sample_hz"] / hz["raw_gymnasium_hz"]
        windows.add(**figures)
    return windows


@contextmanager
def raw_steppers(
    env_id: str, engine: str, processes: int, num_envs: int, folder: Path
) -> Iterator[Callable[[float], float]]:
    """Gives a function that lets all of them step for some seconds -> env steps a second, together."""
    if engine not in STEPPERS:
        raise ConfigError(f"bench sampling: there is no raw stepper for the {engine} backend")
    helpers: list[Helper] = []
    try:
        for index in range(processes):
            seed = _RAW_SEED + index * num_envs
            setup = {"env_id": env_id, "backend": engine, "num_envs": num_envs, "seed": seed}
            helpers.append(Helper("spreeze.bench.stepper", setup, folder / f"stepper-{engine}-{index}.txt"))
        for helper in helpers:
            helper.answer()

        def measure(seconds: float) -> float:
            for helper in helpers:
                helper.ask({"seconds": seconds})
            answers = [helper.answer(START_WITHIN_S + 2 * seconds) for helper in helpers]
            return sum(answer["steps"] / answer["seconds"] for answer in answers)

        yield measure
    finally:
        for helper in helpers:
            helper.close()
