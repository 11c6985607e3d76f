"""What the processes of a run take: known loads on the CPU, memory counted once, a driver played by a fake."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from spreeze.metrics.usage import GpuWatch, Usage, _read_gpu

MB = 1 << 20


def all_gpus(setting: str | None, uuids: list[str]) -> list[int]:
    return list(range(len(uuids)))


def test_cpu_of_a_busy_and_an_idle_process() -> None:
    started_s = time.monotonic()
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        usage = Usage("cpu", started_s, all_gpus)
        usage.read(time.monotonic(), [busy.pid, idle.pid])
        time.sleep(0.5)
        reading = usage.read(time.monotonic(), [busy.pid, idle.pid])
    finally:
        for process in (busy, idle):
            process.kill()
            process.wait()
    assert reading["cpu_pct"] is not None
    assert 5 < reading["cpu_pct"] < 125
    assert (reading["gpu_pct"], reading["gpu_bytes"]) == (None, None)


def test_the_dead_are_skipped() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", "pass"])
    usage = Usage("cpu", 0.0, all_gpus)
    usage.read(1.0, [process.pid])
    process.wait()
    assert usage.read(2.0, [process.pid]) == {"cpu_pct": 0.0, "rss_bytes": 0, "gpu_pct": None, "gpu_bytes": None}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what is shared")
def test_shared_memory_counts_once() -> None:
    shared = mmap.mmap(-1, 64 * MB)
    shared.write(b"\x01" * 64 * MB)
    program = (
        "import mmap, sys; m = mmap.mmap(int(sys.argv[1]), 0); sum(m[::4096]); print('ready', flush=True); input()"
    )
    fd = os.memfd_create("usage-test")
    os.write(fd, b"\x01" * 64 * MB)
    readers = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", program, str(fd)],
            pass_fds=[fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        rss_bytes = Usage("cpu", 0.0, all_gpus).read(1.0, [reader.pid for reader in readers])["rss_bytes"]
    finally:
        for reader in readers:
            reader.communicate("\n")
        os.close(fd)
    assert rss_bytes is not None
    assert 64 * MB < rss_bytes < 2 * 64 * MB


class FakeDriver:
    """As much of NVML as is used: 30 GiB taken in all, 8 of them by process 11 and 4 by process 12."""

    NVMLError = RuntimeError

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(gpu=93, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return SimpleNamespace(used=30 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:
        return [SimpleNamespace(pid=11, usedGpuMemory=8 << 30), SimpleNamespace(pid=12, usedGpuMemory=4 << 30)]


def watch_with(driver: FakeDriver) -> GpuWatch:
    watch = GpuWatch(0, lambda setting, uuids: [])  # sees no GPU of this machine
    watch.close()
    watch._reading = _read_gpu(driver, None)
    return watch


def test_gpu_memory_is_that_of_our_processes() -> None:
    assert watch_with(FakeDriver()).latest([11]) == (93.0, 8 << 30)
    assert watch_with(FakeDriver()).latest([11, 12, 13]) == (93.0, 12 << 30)


def test_gpu_memory_is_all_that_is_taken_where_the_driver_does_not_know_our_processes() -> None:
    assert watch_with(FakeDriver()).latest([999]) == (93.0, 30 << 30)

    class Sandboxed(FakeDriver):
        def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:
            raise RuntimeError("not supported")

    assert watch_with(Sandboxed()).latest([11]) == (93.0, 30 << 30)


def test_no_gpu_is_no_error() -> None:
    watch = GpuWatch(7, lambda setting, uuids: [])
    time.sleep(0.05)
    assert watch.latest([1]) == (None, None)
    watch.close()


def test_without_a_descriptor_there_are_no_readings_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(24, "Too many open files")

    usage = Usage("cpu", 0.0, visible_gpus=lambda visible, uuids: [])
    monkeypatch.setattr("psutil.Process", refuse)
    reading = usage.read(1.0, [os.getpid()])
    assert (reading["cpu_pct"], reading["rss_bytes"]) == (0.0, 0)
    monkeypatch.undo()
    assert usage.read(2.0, [os.getpid()])["rss_bytes"] > 0
