"""Compiles the kernels of a run side by side, before its first update asks for them one after the other.

Triton compiles a kernel when it is first launched, for the sizes of the run's networks, and holds the interpreter
meanwhile: eleven seconds for an update of SAC. Here the launches of an update are written down without being done, with
tensors on the CPU, and each is compiled by a forked process into Triton's cache on the disk, where the learner then
finds it. Forking is sound only while this process has not touched the GPU; the forked ones never do.

Batch sizes that the run may step to soon are compiled as well, beside the first updates and at a lower priority.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.cache import triton_key
from triton.runtime.jit import JITFunction

from spreeze import __version__, gather, gather_kernel
from spreeze.algos.choice import made_up_batch
from spreeze.algos.kernels import gradients, passes, sizes, updates
from spreeze.config import RunConfig
from spreeze.spec import Layout

NICENESS = 5  # of what is wanted some seconds later: samplers that fill all cores leave a third of them to it
WITHIN_S = 60.0  # then the learner compiles what is missing
_SOURCES = (gather, gather_kernel, gradients, passes, sizes, updates)


class Launch(NamedTuple):
    kernel: JITFunction
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any]

    @property
    def variant(self) -> str:
        """Launches of the same one share their code: the constants, and what Triton looks at in an argument."""
        return repr((self.kernel.fn.__name__, [_seen_by_triton(value) for value in self.arguments], self.constants))


def compile_ahead(
    layout: Layout, config: RunConfig, capability: tuple[int, int], next_batch_sizes: Sequence[int] = ()
) -> str | None:
    """-> what was done, in words; None if all that is needed first was compiled by an earlier run."""
    done = Path(triton.knobs.cache.dir) / f"spreeze-{_digest(layout, config, capability)}"
    if done.exists() and not next_batch_sizes:
        return None
    triton_key()  # hashes all of Triton: once here, not in every process
    now = {launch.variant: launch for launch in launches_of_updates(layout, config)}
    words = None if done.exists() else _compile_now(list(now.values()), capability, done)
    later: dict[str, Launch] = {}
    for batch_size in next_batch_sizes:
        launches = launches_of_updates(layout, config.replace(batch_size=batch_size))
        later |= {launch.variant: launch for launch in launches if launch.variant not in now}
    for launch in later.values():
        _fork(partial(_compile_beside_training, launch, capability))
    return words


def _compile_now(launches: Sequence[Launch], capability: tuple[int, int], done: Path) -> str:
    began = time.monotonic()
    work: list[Callable[[], None]] = [_compile_what_loads_kernels]
    work += [partial(_compile, launch, capability) for launch in launches]
    failed = _side_by_side(work)
    seconds = f"{time.monotonic() - began:.1f} s"
    if failed:
        return f"of {len(work)} Triton modules {failed} were not compiled ahead, after {seconds}; log.txt has why"
    done.touch()
    return f"{len(work)} Triton modules were compiled in {seconds}; the next run of these sizes finds them"


def launches_of_updates(layout: Layout, config: RunConfig) -> list[Launch]:
    """One of each variant."""
    cpu, rows = torch.device("cpu"), int(config.batch_size)
    algorithm = updates.KERNEL_ALGORITHMS[config.algo](
        layout.obs_size, layout.action_size, config, cpu, config.seed, precision=config.precision
    )
    batch = made_up_batch(layout, rows, cpu, config.seed)
    replay = torch.zeros(2, layout.row_size)
    with _written_down() as launches:
        for turn in range(algorithm.period):
            algorithm.update(batch, turn)
        gather.gather_by_triton(
            replay, torch.zeros(rows, dtype=torch.int64), torch.tensor(2), torch.zeros(rows, layout.row_size)
        )
    return list({launch.variant: launch for launch in launches}.values())


@contextmanager
def _written_down() -> Iterator[list[Launch]]:
    launches: list[Launch] = []
    run = JITFunction.run

    def note(kernel: JITFunction, *arguments: Any, grid: Any, warmup: bool, **constants: Any) -> None:
        launches.append(Launch(kernel, arguments, constants))

    JITFunction.run = note
    try:
        yield launches
    finally:
        JITFunction.run = run


def _seen_by_triton(value: Any) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    return (type(value), value == 1, value % 16 == 0) if isinstance(value, int) else (type(value),)


class _GpuElsewhere:
    """Triton's driver of a GPU that this process must not touch: enough of it to compile for."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._target = GPUTarget("cuda", 10 * capability[0] + capability[1], 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def _compile(launch: Launch, capability: tuple[int, int]) -> None:
    from triton.backends.nvidia.driver import CudaLauncher

    triton.runtime.driver.set_active(_GpuElsewhere(capability))
    compiled = launch.kernel.run(*launch.arguments, grid=(1,), warmup=True, **launch.constants)
    CudaLauncher(compiled.src, compiled.metadata)  # C code of its own, for the types of the arguments


def _compile_what_loads_kernels() -> None:
    from triton.backends.nvidia.driver import CudaUtils

    CudaUtils()


def _compile_beside_training(launch: Launch, capability: tuple[int, int]) -> None:
    os.nice(NICENESS)
    _compile(launch, capability)


def _fork(work: Callable[[], None]) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=_until_the_parent_ends, args=(work,), daemon=True)
    process.start()
    return process


def _side_by_side(work: list[Callable[[], None]]) -> int:
    """-> how many failed. Each is done by a forked process, which prints what went wrong."""
    processes = [_fork(each) for each in work]
    until = time.monotonic() + WITHIN_S
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    return sum(process.exitcode != 0 for process in processes)


def _until_the_parent_ends(work: Callable[[], None]) -> None:
    import ctypes

    set_pdeathsig = 1
    ctypes.CDLL(None).prctl(set_pdeathsig, signal.SIGKILL)
    work()


def _digest(layout: Layout, config: RunConfig, capability: tuple[int, int]) -> str:
    key = {
        "spreeze": __version__,
        "triton": triton.__version__,
        "capability": capability,
        "layout": [layout.obs_size, layout.action_size],
        "settings": [config.algo, config.hidden, int(config.batch_size), config.critic_norm],
        "sources": [hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest() for module in _SOURCES],
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
