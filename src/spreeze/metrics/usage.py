"""What the whole run takes of the machine: CPU, memory, GPU, over the processes that the supervisor names.

Measured on a 2-core machine: 0.04 ms a process and reading. The exact share of shared pages (smaps_rollup) would take
0.7 ms for a sampler and 6 ms for a process with torch, and holds that process's page tables meanwhile.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

VisibleGpus = Callable[[str | None, list[str]], list[int]]
GPU_EVERY_S = 1.0


class Usage:
    """read() once a second; a process that is gone is skipped."""

    def __init__(self, device: str, started_s: float, visible_gpus: VisibleGpus) -> None:
        """`visible_gpus`: places of the GPUs that CUDA_VISIBLE_DEVICES leaves (tuning.hardware.visible_gpus)."""
        self._last_s = started_s
        self._processes: dict[int, Any] = {}
        self._cpu_s: dict[int, float] = {}
        self._gpu = GpuWatch(int(device.removeprefix("cuda:")), visible_gpus) if device.startswith("cuda:") else None

    def read(self, now_s: float, pids: Iterable[int]) -> dict[str, float | int | None]:
        readings = self._read_processes(pids)
        gpu_pct, gpu_bytes = self._gpu.latest(readings) if self._gpu else (None, None)
        return {
            "cpu_pct": self._cpu_pct(now_s, readings),
            "rss_bytes": self._rss_bytes(readings),
            "gpu_pct": gpu_pct,
            "gpu_bytes": gpu_bytes,
        }

    def close(self) -> None:
        if self._gpu:
            self._gpu.close()

    def _read_processes(self, pids: Iterable[int]) -> dict[int, tuple[float, int, int]]:
        """pid -> (CPU seconds so far, resident bytes, of these shared or of files)."""
        import psutil  # 0.05 s, which the start of a run does not have

        readings = {}
        for pid in pids:
            try:
                process = self._processes.get(pid) or psutil.Process(pid)
                times, memory = process.cpu_times(), process.memory_info()
            except (psutil.Error, OSError):  # gone, or a zombie; or no descriptor is left to look
                self._processes.pop(pid, None)
                continue
            self._processes[pid] = process
            readings[pid] = (times.user + times.system, memory.rss, getattr(memory, "shared", 0))
        return readings

    def _cpu_pct(self, now_s: float, readings: dict[int, tuple[float, int, int]]) -> float | None:
        """100 is one core. A process seen for the first time was started in this window: all its time counts."""
        spent_s = sum(max(0.0, reading[0] - self._cpu_s.get(pid, 0.0)) for pid, reading in readings.items())
        span_s = now_s - self._last_s
        self._last_s = now_s
        self._cpu_s = {pid: reading[0] for pid, reading in readings.items()}
        return 100.0 * spent_s / span_s if span_s > 0 else None

    @staticmethod
    def _rss_bytes(readings: dict[int, tuple[float, int, int]]) -> int:
        """Private memory of all, and the shared once, as much as the one that maps most of it: the learner maps every
        ring and library that a sampler maps. Within 0.1 % of the kernel's own proportional sum when tried."""
        private = sum(rss - shared for _, rss, shared in readings.values())
        return private + max((shared for _, _, shared in readings.values()), default=0)


class GpuWatch:
    """Asks the driver from a thread of its own: opening NVML can take seconds, and it hangs when the driver does."""

    def __init__(self, cuda_index: int, visible_gpus: VisibleGpus) -> None:
        self._cuda_index = cuda_index
        self._visible_gpus = visible_gpus
        self._reading: tuple[float, int, dict[int, int]] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-usage", daemon=True)
        self._thread.start()

    def latest(self, pids: Iterable[int]) -> tuple[float | None, int | None]:
        """(busy %, bytes) as read last; None where there is no GPU or no answer yet.

        The bytes of the run's processes, where the driver tells them apart; in containers it often knows them by
        other ids, then it is what all users of that GPU have taken together.
        """
        reading = self._reading
        if reading is None:
            return None, None
        busy_pct, all_bytes, by_pid = reading
        ours = sum(by_pid.get(pid, 0) for pid in pids)
        return busy_pct, ours or all_bytes

    def close(self) -> None:
        self._closing.set()
        self._thread.join(GPU_EVERY_S)

    def _run(self) -> None:
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return  # no driver
        try:
            handle = self._handle(pynvml)
            while handle is not None and not self._closing.wait(GPU_EVERY_S):
                self._reading = _read_gpu(pynvml, handle)
        except pynvml.NVMLError:
            self._reading = None  # fell off the bus, or this driver tells nothing
        finally:
            pynvml.nvmlShutdown()

    def _handle(self, pynvml: Any) -> Any:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
        uuids = [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        places = self._visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), uuids)
        return handles[places[self._cuda_index]] if self._cuda_index < len(places) else None


def _read_gpu(pynvml: Any, handle: Any) -> tuple[float, int, dict[int, int]]:
    """(busy %, bytes taken by all, bytes by process id)."""
    busy_pct = float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    return busy_pct, int(pynvml.nvmlDeviceGetMemoryInfo(handle).used), _bytes_by_pid(pynvml, handle)


def _bytes_by_pid(pynvml: Any, handle: Any) -> dict[int, int]:
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        return {}  # sandboxes and partitioned GPUs keep this to themselves
    return {int(process.pid): int(process.usedGpuMemory or 0) for process in processes}
