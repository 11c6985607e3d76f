"""What this CPU is, in its own words."""

from __future__ import annotations

import platform
from pathlib import Path


def find_cpu_model() -> str:
    return _read_cpuinfo("model name") or platform.processor() or platform.machine()


def is_intel() -> bool:
    return _read_cpuinfo("vendor_id") == "GenuineIntel"


def has_avx512() -> bool:
    """All parts of AVX-512 that OpenBLAS's kernels for it use."""
    return {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(_read_cpuinfo("flags").split())


def _read_cpuinfo(key: str) -> str:
    """What the first core says of itself; '' where nothing is said."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return ""
