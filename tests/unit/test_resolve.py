"""Every 'auto' ends in a number with a reason; what cannot be run is refused before anything starts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from spreeze import resolve as resolving
from spreeze.config import AUTO, RunConfig, load_config_file
from spreeze.errors import ConfigError
from spreeze.resolve import Choice, Resolved, resolve
from spreeze.spec import EnvSpec
from spreeze.tuning.hardware import Gpu, Machine

GIB = 2**30
PENDULUM = EnvSpec("Pendulum-v1", obs_size=3, action_size=1, action_low=(-2.0,), action_high=(2.0,))
GYMNASIUM = Choice("gymnasium", "the plain one")


def machine(cores: int = 2, gpus: int = 0, torch: str = "2.13.0", free_bytes: int = 16 * GIB) -> Machine:
    return Machine(
        system="Linux",
        python="3.11.0",
        cpu_model="a CPU",
        cores_physical=cores,
        cores_logical=cores,
        cores_allowed=cores,
        cores_quota=None,
        memory_total_bytes=32 * GIB,
        memory_limit_bytes=None,
        memory_available_bytes=free_bytes,
        gpus=tuple(Gpu(k, "a GPU", 80 * GIB, 70 * GIB, "550") for k in range(gpus)),
        versions={"torch": torch},
    )


def resolved(where: Machine | None = None, spec: EnvSpec = PENDULUM, **settings: object) -> Resolved:
    return resolve(RunConfig.of(settings), spec, where or machine(), GYMNASIUM)


def test_nothing_stays_auto_and_every_auto_has_a_reason() -> None:
    asked = {name for name, value in RunConfig().as_json().items() if value == AUTO}
    result = resolved()
    assert AUTO not in result.config.as_json().values()
    assert set(result.auto) == asked
    for name, choice in result.auto.items():
        assert getattr(result.config, name) == choice.value
        assert choice.reason


def test_what_the_user_names_is_kept() -> None:
    result = resolved(samplers=7, batch_size=300, compile="off", device="cpu", target_entropy=-0.5)
    assert (result.config.samplers, result.config.batch_size, result.config.compile) == (7, 300, "off")
    assert not {"samplers", "batch_size", "compile", "device", "target_entropy"} & set(result.auto)


@pytest.mark.parametrize(
    ("cores", "gpus", "samplers", "threads"),
    [(1, 0, 1, 1), (2, 0, 1, 1), (4, 0, 3, 1), (6, 0, 4, 1), (16, 0, 11, 4), (2, 1, 1, 1), (16, 1, 14, 1)],
)
def test_cores_are_shared_out(cores: int, gpus: int, samplers: int, threads: int) -> None:
    config = resolved(machine(cores, gpus)).config
    assert (config.samplers, config.learner_threads) == (samplers, threads)
    assert samplers + threads <= max(2, cores)


def test_samplers_leave_the_cores_that_the_user_gives_the_learner() -> None:
    assert resolved(machine(16), learner_threads=8).config.samplers == 7


def test_device_decides_batch_and_precision() -> None:
    cpu, gpu = resolved(machine(gpus=0)).config, resolved(machine(gpus=1)).config
    assert (cpu.device, cpu.batch_size, cpu.precision) == ("cpu", 64, "float32")
    assert (gpu.device, gpu.batch_size, gpu.precision) == ("cuda:0", 8192, "bfloat16")


def test_a_cpu_build_of_torch_does_not_use_the_gpu() -> None:
    result = resolved(machine(gpus=1, torch="2.13.0+cpu"))
    assert result.config.device == "cpu"
    assert "built for the CPU" in result.auto["device"].reason


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_gpu_that_is_not_there_is_refused(gpus: int) -> None:
    with pytest.raises(ConfigError, match="--device cuda:1: this machine has"):
        resolved(machine(gpus=gpus), device="cuda:1")


@pytest.mark.parametrize("places", [{"device": "cuda:0"}, {"actor_device": "cpu", "critic_device": "cpu"}])
def test_a_pool_is_refused_where_updates_cannot_draw_from_it(places: dict) -> None:
    with pytest.raises(ConfigError, match=r"--experience pool: .*(two devices|cuda:0)"):
        resolved(machine(gpus=1), experience="pool", **places)
    assert resolved(experience="pool").config.experience == "pool"
    with pytest.raises(ConfigError, match=r"--observation-norm on: .* --experience pool"):
        resolved(experience="pool", observation_norm="on")


def test_a_gpu_that_torch_cannot_use_is_refused() -> None:
    with pytest.raises(ConfigError, match="built for the CPU alone"):
        resolved(machine(gpus=1, torch="2.13.0+cpu"), device="cuda:0")


def test_bullet_environments_are_fewer_a_sampler() -> None:
    bullet = dataclasses.replace(PENDULUM, env_id="HalfCheetahBulletEnv-v0")
    assert resolved(spec=bullet).config.envs_per_sampler < resolved().config.envs_per_sampler


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"replay_size": 5000}, "--learning-starts 10000"),
        ({"replay_size": 500, "learning_starts": 100, "batch_size": 501}, "--batch-size 501"),
        ({"replay_size": 500, "learning_starts": 100, "samplers": 40}, "--samplers times --envs-per-sampler 640"),
    ],
)
def test_numbers_that_exclude_each_other_are_refused(settings: dict, flag: str) -> None:
    with pytest.raises(ConfigError, match=f"^{flag} is more than --replay-size"):
        resolved(**settings)


def test_a_small_replay_makes_the_automatic_batch_fit() -> None:
    assert resolved(replay_size=40, learning_starts=30, envs_per_sampler=8).config.batch_size == 40


@pytest.mark.parametrize(
    ("obs_size", "total_gib", "settings", "rows"),
    [
        (3, 32, {}, 10_000_000),  # 36 bytes a row
        (105, 32, {}, 5_000_000),  # 856 bytes: 4 GiB
        (105, 8, {}, 1_200_000),  # an eighth of all
        (348, 8, {}, 1_000_000),  # no fewer
        (3, 32, {"experience": "pool"}, 1_000_000),
    ],
)
def test_replay_remembers_as_much_as_is_cheap(
    obs_size: int, total_gib: int, settings: dict[str, object], rows: int
) -> None:
    where = dataclasses.replace(machine(), memory_total_bytes=total_gib * GIB)
    spec = EnvSpec("Some", obs_size, 1, (-1.0,), (1.0,))
    assert resolved(where, spec, **settings).config.replay_size == rows
    elsewhere = dataclasses.replace(where, memory_available_bytes=12 * GIB)
    assert resolved(elsewhere, spec, **settings).config.replay_size == rows, "what is free decides nothing"
    limited = dataclasses.replace(machine(), memory_total_bytes=999 * GIB, memory_limit_bytes=total_gib * GIB)
    assert resolved(limited, spec, **settings).config.replay_size == rows
    on_gpu = dataclasses.replace(
        where, gpus=(Gpu(0, "a GPU", total_gib * GIB, 12 * GIB, "550"),), memory_total_bytes=GIB
    )
    if not settings:
        assert resolved(on_gpu, spec).config.replay_size == rows


def test_replay_takes_at_most_half_of_what_is_free() -> None:
    row_bytes = 4 * (3 + 1 + 3 + 1 + 1)
    fits = resolved(machine(free_bytes=2 * GIB), replay_size=20_000_000)
    assert fits.replay_bytes == 20_000_000 * row_bytes
    assert not fits.adjusted
    smaller = resolved(machine(free_bytes=2 * GIB), replay_size=100_000_000)
    assert smaller.config.replay_size == GIB // row_bytes
    assert smaller.adjusted["replay_size"].asked == 100_000_000
    assert "half at most is replay's" in smaller.adjusted["replay_size"].reason


def test_replay_on_a_gpu_is_measured_by_the_gpus_memory() -> None:
    assert resolved(machine(gpus=1, free_bytes=5 * GIB), replay_size=10**9).config.replay_size > 900_000_000


def test_automatic_samplers_give_way_to_a_small_container() -> None:
    few = resolved(machine(cores=64, free_bytes=2 * GIB))
    assert few.config.samplers == few.auto["samplers"].value < 47
    assert "fewer samplers, because memory is short" in few.auto["samplers"].reason
    assert few.config.replay_size == resolving.MOST_REPLAY_ROWS
    with pytest.raises(ConfigError, match=r"too little memory.* samplers [0-9,]{11,} "):
        resolved(machine(cores=64, free_bytes=2 * GIB), samplers=47)


def test_memory_for_less_than_the_run_needs_is_refused_with_the_bytes() -> None:
    with pytest.raises(ConfigError, match=r"needs at least [0-9,]{9,} bytes, 94,371,840 of 104,857,600 free ones"):
        resolved(machine(free_bytes=100 * 2**20))


def test_config_json_gives_the_same_settings_back(tmp_path: Path) -> None:
    shrunk = resolved(machine(free_bytes=2 * GIB), replay_size=10**9, samplers=3, gamma=0.9, hidden="64,32")
    assert shrunk.config.replay_size < 10**9
    data = json.loads(json.dumps(shrunk.in_folder(tmp_path).as_json()))
    assert data["samplers"] == 3
    assert data["env_backend"] == "gymnasium"
    assert data["auto"]["env_backend"] == {"value": "gymnasium", "reason": "the plain one"}
    assert data["env"] == data["spec"]["env_id"] == "Pendulum-v1"
    assert EnvSpec.from_json(data["spec"]) == PENDULUM
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    again = RunConfig.of(load_config_file(path))
    assert again == RunConfig.of({"replay_size": 10**9, "samplers": 3, "gamma": 0.9, "hidden": (64, 32)})


def test_reasons_are_sentences_for_people() -> None:
    assert (
        resolving.choose_samplers(16, 1).reason == "16 usable cores: 1 for the learner, 1 for evaluator and supervisor"
    )


def test_samplers_and_evaluator_share_half_of_what_is_free_and_have_enough_to_work() -> None:
    of_each = resolved(machine(cores=4, free_bytes=16 * GIB)).auto["sampler_memory"]
    assert of_each.value == 2 * GIB  # three samplers and the evaluator
    assert "half of the 16.0 GiB" in of_each.reason
    assert resolved(machine(cores=16, free_bytes=4 * GIB)).config.sampler_memory == GIB


def test_what_may_be_adapted_where() -> None:
    two_cores, desk = resolved().space, resolved(machine(16, gpus=1)).space
    assert two_cores is not None
    assert desk is not None
    assert two_cores.fixed
    assert "room for" in two_cores.why_nothing()
    assert "known to be good" in two_cores.why_nothing()
    assert (desk.samplers, desk.samplers_fixed, desk.batch_fixed) == (14, None, None)
    assert desk.batch_sizes == resolving.LADDER_CUDA
    assert resolved(machine(16)).as_json()["adapts"]["samplers"] == "1 to 11"


@pytest.mark.parametrize(
    ("settings", "samplers", "batch_size"),
    [
        ({"samplers": 4}, "as asked for", None),
        ({"batch_size": 512}, None, "as asked for"),
        ({"adapt": "off"}, "--adapt is off", "--adapt is off"),
        ({"replay_ratio": 8}, None, "exact --replay-ratio"),
        ({"schedule": "synchronous"}, "take turns", "take turns"),
        ({"actor_device": "cpu", "critic_device": "cuda:0"}, None, "CPU"),
        ({"actor_device": "cuda:0", "critic_device": "cuda:0"}, None, None),
        ({"device": "cpu", "experience": "pool"}, "pool", "CPU"),
        ({"replay_size": 900, "learning_starts": 100}, None, "no other"),
    ],
)
def test_what_is_left_alone_says_why(settings: dict, samplers: str | None, batch_size: str | None) -> None:
    space = resolved(machine(16, gpus=1), **settings).space
    assert space is not None
    for fixed, words in ((space.samplers_fixed, samplers), (space.batch_fixed, batch_size)):
        assert (fixed is None) == (words is None)
        assert (words or "") in (fixed or "")


def test_where_the_kernels_knee_was_measured_no_batch_is_tried_for_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "why_not_for", lambda hidden, precision: None)
    hopper = dataclasses.replace(machine(16), gpus=(Gpu(0, "a GPU", 80 * GIB, 70 * GIB, "550", (9, 0)),))
    other = dataclasses.replace(machine(16), gpus=(Gpu(0, "a GPU", 80 * GIB, 70 * GIB, "550", (8, 9)),))
    wide = EnvSpec("Wide", 348, 1, (-1.0,), (1.0,))

    def knee(where: Machine, spec: EnvSpec = PENDULUM, **settings: object) -> str | None:
        space = resolved(where, spec, **settings).space
        assert space is not None
        return space.knee

    assert "8,192 was measured" in (knee(hopper) or "")
    assert knee(other) is None
    assert knee(hopper, wide) is None
    assert knee(hopper, hidden=(512, 512)) is None
    assert knee(hopper, critic_norm="layer") is None
    assert knee(hopper, compile="off") is None
    assert knee(hopper, actor_device="cuda:0", critic_device="cuda:0") is None


def test_smaller_batches_are_what_a_search_may_step_to_next() -> None:
    on_gpu = resolved(machine(16, gpus=1))
    assert on_gpu.next_batch_sizes == (1024, 2048, 4096)
    assert on_gpu.starting_at(resolving.Setting(11, 4096), "found before").next_batch_sizes == ()
    assert resolved(machine(16, gpus=1), batch_size=4096).next_batch_sizes == ()
    assert resolved().next_batch_sizes == ()


def test_the_ladder_holds_the_start_and_no_more_than_replay_or_memory_does() -> None:
    small = resolved(machine(16, gpus=1), replay_size=9_000, learning_starts=100).space
    assert small is not None
    assert small.batch_sizes == (1024, 2048, 4096, 8192)
    short_of_memory = dataclasses.replace(machine(16), gpus=(Gpu(0, "a GPU", 4 * GIB, 2 * GIB, "550"),))
    planned = resolved(short_of_memory)
    assert planned.space is not None
    assert planned.space.batch_sizes[-1] < resolving.LADDER_CUDA[-1]
    assert planned.config.batch_size in planned.space.batch_sizes


def test_what_was_found_before_is_where_a_run_starts_with_its_reason() -> None:
    start = resolving.Setting(11, 4096)
    result = resolved(machine(16, gpus=1)).starting_at(start, "found here on 2026-11-19")
    assert (result.start, result.known) == (start, "found here on 2026-11-19")
    assert (result.config.samplers, result.config.batch_size) == (14, 4096)
    assert result.auto["batch_size"] == Choice(4096, "found here on 2026-11-19")
    assert result.auto["samplers"].reason.endswith("; 11 of them are active at first: found here on 2026-11-19")


def test_an_optimiser_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"--adapt optuna: .*pip install 'spreeze\[tune\]'"):
        resolved(adapt="optuna")
    assert resolved(adapt="enumerate").config.adapt == "enumerate"
