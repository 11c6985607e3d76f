"""The memory of a run, reckoned before anything starts: what is free, what each part will need, and what gives way
where it is too little. Pure: numbers in, a plan out.

What a process takes by itself was measured while it trained, its replay and its rings taken off: private bytes and
address space (psutil's memory_full_info().uss, VmPeak of /proc/PID/status), the largest of two looks a second at the
roles of

    spreeze train ENV --seconds 14        ENV: Pendulum-v1, HalfCheetah-v5, Humanoid-v5, HalfCheetahBulletEnv-v0;
                                          HalfCheetah-v5 --env-backend envpool; Pendulum-v1 --batch-size 8192

on two x86-64 cores, Python 3.11, torch 2.13 for the CPU. The figures here are the largest, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from spreeze.errors import ConfigError

MIB = 2**20
SUPERVISOR_BYTES = 176 * MIB  # 36 to 163 MiB: it makes one environment to learn the spaces, and EnvPool is large
LEARNER_BYTES = 192 * MIB  # 127 to 170 MiB: torch, networks, staging
ENV_PROCESS_BYTES = 64 * MIB  # a sampler, the evaluator: 21 to 59 MiB, the latter with sixteen Humanoid-v5
ENVPOOL_SAMPLER_BYTES = 128 * MIB  # 120 MiB with 64 HalfCheetah-v5
VISUALIZER_BYTES = 256 * MIB  # 29 to 193 MiB, the latter with HalfCheetah-v5 drawn by a CPU
BULLET_ENV_BYTES = 32 * MIB  # 30 MiB: each is a physics server of its own
LEARNER_ADDRESS_BYTES = 768 * MIB  # 680 to 770 MiB of addresses, most of them torch's libraries
ENV_PROCESS_ADDRESS_BYTES = 1280 * MIB  # 113 to 1,172 MiB, the latter with EnvPool
# An update keeps the inputs and outputs of every layer: so many numbers a row and hidden unit at most, on a CPU, where
# a batch of 8,192 rows took 15.4 of them. Captured updates on a GPU were not measured.
WORKSPACE_NUMBERS_A_UNIT = 18
CUDA_PROCESS_BYTES = 512 * MIB  # a context with its libraries, on the GPU; the usual size, not measured here
CUDA_HOST_BYTES = 3072 * MIB  # the learner's process with CUDA's libraries loaded; likewise
RESERVE_SHARE = 0.1  # of what is free: other programs, caches, what was not thought of
REPLAY_SHARE = 0.5  # of what is free where replay lies: a checkpoint may hold a copy of it while it is written
MEMORY, DISK = "memory", "disk"


@dataclass(frozen=True)
class Room:
    """Bytes that can still be taken."""

    memory: int
    memory_of: str  # whose: the machine's, or a container's limit
    gpu: int | None = None  # of the learner's GPU; None without one
    addresses: int | None = None  # a process may map so many (ulimit -v); None without a limit
    disk: int | None = None  # where the run folder lies; None: not looked at


@dataclass(frozen=True)
class Demand:
    """The numbers of a run that decide what it needs."""

    device: str
    samplers: int  # the most that are ever active
    envs_per_sampler: int
    sampler_bytes: int  # of one sampler's process, with all its environments
    eval_envs: int
    env_bytes: int  # of one environment, where it is more than a process's own bytes cover
    hidden_units: int  # of one network
    network_bytes: int  # all networks with their gradients and moments
    ladder: tuple[int, ...]  # batch sizes, the one at first included
    first_batch_size: int
    row_bytes: int
    replay_rows: int
    least_replay_rows: int  # replay cannot shrink below
    ring_bytes: int  # of one sampler
    visualizer: bool = False  # a process that draws

    @property
    def replay_bytes(self) -> int:
        return self.replay_rows * self.row_bytes

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


@dataclass(frozen=True)
class Need:
    what: str
    bytes: int
    of: str  # how the number comes about


@dataclass(frozen=True)
class Place:
    """One kind of memory."""

    name: str
    free_bytes: int
    free_of: str
    needs: tuple[Need, ...]

    @property
    def needed_bytes(self) -> int:
        return sum(need.bytes for need in self.needs)

    @property
    def usable_bytes(self) -> int:
        return int(self.free_bytes * (1 - RESERVE_SHARE))

    @property
    def short(self) -> bool:
        return self.needed_bytes > self.usable_bytes

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "free_bytes": self.free_bytes,
            "free_of": self.free_of,
            "needed_bytes": self.needed_bytes,
            "needs": [asdict(need) for need in self.needs],
        }


@dataclass(frozen=True)
class Change:
    """A number that had to give way."""

    name: str
    asked: Any
    value: Any
    reason: str


@dataclass(frozen=True)
class Plan:
    demand: Demand
    places: tuple[Place, ...]
    changes: tuple[Change, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"places": [place.as_json() for place in self.places], "line": self.line(), "warnings": self.warnings()}

    def line(self) -> str:
        """The plan in one line."""
        demand = self.demand
        samplers = f"{demand.samplers} sampler{'s' if demand.samplers > 1 else ''} x {demand.envs_per_sampler}"
        batches = "/".join(map(str, demand.ladder))
        places = "; ".join(f"{p.name} {amount(p.needed_bytes)} of {amount(p.free_bytes)} free" for p in self.places)
        return f"plan: at most {samplers} environments, batch {batches} on {demand.device}; {places}"

    def warnings(self) -> list[str]:
        """What may run out, and does not end a run."""
        return [
            f"disk: checkpoints need {place.needed_bytes:,} bytes, {place.free_bytes:,} are free {place.free_of}; "
            "training goes on without those that do not fit"
            for place in self.places
            if place.name == DISK and place.needed_bytes > place.free_bytes
        ]


def make_plan(demand: Demand, room: Room, samplers_fixed: bool = True) -> Plan:
    """What the run will need. Where that is too little, batch sizes of the ladder give way first, then the number of
    samplers unless it is fixed, then replay. Raises ConfigError when that does not help."""
    fair_rows = min(demand.replay_rows, *(_fair_rows(place, demand) for place in places_of(demand, room)))
    fitted = replace(demand, replay_rows=max(fair_rows, demand.least_replay_rows))
    while len(fitted.ladder) > 1 and shortage(fitted, room):
        fitted = replace(fitted, ladder=_without_largest(fitted))
    while not samplers_fixed and fitted.samplers > 1 and shortage(fitted, room):
        fitted = replace(fitted, samplers=fitted.samplers - 1)
    rows = min(fitted.replay_rows, *(_rows_left(place, fitted) for place in places_of(fitted, room)))
    fitted = replace(fitted, replay_rows=max(rows, demand.least_replay_rows))
    if (place := shortage(fitted, room)) is not None:
        raise ConfigError(_refusal(place))
    return Plan(fitted, tuple(places_of(fitted, room)), tuple(_changes(demand, fitted, room)))


def _changes(demand: Demand, fitted: Demand, room: Room) -> Iterator[Change]:
    for name, what in (("ladder", "batch sizes"), ("samplers", "samplers"), ("replay_rows", "rows of replay")):
        asked, value = getattr(demand, name), getattr(fitted, name)
        if asked != value:
            yield Change(name, asked, value, _why_less(what, demand, room))


def shortage(demand: Demand, room: Room) -> Place | None:
    """The first place where the demand does not fit; a disk that is full ends no run."""
    return next((place for place in places_of(demand, room) if place.short and place.name != DISK), None)


def places_of(demand: Demand, room: Room) -> list[Place]:
    places = [Place(MEMORY, room.memory, room.memory_of, _memory_needs(demand))]
    if room.gpu is not None:
        places.append(Place(demand.device, room.gpu, "on it", _gpu_needs(demand)))
    if room.addresses is not None and not demand.on_gpu:  # CUDA maps what it likes; nobody runs it under this limit
        for of, needs in (("learner", _learner_address_needs(demand)), ("sampler", _SAMPLER_ADDRESS_NEEDS)):
            places.append(Place(f"address space of the {of}", room.addresses, "under the limit of a process", needs))
    if room.disk is not None:
        places.append(Place(DISK, room.disk, "where runs are kept", _disk_needs(demand)))
    return places


def _memory_needs(demand: Demand) -> tuple[Need, ...]:
    evaluator_bytes = ENV_PROCESS_BYTES + demand.eval_envs * demand.env_bytes
    learner_bytes = CUDA_HOST_BYTES if demand.on_gpu else LEARNER_BYTES
    processes = (
        Need("supervisor", SUPERVISOR_BYTES + demand.env_bytes, "a process"),
        Need("learner", learner_bytes, "a process with torch"),
        Need("evaluator", evaluator_bytes, f"a process, {demand.eval_envs} environments"),
        Need("samplers", demand.samplers * demand.sampler_bytes, f"{demand.samplers} x {amount(demand.sampler_bytes)}"),
        Need("rings", demand.samplers * demand.ring_bytes, f"{demand.samplers} x {amount(demand.ring_bytes)}"),
    )
    drawing = (Need("visualizer", VISUALIZER_BYTES, "a process that draws"),) if demand.visualizer else ()
    return (*processes, *drawing, *(() if demand.on_gpu else _learner_needs(demand)))


def _gpu_needs(demand: Demand) -> tuple[Need, ...]:
    return (Need("context", CUDA_PROCESS_BYTES, "CUDA and its libraries"), *_learner_needs(demand))


def _learner_needs(demand: Demand) -> tuple[Need, ...]:
    """Where updates are computed."""
    # graphs of several batch sizes lie beside each other; a CPU's update uses the largest's memory for all
    rows = sum(demand.ladder) if demand.on_gpu else max(demand.ladder)
    workspace = rows * demand.hidden_units * WORKSPACE_NUMBERS_A_UNIT * 4
    batches = ", ".join(f"{size:,}" for size in demand.ladder)
    return (
        Need("networks", demand.network_bytes, "weights, gradients, moments, targets"),
        Need("updates", workspace, f"{rows:,} rows ({batches})"),
        Need("replay", demand.replay_bytes, f"{demand.replay_rows:,} rows x {demand.row_bytes} bytes"),
    )


def _learner_address_needs(demand: Demand) -> tuple[Need, ...]:
    rings = Need("rings", demand.samplers * demand.ring_bytes, f"{demand.samplers} x {amount(demand.ring_bytes)}")
    return (Need("process", LEARNER_ADDRESS_BYTES, "Python, torch and its libraries"), rings, *_learner_needs(demand))


_SAMPLER_ADDRESS_NEEDS = (Need("process", ENV_PROCESS_ADDRESS_BYTES, "Python, NumPy and a simulator"),)


_CHECKPOINTS = 3  # at a time


def _disk_needs(demand: Demand) -> tuple[Need, ...]:
    most = _CHECKPOINTS * (demand.network_bytes + demand.replay_bytes)
    return (Need("checkpoints", most, "of networks and replay: two complete, one being written, sharing nothing"),)


def _holds_replay(place: Place) -> bool:
    return any(need.what == "replay" for need in place.needs)


def _fair_rows(place: Place, demand: Demand) -> int:
    """Rows of replay's own share, whatever else lies there."""
    return int(place.free_bytes * REPLAY_SHARE) // demand.row_bytes if _holds_replay(place) else demand.replay_rows


def _rows_left(place: Place, demand: Demand) -> int:
    """Rows of replay that everything else leaves room for."""
    if not _holds_replay(place):
        return demand.replay_rows
    return (place.usable_bytes - place.needed_bytes + demand.replay_bytes) // demand.row_bytes


def _without_largest(demand: Demand) -> tuple[int, ...]:
    """The batch size at first stays."""
    others = [size for size in demand.ladder if size != demand.first_batch_size]
    return tuple(size for size in demand.ladder if size != max(others))


def _why_less(what: str, demand: Demand, room: Room) -> str:
    places = places_of(demand, room)
    place = next(place for place in places if place.short or _fair_rows(place, demand) < demand.replay_rows)
    return (
        f"fewer {what}, because {place.name} is short: {amount(place.needed_bytes)} would be needed, "
        f"{amount(place.free_bytes)} are free {place.free_of}; a tenth of that is left alone, half at most is replay's"
    )


def _refusal(place: Place) -> str:
    largest_first = sorted(place.needs, key=lambda need: -need.bytes)
    parts = ", ".join(f"{need.what} {need.bytes:,} ({need.of})" for need in largest_first)
    return (
        f"too little {place.name}: this run needs at least {place.needed_bytes:,} bytes, {place.usable_bytes:,} of "
        f"{place.free_bytes:,} free ones {place.free_of} can be used. It needs {parts}. Free some, or lower "
        "--samplers, --envs-per-sampler, --batch-size, --learning-starts or --eval-episodes"
    )


def amount(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
