"""What this machine has, as far as this process may use it. Asks the operating system and the driver, never torch.

Three numbers of cores are easily taken for one another: what is built in, what the scheduler lets this process run on
(affinity), and how much of that a container may use (its quota). `cores` is the one to plan with.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from spreeze import __version__
from spreeze.cpu import find_cpu_model

CGROUP_ROOT = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
VERSIONED = (
    "numpy", "torch", "triton", "gymnasium", "mujoco", "pybullet", "pybullet-envs-gymnasium", "box2d",
    "envpool", "safetensors",
)  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str
    memory_bytes: int
    memory_free_bytes: int
    driver: str
    capability: tuple[int, int] | None = None  # CUDA's compute capability


@dataclass(frozen=True)
class Machine:
    """The hardware and the software that a run stands on; a run keeps it as machine.json."""

    system: str  # 'Linux 6.1.0 x86_64'
    python: str
    cpu_model: str
    cores_physical: int
    cores_logical: int
    cores_allowed: int  # that the scheduler lets this process run on
    cores_quota: float | None  # what the container may use of them, in cores; None without a limit
    memory_total_bytes: int
    memory_limit_bytes: int | None  # the container's; None without a limit
    memory_available_bytes: int  # that can still be taken, under the limit
    gpus: tuple[Gpu, ...]
    versions: dict[str, str | None]  # None: not installed
    address_limit_bytes: int | None = None  # that one process may map (ulimit -v); None without a limit

    @property
    def cores(self) -> int:
        """Cores to plan with: allowed, and paid for by the quota."""
        if self.cores_quota is None:
            return self.cores_allowed
        return max(1, min(self.cores_allowed, math.floor(self.cores_quota)))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "cores": self.cores}


def find_machine(cgroup_root: Path = CGROUP_ROOT) -> Machine:
    memory = psutil.virtual_memory()
    limit, used = find_cgroup_memory(cgroup_root)
    if limit is not None and limit >= memory.total:  # 'no limit' of cgroup v1 is a huge number
        limit = None
    available = memory.available if limit is None else min(memory.available, max(0, limit - used))
    logical = psutil.cpu_count() or 1
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        cpu_model=find_cpu_model(),
        cores_physical=psutil.cpu_count(logical=False) or logical,
        cores_logical=logical,
        cores_allowed=find_allowed_cores(logical),
        cores_quota=find_cgroup_cores(cgroup_root),
        memory_total_bytes=memory.total,
        memory_limit_bytes=limit,
        memory_available_bytes=available,
        gpus=find_gpus(),
        versions={"spreeze": __version__, **find_versions(VERSIONED)},
        address_limit_bytes=find_address_limit(),
    )


def find_allowed_cores(logical: int) -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical


def find_cgroup_cores(root: Path = CGROUP_ROOT) -> float | None:
    """The container's share of CPU time in cores, of cgroup v2 ('max 100000') or v1 (two files)."""
    words = _words_of(root / "cpu.max")
    if not words:
        words = _words_of(root / "cpu/cpu.cfs_quota_us") + _words_of(root / "cpu/cpu.cfs_period_us")
    if len(words) < 2 or not words[0].isdigit() or int(words[1]) == 0:  # 'max' and '-1' mean no limit
        return None
    return int(words[0]) / int(words[1])


def find_cgroup_memory(root: Path = CGROUP_ROOT, own: Path = OWN_CGROUP) -> tuple[int | None, int]:
    """(limit, used) in bytes; no limit is None. Of this process's group and those above it, the one with the least
    left. What the kernel can drop at once (file caches) is not counted used."""
    found = []
    for tree, names, stat_name, cache_key in (
        ("", ("memory.max", "memory.current"), "memory.stat", "inactive_file"),
        ("memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "memory.stat", "total_inactive_file"),
    ):
        for folder in _cgroup_folders(root / tree, _own_cgroup(own, tree)):
            limit, used = (_words_of(folder / name) for name in names)
            stat = _words_of(folder / stat_name)
            if limit and limit[0].isdigit() and used:
                droppable = int(stat[stat.index(cache_key) + 1]) if cache_key in stat else 0
                found.append((int(limit[0]), max(0, int(used[0]) - droppable)))
    return min(found, key=lambda group: group[0] - group[1], default=(None, 0))


def _own_cgroup(own: Path, tree: str) -> str:
    """The path of this process's group, '4:memory:/a/b' or, of version 2, '0::/a/b'."""
    for line in _words_of(own):
        _, trees, path = [*line.split(":", 2), "", ""][:3]
        if path and tree in trees.split(","):
            return path.lstrip("/")
    return ""


def _cgroup_folders(root: Path, path: str) -> list[Path]:
    """The group's folder and all above it. Inside a container the path may be the host's, which is not there."""
    folder = root / path
    return [folder, *(above for above in folder.parents if root in (above, *above.parents))]


def find_address_limit() -> int | None:
    try:
        import resource
    except ImportError:
        return None  # not a Unix
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def find_disk_free(path: Path) -> int | None:
    """Of the file system that `path`, or what of it exists, lies on."""
    for place in (path.absolute(), *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return None


def _words_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError:
        return []


def find_gpus() -> tuple[Gpu, ...]:
    """NVIDIA GPUs that this process may use, numbered as CUDA numbers them; () without a driver."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()  # no driver
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount())]
        uuids = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        chosen = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), uuids)
        return tuple(_describe(pynvml, handles[place], index, driver) for index, place in enumerate(chosen))
    except pynvml.NVMLError:
        return ()  # a driver that does not answer is one that CUDA cannot use either
    finally:
        pynvml.nvmlShutdown()


def _describe(pynvml: Any, handle: Any, index: int, driver: str) -> Gpu:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        index, str(pynvml.nvmlDeviceGetName(handle)), int(memory.total), int(memory.free), driver, (major, minor)
    )


def visible_gpus(setting: str | None, uuids: list[str]) -> list[int]:
    """Places in `uuids` that CUDA_VISIBLE_DEVICES leaves, in its order. As in CUDA, the first invalid entry ends it."""
    if setting is None:
        return list(range(len(uuids)))
    places: list[int] = []
    for entry in (part.strip() for part in setting.split(",")):
        matches = [place for place, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if entry.isdigit() and int(entry) < len(uuids):
            places.append(int(entry))
        elif len(matches) == 1:
            places.append(matches[0])
        else:
            break
    return places


def find_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def find_versions(distributions: Iterable[str]) -> dict[str, str | None]:
    return {name: find_version(name) for name in distributions}
