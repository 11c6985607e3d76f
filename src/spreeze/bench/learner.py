"""`spreeze bench learner`: updates alone, on a replay of random rows, as the learner role makes and runs them.

    update_hz, update_frames_hz   updates a second; times the batch size
    products_hz                   FLOP a second of large products on the same device, in the same precision and run
    flops_share                   FLOPs of the products that an update needs (flops.py) x update_hz / products_hz

The device is waited for at the ends of windows and nowhere else. With --actor-device and --critic-device there are
also the figures of two_devices.py.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spreeze.algos import policy_spec_for
from spreeze.bench.options import read_options, several
from spreeze.bench.windows import LEAST_WINDOWS, Windows, document
from spreeze.config import AUTO, RunConfig, device_name, one_of, or_word, positive, setting, sizes, whole
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.spec import EnvSpec, layout_of
from spreeze.tuning.flops import flops_of_update
from spreeze.tuning.hardware import find_machine

if TYPE_CHECKING:
    from spreeze.learner.graphs import Updates

_PRODUCTS_SHARE = 0.25  # of a window's time goes to the limit beside it
_LEAST_RUNS = 3  # of a window, and before the first one
_PIECES_SHARE = 0.5
_OVERLAP_SHARE = 0.25


@dataclass(frozen=True)
class LearnerOptions:
    algo: str = setting("sac", one_of("sac", "td3", "ddpg"), "the algorithm")
    batch_size: tuple[int, ...] = setting((64, 256, 8192), several(whole(1, 2**22)), "rows an update draws: a row each")
    precision: tuple[str, ...] = setting(
        (AUTO,), several(one_of(AUTO, "float32", "bfloat16")), "number format of the products: a row each"
    )
    compile: tuple[str, ...] = setting(
        (AUTO,), several(one_of(AUTO, "off", "on")), "fused and captured, or the plain reference: a row each"
    )
    device: str = setting(AUTO, or_word(AUTO, device_name), "cpu or cuda:N")
    actor_device: str = setting(AUTO, or_word(AUTO, device_name), "two devices: the actor's")
    critic_device: str = setting(AUTO, or_word(AUTO, device_name), "two devices: the critics'")
    split_mode: tuple[str, ...] = setting(
        (AUTO,), several(one_of(AUTO, "exact", "pipelined")), "two devices: how they work together, a row each"
    )
    threads: int = setting(1, whole(1, 512), "CPU threads of the products")
    obs: int = setting(17, whole(1, 65536), "numbers of an observation")
    act: int = setting(6, whole(1, 65536), "numbers of an action")
    hidden: tuple[int, ...] = setting((256, 256), sizes, "widths of the hidden layers")
    replay_size: int = setting(1_000_000, whole(2), "rows in replay, all of them filled")
    seconds: float = setting(1.0, positive(), "length of a window; at least one update")
    windows: int = setting(LEAST_WINDOWS, whole(LEAST_WINDOWS), "windows of each figure")


def run(words: list[str]) -> dict[str, Any]:
    options = read_options("learner", words, LearnerOptions)
    all_resolved = [
        resolve_learner(options, batch_size, precision, compiled, mode)
        for compiled in options.compile
        for precision in options.precision
        for mode in options.split_mode
        for batch_size in options.batch_size
    ]
    rows = [measure(resolved, options.seconds, options.windows) for resolved in all_resolved]
    return document("learner", dataclasses.asdict(options), rows)


def resolve_learner(
    options: LearnerOptions, batch_size: int, precision: str, compiled: str, mode: str = AUTO
) -> Resolved:
    ones = (1.0,) * options.act
    spec = EnvSpec("random rows", options.obs, options.act, tuple(-one for one in ones), ones)
    names = ("algo", "device", "actor_device", "critic_device", "hidden", "replay_size")
    config = RunConfig(
        **{name: getattr(options, name) for name in names},
        split_mode=mode,
        batch_size=batch_size,
        precision=precision,
        compile=compiled,
        learner_threads=options.threads,
        learning_starts=1,
        samplers=1,
        envs_per_sampler=1,
    )
    return resolve(config, spec, find_machine(), Choice("gymnasium", "nothing is stepped"))


def measure(resolved: Resolved, seconds: float, count: int) -> dict[str, Any]:
    """One row: the updates of these settings, each window beside one of large products."""
    if resolved.config.actor_device is not None:
        return measure_two_devices(resolved, seconds, count)
    updates = make_filled_updates(resolved)
    limit = _Limit(resolved)
    windows = Windows()
    updates_a_second(updates, resolved.config.device, 0.0)
    for _ in range(count):
        update_hz = updates_a_second(updates, resolved.config.device, seconds)
        windows.add(**limit.figures(update_hz, seconds))
    return windows.row({**_settings(resolved), "flops_per_update": limit.flops, "seconds": seconds})


def measure_two_devices(resolved: Resolved, seconds: float, count: int) -> dict[str, Any]:
    from spreeze.bench.two_devices import TwoDevices, halves_of, is_captured
    from spreeze.roles.learner import prepare_devices

    config, device = resolved.config, resolved.config.device
    prepare_devices(config)
    one = make_filled_updates(Resolved(in_one_place(config), resolved.spec, {}))
    two = TwoDevices(config, layout_of(resolved.spec))
    limit = _Limit(resolved)
    windows = Windows()
    try:
        updates_a_second(one, device, 0.0)
        for _ in range(count):
            update_hz = two.run(seconds)
            actor_s, critics_s = halves_of(two.pieces(seconds * _PIECES_SHARE), two.algorithm.period)
            windows.add(
                **limit.figures(update_hz, seconds),
                one_device_hz=updates_a_second(one, device, seconds),
                actor_ms=actor_s * 1e3,
                critics_ms=critics_s * 1e3,
                overlap=two.overlap(seconds * _OVERLAP_SHARE),
                bytes_per_update=two.bytes_per_update(),
            )
    finally:
        two.close()
    settings = _settings(resolved) | {
        "mode": ("fused" if config.compile == "on" else "reference") + ("+graph" if is_captured(config) else ""),
        "actor_device": config.actor_device,
        "critic_device": config.critic_device,
        "split_mode": config.split_mode,
    }
    return windows.row({**settings, "flops_per_update": limit.flops, "seconds": seconds})


def in_one_place(config: RunConfig) -> RunConfig:
    """The same updates on the critics' device alone."""
    return config.replace(actor_device=None, critic_device=None, split_mode=None)


class _Limit:
    """An update's products, beside large ones on the device that has the replay."""

    def __init__(self, resolved: Resolved) -> None:
        import torch

        from spreeze.bench.products import LargeProducts

        config, spec = resolved.config, resolved.spec
        policy = policy_spec_for(config.algo, spec.obs_size, spec.action_size, config.hidden)
        self._batch_size = int(config.batch_size)
        self.flops = flops_of_update(config.algo, policy, self._batch_size, config.policy_delay)
        self._products = LargeProducts(torch.device(config.device), config.precision)

    def figures(self, update_hz: float, seconds: float) -> dict[str, float]:
        products_hz = self._products.measure(seconds * _PRODUCTS_SHARE)
        return {
            "update_hz": update_hz,
            "update_frames_hz": update_hz * self._batch_size,
            "products_hz": products_hz,
            "flops_share": self.flops * update_hz / products_hz,
        }


def updates_a_second(updates: Updates, device: str, seconds: float) -> float:
    import torch

    from spreeze.bench.products import synchronize
    from spreeze.learner.pacing import UNBOUNDED

    on_device = torch.device(device)
    synchronize(on_device)
    done, runs, start = 0, 0, time.perf_counter()
    while runs < _LEAST_RUNS or time.perf_counter() - start < seconds:
        done += updates.run(UNBOUNDED)
        runs += 1
    synchronize(on_device)
    return done / (time.perf_counter() - start)


def _settings(resolved: Resolved) -> dict[str, Any]:
    config = resolved.config
    return {
        "algo": config.algo,
        "batch_size": config.batch_size,
        "mode": engine_of(config) + ("+graph" if is_captured(config) else ""),
        "precision": config.precision,
        "device": config.device,
        "threads": config.learner_threads,
        "obs": resolved.spec.obs_size,
        "act": resolved.spec.action_size,
        "hidden": list(config.hidden),
        "replay_size": config.replay_size,
    }


def engine_of(config: RunConfig) -> str:
    import torch

    from spreeze.algos.choice import why_no_kernels

    if config.compile != "on":
        return "reference"
    why_not = why_no_kernels(config.hidden, torch.device(config.device), config.precision)
    return "fused" if why_not else "kernels"


def is_captured(config: RunConfig) -> bool:
    return config.device.startswith("cuda") and config.compile == "on"


def make_filled_updates(resolved: Resolved) -> Updates:
    """What roles/learner.py makes, with a replay that is full of random rows."""
    import torch

    from spreeze.algos.choice import choose_update
    from spreeze.bench.random_rows import fill
    from spreeze.learner.graphs import make_updates
    from spreeze.replay import Replay
    from spreeze.roles.learner import prepare_devices

    config, layout = resolved.config, layout_of(resolved.spec)
    prepare_devices(config)
    on_device = torch.device(config.device)
    replay = Replay(layout, int(config.replay_size), on_device, config.seed)
    fill(replay, int(config.replay_size), on_device, config.seed)
    choice = choose_update(layout, config, on_device)
    return make_updates(choice.algorithm, replay, int(config.batch_size), captured=is_captured(config))
