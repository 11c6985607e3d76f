"""What this machine has, what Spreeze will use of it, and what is missing with the command that installs it."""

from __future__ import annotations

import ctypes.util
import importlib.util
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spreeze import __version__, resolve
from spreeze.config import RunConfig
from spreeze.errors import ConfigError
from spreeze.spec import EnvSpec
from spreeze.tables import table
from spreeze.tuning.hardware import Machine, find_machine, find_version
from spreeze.tuning.plan import amount
from spreeze.watching.drawing import has_screen, try_mujoco


@dataclass(frozen=True)
class Part:
    """Something that may or may not be installed."""

    module: str  # what Python imports
    distribution: str  # what pip calls it
    gives: str
    install: str


PARTS = (
    Part("mujoco", "mujoco", "MuJoCo tasks: HalfCheetah-v5, Ant-v5, ...", "pip install 'spreeze[mujoco]'"),
    Part("pybullet", "pybullet", "PyBullet tasks: HalfCheetahBulletEnv-v0, ...", "pip install 'spreeze[bullet]'"),
    Part("Box2D", "box2d", "BipedalWalker-v3, LunarLanderContinuous-v3", "pip install 'spreeze[box2d]'"),
    Part("envpool", "envpool", "a native engine for many of these tasks", "pip install 'spreeze[envpool]'"),
    Part("imageio_ffmpeg", "imageio-ffmpeg", "spreeze record, --visualize video", "pip install 'spreeze[video]'"),
    Part("pygame", "pygame", "drawing Pendulum and Box2D, windows", "pip install 'spreeze[video]'"),
    Part("PIL", "pillow", "the live picture: --visualize web, spreeze watch", "pip install 'spreeze[web]'"),
    Part("starlette", "starlette", "spreeze dashboard", "pip install 'spreeze[web]'"),
    Part("matplotlib", "matplotlib", "the plots of spreeze report", "pip install 'spreeze[report]'"),
    Part("onnx", "onnx", "spreeze export", "pip install 'spreeze[export]'"),
    Part("torch", "torch", "learning", "pip install torch"),
)
# library -> (what it gives, Debian's packages); looked for on Linux alone
LIBRARIES = {
    "EGL": ("drawing MuJoCo without a screen (MUJOCO_GL=egl), envpool", "libegl1 libgl1-mesa-dri"),
    "OpenGL": ("envpool", "libopengl0"),
    "OSMesa": ("drawing MuJoCo without a screen and without EGL (MUJOCO_GL=osmesa)", "libosmesa6"),
}
EXAMPLE = EnvSpec("an environment of HalfCheetah's size", 17, 6, (-1.0,) * 6, (1.0,) * 6)
HEADLESS = ("EGL", "OSMesa")  # one of them is enough
# a library without a driver draws nothing: said by a trial
DRIVER = ("OpenGL driver", "drawing MuJoCo", "apt-get install -y libegl1 libgl1-mesa-dri")


def doctor() -> dict[str, Any]:
    """One JSON document; imports no simulator and no torch (MuJoCo is tried in a process of its own)."""
    machine = find_machine()
    parts = [_describe_part(part) for part in PARTS]
    libraries = [_describe_library(name) for name in LIBRARIES] if sys.platform == "linux" else []
    headless = [library["name"] for library in libraries if library["found"] and library["name"] in HEADLESS]
    needed = parts + [library for library in libraries if not (headless and library["name"] in HEADLESS)]
    mujoco = _try_mujoco(parts)
    return {
        "spreeze": __version__,
        "machine": machine.as_json(),
        "disk": _describe_disk(),
        "will_use": _choices(machine),
        "plan": _plan(machine),
        "parts": parts,
        "libraries": libraries,
        "headless_rendering": [name.lower() for name in headless],
        "screen": has_screen(),
        "mujoco_drawing": mujoco,
        "missing": [_named(part) for part in needed if not part["found"]] + _missing_driver(mujoco, headless),
    }


def _try_mujoco(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """None where there is no MuJoCo."""
    if not any(part["name"] == "mujoco" and part["found"] for part in parts):
        return None
    works, by = try_mujoco()
    return {"works": works, "by": by}


def _missing_driver(mujoco: dict[str, Any] | None, headless: list[str]) -> list[dict[str, Any]]:
    """Where the library is there, and still nothing can be drawn."""
    if mujoco is None or mujoco["works"] or not headless or sys.platform != "linux":
        return []
    return [dict(zip(("name", "gives", "install"), DRIVER, strict=True))]


def _named(part: dict[str, Any]) -> dict[str, Any]:
    return {key: part[key] for key in ("name", "gives", "install")}


def _describe_part(part: Part) -> dict[str, Any]:
    found = importlib.util.find_spec(part.module) is not None
    return {
        "name": part.distribution,
        "found": found,
        "version": find_version(part.distribution) if found else None,
        "gives": part.gives,
        "install": part.install,
    }


def _describe_library(name: str) -> dict[str, Any]:
    gives, packages = LIBRARIES[name]
    found = ctypes.util.find_library(name)
    return {
        "name": name,
        "found": found is not None,
        "version": found,
        "gives": gives,
        "install": f"apt-get install -y {packages}",
    }


def _describe_disk() -> dict[str, Any]:
    usage = shutil.disk_usage(Path.cwd())
    return {"path": str(Path.cwd()), "total_bytes": usage.total, "free_bytes": usage.free}


def _choices(machine: Machine) -> dict[str, Any]:
    """What 'auto' becomes here for a light environment."""
    device = resolve.choose_device(machine)
    on_gpu = device.value != "cpu"
    threads = resolve.choose_learner_threads(on_gpu, machine.cores)
    choices = {
        "device": device,
        "learner_threads": threads,
        "samplers": resolve.choose_samplers(machine.cores, threads.value),
    }
    return {name: choice.as_json() for name, choice in choices.items()}


def _plan(machine: Machine) -> dict[str, Any]:
    """What a run would need of the memory, what there is, and what would be adapted while it goes on."""
    try:
        resolved = resolve.resolve(RunConfig(), EXAMPLE, machine, resolve.Choice("gymnasium", "the plain one"))
    except ConfigError as error:
        return {"places": [], "line": str(error), "warnings": [], "adapts": {}}
    assert resolved.plan is not None, "resolve() always plans"
    assert resolved.space is not None, "and says what may be adapted"
    return {**resolved.plan.as_json(), "adapts": resolved.space.as_json()}


def render(found: dict[str, Any]) -> str:
    sections = (
        ("machine", table(["", ""], _machine_lines(found["machine"], found["disk"]))),
        (
            "will be used",
            table(["", "", ""], [[name, c["value"], c["reason"]] for name, c in found["will_use"].items()]),
        ),
        ("memory for a run of HalfCheetah's size", _plan_lines(found["plan"])),
        ("adapted while it runs", _adapts_lines(found["plan"]["adapts"])),
        (
            "parts",
            table(
                ["name", "version", "gives"],
                [[part["name"], _version(part), part["gives"]] for part in found["parts"] + found["libraries"]],
            ),
        ),
        ("drawing", table(["", ""], _drawing_lines(found))),
        ("missing", _missing_lines(found["missing"])),
    )
    return f"spreeze {found['spreeze']}\n\n" + "\n\n".join(f"{title}\n{_indented(body)}" for title, body in sections)


def _version(part: dict[str, Any]) -> str:
    return (part["version"] or "found") if part["found"] else "missing"


def _indented(body: str) -> str:
    return "\n".join(f"  {line}" for line in body.splitlines() if line.strip())


def _machine_lines(machine: dict[str, Any], disk: dict[str, Any]) -> list[list[str]]:
    quota, limit = machine["cores_quota"], machine["memory_limit_bytes"]
    cores = f"{machine['cores']} usable: {machine['cores_physical']} physical, {machine['cores_logical']} logical, "
    cores += f"{machine['cores_allowed']} allowed" + ("" if quota is None else f", container's quota {quota:g}")
    memory = f"{_gib(machine['memory_total_bytes'])}, {_gib(machine['memory_available_bytes'])} free"
    gpus = [f"cuda:{gpu['index']} {gpu['name']}, {_gib(gpu['memory_bytes'])}" for gpu in machine["gpus"]]
    return [
        ["system", f"{machine['system']}, Python {machine['python']}"],
        ["CPU", machine["cpu_model"]],
        ["cores", cores],
        ["memory", memory + ("" if limit is None else f", container's limit {_gib(limit)}")],
        ["GPU", "; ".join(gpus) or "no NVIDIA GPU"],
        ["disk", f"{_gib(disk['free_bytes'])} free at {disk['path']}"],
    ]


def _plan_lines(plan: dict[str, Any]) -> str:
    rows = []
    for place in plan["places"]:
        rows.append([place["name"], amount(place["free_bytes"]), f"free {place['free_of']}"])
        rows += [[f"  {need['what']}", amount(need["bytes"]), need["of"]] for need in place["needs"]]
    return "\n".join([plan["line"], *plan["warnings"], *([table(["", "", ""], rows)] if rows else [])])


def _adapts_lines(adapts: dict[str, Any]) -> str:
    """A range, a ladder, or why there is none."""
    shown = {name: ", ".join(map(str, what)) if isinstance(what, list) else what for name, what in adapts.items()}
    return table(["", ""], [[name, what] for name, what in shown.items()]) if shown else "nothing"


def _drawing_lines(found: dict[str, Any]) -> list[list[str]]:
    mujoco = found["mujoco_drawing"]
    works = "not installed" if mujoco is None else ("" if mujoco["works"] else "does not work: ") + mujoco["by"]
    return [
        [
            "screen",
            "yes: 'spreeze watch' opens a window"
            if found["screen"]
            else "none: 'spreeze watch' draws for 'spreeze dashboard'",
        ],
        ["MuJoCo", works],
        ["PyBullet", "by itself, on the CPU"],
        ["Pendulum, Box2D", "by pygame"],
    ]


def _missing_lines(missing: list[dict[str, Any]]) -> str:
    if not missing:
        return "nothing"
    return table(["name", "for", "installed by"], [[part["name"], part["gives"], part["install"]] for part in missing])


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
