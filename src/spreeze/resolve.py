"""Where every 'auto' ends: one number each, with its reason. After this nothing derives a setting again.

The order below is the order of dependence: the device decides the batch, the learner's threads leave cores to the
samplers, and what all of them need of the memory (tuning/plan.py) decides how many rows replay may keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from spreeze import __version__
from spreeze.algos import policy_spec_for
from spreeze.algos.kernel_limits import LEAST_CAPABILITY, why_not_for
from spreeze.config import AUTO, RunConfig
from spreeze.errors import ConfigError
from spreeze.experience.packing import block_rows
from spreeze.experience.ring import sampler_ring_shape
from spreeze.spec import EnvSpec, layout_of
from spreeze.tuning.hardware import Gpu, Machine, find_disk_free
from spreeze.tuning.placement import DEFAULT_MODE, Placement, asked_placement, by_size, check_mode, cpu_halves
from spreeze.tuning.plan import (
    BULLET_ENV_BYTES,
    ENV_PROCESS_BYTES,
    ENVPOOL_SAMPLER_BYTES,
    Demand,
    Plan,
    Room,
    amount,
    make_plan,
)
from spreeze.tuning.search import Setting, Space
from spreeze.tuning.two_gpus import Sizes

# One call of the policy for 16 observations costs 4 times that for one; with more environments than that their memory
# no longer fits into the cache beside the policy's weights (docs/decisions/0004-envs-per-sampler.md).
ENVS_PER_SAMPLER = 16
BULLET_ENVS_PER_SAMPLER = 8  # a physics server each, and a step slow enough that the policy's call hardly counts
ENVPOOL_ENVS_PER_SAMPLER = 64  # two halves of 32: the engine steps one while the policy acts for the other
BATCH_SIZE_CPU = 64
# Rows of replay, as many as take no more than this, within bounds (docs/decisions/0017-a-long-memory.md)
LEAST_REPLAY_ROWS, MOST_REPLAY_ROWS, REPLAY_BYTES, REPLAY_MEMORY_SHARE = 1_000_000, 10_000_000, 4 << 30, 0.125
# What the tuner may step to (docs/decisions/0011-what-the-tuner-seeks.md). A CPU has no ladder: what updates cost there
# is known, and what larger batches are worth is not.
LADDER_CUDA = (1024, 2048, 4096, 8192, 16384, 32768)
BATCH_SIZE_CUDA = 8192  # below it a GPU's update takes as long, so a smaller batch is thrown away speed
KNEE_CAPABILITY, KNEE_HIDDEN, KNEE_OBS = (9, 0), (256, 256), 128  # where that was measured to be the tuner's choice
SAMPLER_MEMORY_SHARE = 0.5  # of what is free, all of them together; replay and learner need the rest
LEAST_SAMPLER_MEMORY_BYTES = 1 << 30
CORES_WITH_OWN_EVALUATOR = 5  # from here on a core is left to evaluator and supervisor


@dataclass(frozen=True)
class Choice:
    value: Any
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"value": self.value, "reason": self.reason}


@dataclass(frozen=True)
class Adjusted:
    """A number that the user named and that this machine cannot hold."""

    asked: Any
    value: Any
    reason: str

    def as_json(self) -> dict[str, Any]:
        return {"asked": self.asked, "value": self.value, "reason": self.reason}


@dataclass(frozen=True)
class Resolved:
    """A run in numbers: `config` holds no 'auto' any more; `auto` tells what each of them became, and why."""

    config: RunConfig
    spec: EnvSpec
    auto: dict[str, Choice]
    adjusted: dict[str, Adjusted] = field(default_factory=dict)
    plan: Plan | None = None  # of the memory; None where nothing will be started
    space: Space | None = None  # what may be adapted while the run goes on; likewise
    start: Setting | None = None  # where it begins
    known: str | None = None  # why the start needs no search

    @property
    def replay_bytes(self) -> int:
        return int(self.config.replay_size) * layout_of(self.spec).row_bytes

    def in_folder(self, run_dir: Path) -> Resolved:
        return replace(self, config=self.config.replace(run_dir=str(run_dir)))

    def starting_at(self, start: Setting, known: str) -> Resolved:
        """What an earlier run found, as the start."""
        auto = dict(self.auto)
        if "batch_size" in auto:
            auto["batch_size"] = Choice(start.batch_size, known)
        if "samplers" in auto and start.samplers != self.config.samplers:
            reason = f"{auto['samplers'].reason}; {start.samplers} of them are active at first: {known}"
            auto["samplers"] = replace(auto["samplers"], reason=reason)
        config = self.config.replace(batch_size=start.batch_size)
        return replace(self, config=config, auto=auto, start=start, known=known)

    @property
    def next_batch_sizes(self) -> tuple[int, ...]:
        """What a search is likely to step to: fewer rows, where they come in too slowly for the batch at the start."""
        if self.space is None or self.known is not None:
            return ()
        return tuple(rung for rung in self.space.batch_sizes if rung < int(self.config.batch_size))

    def as_json(self) -> dict[str, Any]:
        """The run's config.json; spreeze.config.load_config_file reads it."""
        return {
            "spreeze": __version__,
            "env": self.spec.env_id,
            **self.config.as_json(),
            "replay_bytes": self.replay_bytes,
            "auto": {name: choice.as_json() for name, choice in self.auto.items()},
            "adjusted": {name: change.as_json() for name, change in self.adjusted.items()},
            "plan": None if self.plan is None else self.plan.as_json(),
            "adapts": None if self.space is None else self.space.as_json(),
            "spec": self.spec.as_json(),
        }


def resolve(config: RunConfig, spec: EnvSpec, machine: Machine, backend: Choice) -> Resolved:
    """`backend`: the engine that envs.registry.choose_backend found, and why. Raises ConfigError."""
    auto: dict[str, Choice] = {}

    def settle(name: str, choice: Choice) -> Any:
        """The user's value where there is one, else the choice, remembered with its reason."""
        asked = getattr(config, name)
        if asked != AUTO:
            return asked
        auto[name] = choice
        return choice.value

    if config.adapt == "optuna" and find_spec("optuna") is None:
        raise ConfigError("--adapt optuna: optuna is not installed; pip install 'spreeze[tune]', or --adapt on")
    two = asked_placement(config)
    device = settle("device", Choice(two.critics, "where the critics are") if two else choose_device(machine))
    on_cpu = cpu_halves(two, device)
    check_device(device, machine, "--critic-device" if two else "--device")
    if two and two.actor:
        check_device(two.actor, machine, "--actor-device")
    on_gpu = on_cpu == 0
    if config.experience == "pool" and (two or device != "cpu"):
        raise ConfigError(
            "--experience pool: updates draw from the memory that samplers write, which only one CPU place can do; "
            f"here they are computed on {device if not two else 'two devices'}. Use --experience ring or --device cpu"
        )
    if config.experience == "pool" and config.observation_norm == "on":
        raise ConfigError(
            "--observation-norm on: the learner counts every row as it comes in, and with --experience pool none comes "
            "by; use --experience ring, or leave --observation-norm out"
        )
    env_backend = settle("env_backend", backend)
    if config.deterministic and config.experience != "ring":
        raise ConfigError(f"--deterministic needs --experience ring: {config.experience} keeps no order")
    threads = choose_learner_threads(on_gpu, machine.cores, on_cpu)
    learner_threads = settle(
        "learner_threads", Choice(1, "deterministic: sums in one order") if config.deterministic else threads
    )
    samplers = settle("samplers", choose_samplers(machine.cores, learner_threads * max(1, on_cpu)))
    replay_size = settle("replay_size", choose_replay_size(config, spec, machine, device))
    numbers = {
        "replay_size": replay_size,
        "env_backend": env_backend,
        "device": device,
        "learner_threads": learner_threads,
        "samplers": samplers,
        "envs_per_sampler": settle("envs_per_sampler", choose_envs_per_sampler(spec.env_id, env_backend)),
        "batch_size": settle("batch_size", choose_batch_size(on_gpu, replay_size)),
        "precision": settle("precision", choose_precision(on_gpu)),
        "compile": settle("compile", Choice("on", "fused and captured updates compute the same, faster")),
        "sampler_memory": settle("sampler_memory", choose_sampler_memory(machine.memory_available_bytes, samplers)),
        "target_entropy": settle("target_entropy", choose_target_entropy(spec)),
    }
    two = two or choose_placement(config, spec, machine, numbers)
    numbers |= {name: settle(name, choice) for name, choice in placement_choices(config, two).items()}
    resolved = Resolved(config.replace(**numbers), spec, auto)
    check_numbers(resolved.config)
    gpu = find_gpu(device, machine) if on_gpu else None
    ladder, why_one = choose_ladder(resolved, gpu)
    plan = make_plan(demand_of(resolved, ladder), room_of(resolved.config, machine), "samplers" not in auto)
    return with_space(fit(resolved, plan), machine.cores, why_one, known_knee(resolved, gpu))


def choose_device(machine: Machine) -> Choice:
    if not machine.gpus:
        return Choice("cpu", "no NVIDIA GPU was found")
    if not torch_has_cuda(machine):
        return Choice("cpu", f"{machine.gpus[0].name} is here, but the installed torch is built for the CPU alone")
    return Choice("cuda:0", f"{machine.gpus[0].name} was found")


def choose_placement(config: RunConfig, spec: EnvSpec, machine: Machine, numbers: dict[str, Any]) -> Placement:
    """Where the user leaves it open. `numbers`: what has been settled so far."""
    if reason := why_one_place(config, machine, numbers):
        return Placement(None, None, reason)
    policy = policy_spec_for(config.algo, spec.obs_size, spec.action_size, config.hidden)
    sizes = Sizes(config.algo, policy, int(numbers["batch_size"]), config.policy_delay)
    capability = machine.gpus[0].capability
    kernels = why_not_for(config.hidden, numbers["precision"]) is None and (
        capability is None or capability >= LEAST_CAPABILITY
    )
    mode = DEFAULT_MODE if config.split_mode in (AUTO, None) else config.split_mode
    return by_size(sizes, kernels, mode)


def why_one_place(config: RunConfig, machine: Machine, numbers: dict[str, Any]) -> str | None:
    """None where a second GPU is there to be reckoned with."""
    device = numbers["device"]
    if config.device != AUTO:
        return f"--device {device} was named"
    if device == "cpu":
        return "no GPU computes the updates, and halves on one CPU would share its cores"
    if len(machine.gpus) == 1:
        return f"{device} is the only GPU"
    if machine.gpus[0].name != machine.gpus[1].name:
        return f"{device} alone: {machine.gpus[1].name} is not its equal; --actor-device and --critic-device use both"
    if numbers["compile"] != "on":
        return f"{device} alone: updates that are not captured wait for the CPU, not for the GPU"
    if numbers["precision"] != "bfloat16":
        return f"{device} alone: what two GPUs bring in {numbers['precision']} was not measured"
    return None


def torch_has_cuda(machine: Machine) -> bool:
    """Told from the version alone ('2.13.0+cpu'): importing torch here would cost a second of every start."""
    return not (machine.versions.get("torch") or "").endswith("+cpu")


def find_gpu(device: str, machine: Machine) -> Gpu | None:
    index = int(device.removeprefix("cuda:"))
    return machine.gpus[index] if index < len(machine.gpus) else None


def placement_choices(config: RunConfig, placement: Placement) -> dict[str, Choice]:
    """The settings that say where the halves of the updates are computed; all None where there is one place."""
    check_mode(config, placement)
    mode = Choice(DEFAULT_MODE, "both devices work at once") if placement.split else Choice(None, placement.reason)
    return {
        "actor_device": Choice(placement.actor, placement.reason),
        "critic_device": Choice(placement.critics, placement.reason),
        "split_mode": mode,
    }


def check_device(device: str, machine: Machine, flag: str = "--device") -> None:
    if device == "cpu":
        return
    if find_gpu(device, machine) is None:
        have = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in machine.gpus) or "no NVIDIA GPU"
        raise ConfigError(f"{flag} {device}: this machine has {have}; cpu works everywhere")
    if not torch_has_cuda(machine):
        raise ConfigError(
            f"{flag} {device}: torch {machine.versions['torch']} is built for the CPU alone; "
            f"install a CUDA build (pip install --force-reinstall torch), or use {flag} cpu"
        )


def choose_learner_threads(on_gpu: bool, cores: int, halves: int = 1) -> Choice:
    """`halves`: of the updates, that the CPU computes at the same time; each has so many threads."""
    if on_gpu:
        return Choice(1, "the GPU computes the updates")
    if cores <= 2:
        return Choice(1, f"{cores} usable cores; threads that wait for a busy core make an update slower, not faster")
    shared = ", shared by both halves of an update" if halves > 1 else ""
    return Choice(
        max(1, cores // (4 * halves)), f"a quarter of {cores} usable cores{shared}; the samplers have the others"
    )


def choose_samplers(cores: int, learner_threads: int) -> Choice:
    left_to_others = int(cores >= CORES_WITH_OWN_EVALUATOR)
    samplers = max(1, cores - learner_threads - left_to_others)
    others = f", {left_to_others} for evaluator and supervisor" if left_to_others else ""
    return Choice(samplers, f"{cores} usable cores: {learner_threads} for the learner{others}")


def choose_envs_per_sampler(env_id: str, backend: str) -> Choice:
    if backend == "envpool":
        return Choice(ENVPOOL_ENVS_PER_SAMPLER, "EnvPool steps them in one native call")
    if "Bullet" in env_id:
        return Choice(BULLET_ENVS_PER_SAMPLER, "each PyBullet environment is a physics server of its own")
    return Choice(ENVS_PER_SAMPLER, "one call of the policy serves them all, and their memory fits into the cache")


def choose_replay_size(config: RunConfig, spec: EnvSpec, machine: Machine, device: str) -> Choice:
    """By what the machine has and not by what is free: the same settings draw the same rows tomorrow."""
    if config.experience == "pool":
        return Choice(LEAST_REPLAY_ROWS, "a pool is memory that all samplers share")
    gpu = None if device == "cpu" else find_gpu(device, machine)
    total = min(machine.memory_total_bytes, machine.memory_limit_bytes or machine.memory_total_bytes)
    room = min(REPLAY_BYTES, int(REPLAY_MEMORY_SHARE * (total if gpu is None else gpu.memory_bytes)))
    row_bytes = layout_of(spec).row_bytes
    rows = max(LEAST_REPLAY_ROWS, min(MOST_REPLAY_ROWS, room // row_bytes // 100_000 * 100_000))
    return Choice(rows, f"{amount(rows * row_bytes)}: what is not forgotten is not done wrong again")


def choose_batch_size(on_gpu: bool, replay_size: int) -> Choice:
    batch_size = BATCH_SIZE_CUDA if on_gpu else BATCH_SIZE_CPU
    if batch_size > replay_size:
        return Choice(replay_size, "as many rows as replay keeps")
    return Choice(batch_size, "a GPU needs it to be busy" if on_gpu else "more updates a second, which on a CPU decide")


def choose_ladder(resolved: Resolved, gpu: Gpu | None) -> tuple[tuple[int, ...], str | None]:
    """The batch sizes that may be stepped to, ascending, and where there is but one, why. `gpu`: None for a CPU."""
    config, batch_size = resolved.config, int(resolved.config.batch_size)
    if (why := _why_as_asked(resolved, "batch_size")) is not None:
        return (batch_size,), why
    if config.replay_ratio != "free":
        return (batch_size,), "with an exact --replay-ratio it decides how many updates an env step has"
    if gpu is None:
        return (batch_size,), f"on a CPU {batch_size} is known to be good"
    rungs = {rung for rung in LADDER_CUDA if rung <= int(config.replay_size)} | {batch_size}
    return tuple(sorted(rungs)), "replay could hold no other" if len(rungs) == 1 else None


def known_knee(resolved: Resolved, gpu: Gpu | None) -> str | None:
    """Why no batch size is tried for what it costs: that was measured for the Triton kernels on Hopper
    (docs/decisions/0006-updates-as-triton-kernels.md)."""
    config = resolved.config
    known = (
        gpu is not None
        and gpu.capability == KNEE_CAPABILITY
        and config.hidden == KNEE_HIDDEN
        and resolved.spec.obs_size <= KNEE_OBS
        and config.compile == "on"
        and config.actor_device is None
        and config.critic_norm == "none"
        and why_not_for(config.hidden, config.precision) is None
    )
    return (
        f"{BATCH_SIZE_CUDA:,} was measured to be where a larger batch begins to cost on such a GPU" if known else None
    )


def _why_as_asked(resolved: Resolved, name: str) -> str | None:
    """Why the tuner leaves a setting alone from the start."""
    if name not in resolved.auto:
        return "as asked for"
    if resolved.config.deterministic:
        return "--deterministic adapts nothing"
    if resolved.config.schedule == "synchronous":
        return "samplers and updates take turns"
    return "--adapt is off" if resolved.config.adapt == "off" else None


def with_space(resolved: Resolved, cores: int, why_one: str | None, knee: str | None) -> Resolved:
    """What may be adapted within what fits into the memory."""
    assert resolved.plan is not None, "it decides what fits"
    config, ladder = resolved.config, resolved.plan.demand.ladder
    ladder = tuple(rung for rung in ladder if rung <= int(config.replay_size))
    if why_one is None and len(ladder) == 1:
        why_one = "memory is too short for others"
    samplers, samplers_fixed = int(config.samplers), _why_as_asked(resolved, "samplers")
    if samplers_fixed is None and config.experience == "pool":
        samplers_fixed = "each has a part of the pool, which would grow old while it rests"
    if samplers_fixed is None and samplers == 1:
        samplers_fixed = f"one is what {cores} usable cores have room for"
    space = Space(samplers, samplers_fixed, ladder, why_one, cores, knee)
    return replace(resolved, space=space, start=Setting(samplers, int(config.batch_size)))


def choose_precision(on_gpu: bool) -> Choice:
    if on_gpu:
        return Choice("bfloat16", "products twice as fast on this GPU; weights and sums stay float32")
    return Choice("float32", "the plain choice on a CPU")


def choose_sampler_memory(available_bytes: int, samplers: int) -> Choice:
    """Each sampler's, and the evaluator's: together they never take what replay and learner need."""
    share = int(available_bytes * SAMPLER_MEMORY_SHARE) // (samplers + 1)
    shared_by = f"{samplers} sampler{'s' * (samplers != 1)} and the evaluator"
    of_what = f"half of the {amount(available_bytes)} that are free, for {shared_by}"
    if share < LEAST_SAMPLER_MEMORY_BYTES:
        least = LEAST_SAMPLER_MEMORY_BYTES
        return Choice(least, f"{of_what}, is less than the {amount(least)} that a simulator may need")
    return Choice(share, of_what)


def choose_target_entropy(spec: EnvSpec) -> Choice:
    return Choice(-float(spec.action_size), "minus the number of action dimensions, as SAC's authors do")


def needed_rows(config: RunConfig) -> dict[str, int]:
    """Rows that replay must be able to keep, by the flags that say so."""
    return {
        "--learning-starts": config.learning_starts,
        "--batch-size": int(config.batch_size),
        "--samplers times --envs-per-sampler": int(config.samplers) * int(config.envs_per_sampler),
    }


def check_numbers(config: RunConfig) -> None:
    """Refuses numbers that are each possible but not together."""
    for flag, needs in needed_rows(config).items():
        if needs > int(config.replay_size):
            raise ConfigError(
                f"{flag} {needs} is more than --replay-size {config.replay_size}; raise the second or lower the first"
            )


def demand_of(resolved: Resolved, ladder: tuple[int, ...]) -> Demand:
    config, spec, layout = resolved.config, resolved.spec, layout_of(resolved.spec)
    num_envs = int(config.envs_per_sampler)
    env_bytes = BULLET_ENV_BYTES if "Bullet" in spec.env_id else 0
    process_bytes = ENVPOOL_SAMPLER_BYTES if config.env_backend == "envpool" else ENV_PROCESS_BYTES
    return Demand(
        device=config.device,
        samplers=int(config.samplers),
        envs_per_sampler=num_envs,
        sampler_bytes=process_bytes + num_envs * env_bytes,
        eval_envs=config.eval_episodes,
        env_bytes=env_bytes,
        hidden_units=sum(config.hidden),
        network_bytes=network_bytes(config, spec),
        ladder=ladder,
        first_batch_size=int(config.batch_size),
        row_bytes=layout.row_bytes,
        replay_rows=int(config.replay_size),
        least_replay_rows=min(int(config.replay_size), max(needed_rows(config).values())),
        ring_bytes=sampler_ring_shape(layout, block_rows(num_envs, config.n_step)).size_bytes,
        visualizer=config.visualize != "off",
    )


def network_bytes(config: RunConfig, spec: EnvSpec) -> int:
    """An actor and twin critics, each with a target, a gradient and two moments, and a copy for the products."""
    actor = policy_spec_for(config.algo, spec.obs_size, spec.action_size, config.hidden).weight_count
    sizes = (spec.obs_size + spec.action_size, *config.hidden, 1)
    critic = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    return 4 * 6 * (actor + 2 * critic)


def room_of(config: RunConfig, machine: Machine) -> Room:
    gpu = None if config.device == "cpu" else find_gpu(config.device, machine)
    return Room(
        memory=machine.memory_available_bytes,
        memory_of="of this machine" if machine.memory_limit_bytes is None else "under the container's limit",
        gpu=None if gpu is None else gpu.memory_free_bytes,
        addresses=machine.address_limit_bytes,
        disk=find_disk_free(Path(config.run_dir or ".")),
    )


def fit(resolved: Resolved, plan: Plan) -> Resolved:
    """The numbers as asked for, or what the plan could keep of them."""
    auto, adjusted, numbers = dict(resolved.auto), dict(resolved.adjusted), {}
    for change in plan.changes:
        name = _SETTING_OF.get(change.name)
        if name is None:
            continue
        numbers[name] = change.value
        if name in auto:
            auto[name] = Choice(change.value, f"{auto[name].reason}; {change.reason}")
        else:
            adjusted[name] = Adjusted(change.asked, change.value, change.reason)
    return replace(resolved, config=resolved.config.replace(**numbers), auto=auto, adjusted=adjusted, plan=plan)


_SETTING_OF = {"samplers": "samplers", "replay_rows": "replay_size"}
