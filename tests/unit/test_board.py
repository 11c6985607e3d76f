"""The shared page of counters: every name has a cell of its own, and each section is its role's alone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

from spreeze import board as board_module
from spreeze.board import FIXED_ROLES, RETURNS_KEPT, Board, Life, Section, role_kind


def names_of(section: Section) -> Iterator[tuple[str, str]]:
    kind = role_kind(section.role)
    yield from (("int", name) for name in (*board_module._COMMON, *board_module._INT_CELLS[kind]))
    yield from (("float", name) for name in board_module._FLOAT_CELLS[kind])


def write(section: Section, sort: str, name: str, value: int) -> None:
    (section.set if sort == "int" else section.set_float)(name, value)


def read(section: Section, sort: str, name: str) -> float:
    return section.get(name) if sort == "int" else section.get_float(name)


def test_no_two_names_share_a_cell() -> None:
    board = Board.create(samplers=2)
    written = {}
    for role, section in board.sections.items():
        for sort, name in names_of(section):
            written[role, sort, name] = len(written) + 1
            write(section, sort, name, written[role, sort, name])
        section.returns[:] = -1.5
        section.lengths[:] = -2
    assert set(board.sections) == {*FIXED_ROLES, "sampler-0", "sampler-1"}
    for (role, sort, name), value in written.items():
        assert read(board.section(role), sort, name) == value, (role, name)
    for section in board.sections.values():
        assert (section.returns == -1.5).all()
        assert (section.lengths == -2).all()
        assert len(section.returns) == len(section.lengths) == RETURNS_KEPT


def test_counters_begin_at_zero_and_count() -> None:
    board = Board.create(samplers=1)
    for section in board.sections.values():
        assert all(read(section, sort, name) == 0 for sort, name in names_of(section))
    section = board.section("sampler-0")
    section.add("env_steps", 3)
    section.add("env_steps", 2**62)
    assert section.get("env_steps") == 2**62 + 3


def test_another_process_s_view_sees_the_same_cells() -> None:
    board = Board.create(samplers=3)
    other = Board(board.block, samplers=3)
    board.section("sampler-2").set("env_steps", 5)
    board.section("evaluator").set_float("best_return", -1.25)
    assert other.section("sampler-2").get("env_steps") == 5
    assert other.section("evaluator").get_float("best_return") == -1.25
    assert not other.stopping()
    board.section("supervisor").set("stop", 1)
    assert other.stopping()


def test_env_steps_of_all_samplers_together() -> None:
    board = Board.create(samplers=3)
    assert board.env_steps_taken() == 0
    for number, section in enumerate(board.sampler_sections()):
        section.add("env_steps", 10**number)
        section.add("episodes", 7)
    assert board.env_steps_taken() == 111
    assert isinstance(board.env_steps_taken(), int)
    board.section("learner").set("env_steps_permitted", 2**62)
    assert board.env_steps_permitted() == 2**62


def test_two_roles_share_no_cache_line() -> None:
    board = Board.create(samplers=2)
    firsts = [section._ints.__array_interface__["data"][0] for section in board.sections.values()]
    assert all(first % 64 == 0 for first in firsts)
    assert np.diff(sorted(firsts)).min() >= 4096


@pytest.mark.parametrize(("role", "kind"), [("sampler-12", "sampler"), ("learner", "learner")])
def test_the_kind_of_a_role(role: str, kind: str) -> None:
    assert role_kind(role) == kind


def test_a_new_life_is_seen_with_its_own_heartbeat_only() -> None:
    """A supervisor that looks at any moment must not take the predecessor's heartbeat for the successor's."""
    board = Board.create(samplers=1)
    section = board.section("sampler-0")
    section.set("pid", 1)
    section.set("ready", 1)
    section.set("heartbeat_ns", 1)
    seen = []

    class Watched(Section):
        def set(self, name: str, value: int) -> None:
            super().set(name, value)
            if self.get("pid") == os.getpid():
                seen.append((self.get("ready"), self.get("heartbeat_ns") > 1, self.get("started_ns") > 1))

    board.sections["sampler-0"] = Watched("sampler-0", section._ints)
    life = Life(board, "sampler-0", os.getppid())
    assert seen
    assert set(seen) == {(0, True, True)}
    life.ready()
    assert section.get("ready") == 1


def test_a_role_stops_with_the_flag_or_without_its_parent() -> None:
    board = Board.create(samplers=1)
    life, orphan = Life(board, "sampler-0", os.getppid()), Life(board, "evaluator", os.getppid() + 1)
    assert not life.stopping()
    assert orphan.stopping()
    board.section("supervisor").set("stop", 1)
    assert life.stopping()


def test_a_beat_moves_the_heartbeat_on() -> None:
    board = Board.create(samplers=1)
    life, section = Life(board, "learner", os.getppid()), board.section("learner")
    section.set("heartbeat_ns", 1)
    life.beat()
    assert section.get("heartbeat_ns") > 1
