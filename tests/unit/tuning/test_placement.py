"""Which devices may be named together, and what is refused before anything starts."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from spreeze.config import RunConfig
from spreeze.errors import ConfigError
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.spec import EnvSpec
from spreeze.tuning.hardware import Gpu, Machine

GIB = 2**30
CHEETAH = EnvSpec("HalfCheetah-v5", obs_size=17, action_size=6, action_low=(-1.0,) * 6, action_high=(1.0,) * 6)


def machine(gpus: int = 0, cores: int = 2, name: str = "a GPU", torch: str = "2.13.0") -> Machine:
    return Machine(
        system="Linux", python="3.11.0", cpu_model="a CPU", cores_physical=cores, cores_logical=cores,
        cores_allowed=cores, cores_quota=None, memory_total_bytes=64 * GIB, memory_limit_bytes=None,
        memory_available_bytes=48 * GIB, gpus=tuple(Gpu(k, name, 80 * GIB, 70 * GIB, "550") for k in range(gpus)),
        versions={"torch": torch},
    )  # fmt: skip


def resolved(where: Machine, **settings: object) -> Resolved:
    return resolve(RunConfig.of(settings), CHEETAH, where, Choice("gymnasium", "the plain one"))


@pytest.mark.parametrize(
    ("actor", "critics"),
    [("cpu", "cpu"), ("cpu", "cuda:0"), ("cuda:1", "cpu"), ("cuda:0", "cuda:0"), ("cuda:0", "cuda:1")],
)
def test_any_pair_of_devices_that_are_there(actor: str, critics: str) -> None:
    result = resolved(machine(gpus=2, cores=16), actor_device=actor, critic_device=critics)
    config = result.config
    assert (config.actor_device, config.critic_device, config.split_mode) == (actor, critics, "pipelined")
    assert config.device == critics  # where replay lies
    on_cpu = (actor, critics).count("cpu")
    assert config.precision == ("float32" if on_cpu else "bfloat16")
    assert config.learner_threads == {0: 1, 1: 4, 2: 2}[on_cpu]
    assert config.samplers == 15 - max(1, on_cpu * int(config.learner_threads))


def test_one_place_names_no_halves() -> None:
    for settings in ({}, {"device": "cpu"}, {"actor_device": None, "critic_device": None}):
        result = resolved(machine(), **settings)
        assert (result.config.actor_device, result.config.critic_device, result.config.split_mode) == (None, None, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"actor_device": "cpu"}, "--actor-device cpu was given without --critic-device"),
        ({"critic_device": "cuda:0"}, "--critic-device cuda:0 was given without --actor-device"),
        ({"actor_device": "cpu", "critic_device": "cpu", "device": "cpu"}, "--device cpu was given beside"),
        ({"actor_device": "cuda:1", "critic_device": "cpu"}, r"--actor-device cuda:1: this machine has cuda:0"),
        ({"actor_device": "cpu", "critic_device": "cuda:1"}, r"--critic-device cuda:1: this machine has cuda:0"),
        ({"actor_device": "gpu", "critic_device": "cpu"}, r"--actor-device: 'gpu' is not a device"),
        ({"split_mode": "exact", "device": "cpu"}, r"--split-mode exact says how two devices work together"),
        ({"split_mode": "quick"}, r"--split-mode: 'quick' is not one of auto, exact, pipelined"),
    ],
)
def test_what_contradicts_itself_or_is_not_there_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolved(machine(gpus=1), **settings)


def test_a_gpu_that_torch_cannot_use_is_refused_for_a_half_as_well() -> None:
    with pytest.raises(ConfigError, match=r"--actor-device cuda:0: torch .* built for the CPU alone"):
        resolved(machine(gpus=1, torch="2.13.0+cpu"), actor_device="cuda:0", critic_device="cpu")


@pytest.mark.parametrize(
    ("where", "settings", "reason"),
    [
        (machine(), {}, "no GPU computes the updates"),
        (machine(gpus=1), {}, "cuda:0 is the only GPU"),
        (machine(gpus=2), {"device": "cuda:1"}, "--device cuda:1 was named"),
        (machine(gpus=2, torch="2.13.0+cpu"), {}, "no GPU computes the updates"),
        (machine(gpus=2), {"compile": "off"}, "not captured"),
        (machine(gpus=2), {"precision": "float32"}, "in float32 was not measured"),
        (replace(machine(gpus=1), gpus=(*machine(gpus=1).gpus, Gpu(1, "a lesser GPU", GIB, GIB, "550"))), {}, "equal"),
    ],
)
def test_one_device_stays_one_and_says_why(where: Machine, settings: dict, reason: str) -> None:
    result = resolved(where, **settings)
    assert (result.config.actor_device, result.config.critic_device, result.config.split_mode) == (None, None, None)
    for name in ("actor_device", "critic_device", "split_mode"):
        assert reason in result.auto[name].reason


def with_capability(major: int) -> Machine:
    pair = machine(gpus=2, cores=16)
    return replace(pair, gpus=tuple(replace(gpu, capability=(major, 0)) for gpu in pair.gpus))


def test_two_gpus_are_used_where_one_has_no_kernels_for_the_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())  # triton is there
    for where, hidden in ((with_capability(8), (256, 256)), (with_capability(9), (512, 512))):
        result = resolved(where, hidden=hidden)
        config = result.config
        assert (config.actor_device, config.critic_device, config.split_mode) == ("cuda:1", "cuda:0", "pipelined")
        assert config.device == "cuda:0"  # where replay lies
        assert "a second GPU pays" in result.auto["actor_device"].reason


def test_two_gpus_are_not_used_beside_kernels_for_whole_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    result = resolved(with_capability(9))
    assert result.config.actor_device is None
    assert "does not pay" in result.auto["actor_device"].reason
    assert "by Triton kernels" in result.auto["actor_device"].reason


def test_exact_is_refused_where_two_gpus_would_only_wait_for_one_another() -> None:
    with pytest.raises(ConfigError, match=r"--split-mode exact .* does not pay"):
        resolved(with_capability(8), split_mode="exact")
