"""Imports go one way: cli -> commands -> runtime -> roles -> learner -> leaves -> bottom; the leaves never import one
another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "spreeze"

BOTTOM = {
    "documents", "draws", "spec", "memory", "errors", "board", "config", "cpu", "gather", "gather_kernel",
    "observation_norm", "requests", "run_folder", "tables", "thresholds",
}  # fmt: skip
LEAVES = {"algos", "replay", "experience", "weights", "envs", "tuning", "metrics"}
# A file that says what a policy is, for those who train one, publish one and act with one: bottom, wherever it lies.
POLICY = "weights.numpy_policy"
FLOOR_OF = {
    **dict.fromkeys((*BOTTOM, POLICY), 0),
    **dict.fromkeys(LEAVES, 1),
    "learner": 2,
    "resolve": 2,
    "watching": 2,
    "web": 3,
    "roles": 3,
    "play": 3,
    "runtime": 4,
    "bench": 5,
    "doctor": 5,
    "export": 5,
    "report": 5,
    "commands": 6,
    "cli": 7,
}
FRONT_DOORS = {"spreeze", "__main__"}  # __init__.py and __main__.py: they may use everything, at the call


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    if relative == Path("__init__.py"):
        return "spreeze"
    return part_named(".".join(relative.parts).removesuffix(".py"))


def part_named(module: str) -> str:
    return POLICY if module.startswith(POLICY) else module.split(".")[0]


def imported_parts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, part) of every import of Spreeze in the file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, module = name.partition(".")
            part = part_named(module)
            if package == "spreeze" and part and part != "__version__":
                yield node.lineno, part


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    part = part_of(path)
    if part in FRONT_DOORS:
        return
    assert part in FLOOR_OF, f"{path}: say in this test on which floor {part!r} lives"
    for line, other in imported_parts(path):
        if other == part:
            continue
        assert other in FLOOR_OF, f"{path}:{line} imports the unknown part {other!r}"
        below = FLOOR_OF[other] < FLOOR_OF[part] or (FLOOR_OF[other] == FLOOR_OF[part] == 0)
        assert below, f"{path}:{line}: {part} may not import {other}"
