"""What a machine has: the container's limits in both of their file formats, and which GPUs CUDA would number."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import psutil
import pytest

from spreeze.tuning import hardware


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_cgroup_cores(tmp_path: Path, files: dict[str, str], cores: float | None) -> None:
    assert hardware.find_cgroup_cores(write(tmp_path, files)) == cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "memory.max": "1000\n",
                "memory.current": "600\n",
                "memory.stat": "anon 400\ninactive_file 150\nactive_file 50\n",
            },
            (1000, 450),  # 600 used, of which 150 are caches that the kernel drops at need
        ),
        ({"memory.max": "max\n", "memory.current": "600\n"}, (None, 0)),
        ({"memory/memory.limit_in_bytes": "2000\n", "memory/memory.usage_in_bytes": "500\n"}, (2000, 500)),
        ({}, (None, 0)),
    ],
)
def test_cgroup_memory(tmp_path: Path, files: dict[str, str], expected: tuple[int | None, int]) -> None:
    assert hardware.find_cgroup_memory(write(tmp_path, files)) == expected


def test_the_tightest_of_the_groups_above_this_process_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    root = write(
        tmp_path / "cgroup",
        {
            "slice/memory.max": "5000\n",
            "slice/memory.current": "4500\n",
            "slice/run/memory.max": "2000\n",
            "slice/run/memory.current": "100\n",
            "elsewhere/memory.max": "1\n",
            "elsewhere/memory.current": "1\n",
        },
    )
    own.write_text("0::/slice/run\n")
    assert hardware.find_cgroup_memory(root, own) == (5000, 4500)
    own.write_text("9:name=systemd:/\n0::/of/the/host\n")
    assert hardware.find_cgroup_memory(root, own) == (None, 0)


def test_a_group_of_version_1_counts(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,memory:/run\n0::/\n")
    root = write(
        tmp_path / "cgroup",
        {"memory/run/memory.limit_in_bytes": "2000\n", "memory/run/memory.usage_in_bytes": "500\n"},
    )
    assert hardware.find_cgroup_memory(root, own) == (2000, 500)


def test_a_disk_is_found_also_for_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    free = hardware.find_disk_free(tmp_path / "runs" / "of" / "tomorrow")
    assert free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


def test_a_container_with_less_memory_than_the_machine_counts(tmp_path: Path) -> None:
    limited = hardware.find_machine(write(tmp_path, {"memory.max": "1000000\n", "memory.current": "400000\n"}))
    assert limited.memory_limit_bytes == 1_000_000
    assert limited.memory_available_bytes == 600_000


def test_a_limit_above_the_memory_is_none(tmp_path: Path) -> None:
    files = {"memory.max": f"{2**62}\n", "memory.current": "400000\n"}
    free = hardware.find_machine(write(tmp_path, files))
    assert free.memory_limit_bytes is None
    assert free.memory_available_bytes > 1_000_000


@pytest.mark.parametrize(("allowed", "quota", "cores"), [(8, None, 8), (8, 2.5, 2), (2, 4.0, 2), (8, 0.5, 1)])
def test_cores_to_plan_with(allowed: int, quota: float | None, cores: int) -> None:
    machine = hardware.find_machine()
    planned = hardware.Machine(**{**vars(machine), "cores_allowed": allowed, "cores_quota": quota})
    assert planned.cores == cores


@pytest.mark.parametrize(
    ("setting", "places"),
    [(None, [0, 1, 2]), ("", []), ("2,0", [2, 0]), ("-1", []), ("1,9,0", [1]), ("GPU-b", [1]), ("GPU-", [])],
)
def test_visible_gpus_are_those_of_cuda(setting: str | None, places: list[int]) -> None:
    assert hardware.visible_gpus(setting, ["GPU-aa", "GPU-bb", "GPU-cc"]) == places


def test_this_machine_is_a_json_document_and_plausible() -> None:
    machine = hardware.find_machine()
    data = json.loads(json.dumps(machine.as_json()))
    assert data["cores"] == machine.cores <= (os.cpu_count() or 1)
    assert 0 < machine.memory_available_bytes <= machine.memory_total_bytes == psutil.virtual_memory().total
    assert data["versions"]["numpy"]
    assert machine.cpu_model
