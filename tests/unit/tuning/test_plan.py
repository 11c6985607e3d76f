"""The reckoning of a run's memory: what fits is left alone, what does not gives way in order, and nothing is promised
twice."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spreeze.errors import ConfigError
from spreeze.tuning import plan as planning
from spreeze.tuning.plan import MIB, Demand, Plan, Room, make_plan

GIB = 2**30
DEMAND = Demand(
    device="cpu",
    samplers=4,
    envs_per_sampler=16,
    sampler_bytes=64 * MIB,
    eval_envs=10,
    env_bytes=0,
    hidden_units=512,
    network_bytes=5 * MIB,
    ladder=(64,),
    first_batch_size=64,
    row_bytes=168,
    replay_rows=1_000_000,
    least_replay_rows=10_000,
    ring_bytes=3 * MIB,
)
ON_GPU = dataclasses.replace(DEMAND, device="cuda:0", ladder=(4096, 8192, 16384), first_batch_size=8192)
PLENTY = Room(memory=64 * GIB, memory_of="of this machine", gpu=80 * GIB)


def place(plan: Plan, name: str) -> planning.Place:
    return next(place for place in plan.places if place.name == name)


def needs(plan: Plan, name: str) -> dict[str, int]:
    return {need.what: need.bytes for need in place(plan, name).needs}


def test_where_everything_fits_nothing_changes() -> None:
    plan = make_plan(DEMAND, PLENTY)
    assert (plan.demand, plan.changes) == (DEMAND, ())
    assert needs(plan, "memory")["replay"] == 168_000_000
    assert needs(plan, "memory")["samplers"] == 4 * 64 * MIB
    assert needs(plan, "memory")["rings"] == 4 * 3 * MIB


def test_on_a_gpu_the_learner_s_part_lies_there() -> None:
    plan = make_plan(ON_GPU, PLENTY)
    assert {"replay", "networks", "updates"} <= needs(plan, "cuda:0").keys()
    assert not {"replay", "networks", "updates"} & needs(plan, "memory").keys()
    # captured updates of each batch size keep their own memory
    assert needs(plan, "cuda:0")["updates"] == (4096 + 8192 + 16384) * 512 * planning.WORKSPACE_NUMBERS_A_UNIT * 4


def test_a_container_of_4_gib_fits_a_run_of_humanoid_s_size() -> None:
    plan = make_plan(dataclasses.replace(DEMAND, row_bytes=2860), Room(4 * GIB, "under the container's limit"))
    assert plan.demand.replay_rows == 2 * GIB // 2860
    assert [change.name for change in plan.changes] == ["replay_rows"]
    assert "under the container's limit" in plan.changes[0].reason
    assert place(plan, "memory").needed_bytes < 3.6 * GIB


def test_batch_sizes_give_way_before_samplers_and_replay_and_the_first_one_stays() -> None:
    workspace = planning.WORKSPACE_NUMBERS_A_UNIT * 4 * 512
    fixed = planning.CUDA_PROCESS_BYTES + DEMAND.network_bytes + DEMAND.replay_bytes
    room = Room(64 * GIB, "of this machine", gpu=int((fixed + (8192 + 4096) * workspace) / 0.9) + MIB)
    plan = make_plan(ON_GPU, room)
    assert plan.demand.ladder == (4096, 8192)
    assert plan.demand.replay_rows == DEMAND.replay_rows
    tight = Room(64 * GIB, "of this machine", gpu=int((fixed + 8192 * workspace) / 0.9) + MIB)
    assert make_plan(ON_GPU, tight).demand.ladder == (8192,)


def test_samplers_give_way_only_where_the_user_did_not_name_their_number() -> None:
    many = dataclasses.replace(DEMAND, samplers=40)
    room = Room(2 * GIB, "of this machine")
    plan = make_plan(many, room, samplers_fixed=False)
    assert 1 < plan.demand.samplers < 40
    assert plan.demand.replay_rows == DEMAND.replay_rows
    with pytest.raises(ConfigError, match="too little memory"):
        make_plan(many, room, samplers_fixed=True)


def test_a_refusal_names_the_bytes_and_the_largest_part_first() -> None:
    with pytest.raises(ConfigError) as refused:
        make_plan(DEMAND, Room(300_000_000, "under the container's limit"))
    words = str(refused.value)
    assert "270,000,000 of 300,000,000 free ones under the container's limit" in words
    assert words.index("samplers 268,435,456") < words.index("learner 201,326,592")
    assert "--samplers" in words


def test_an_address_limit_counts_for_the_learner_and_for_each_sampler() -> None:
    plan = make_plan(DEMAND, Room(64 * GIB, "of this machine", addresses=4 * GIB))
    assert needs(plan, "address space of the learner")["replay"] == DEMAND.replay_bytes
    shrunk = make_plan(
        dataclasses.replace(DEMAND, replay_rows=20_000_000), Room(64 * GIB, "of this machine", addresses=4 * GIB)
    )
    assert shrunk.demand.replay_rows == 2 * GIB // 168
    with pytest.raises(ConfigError, match="too little address space of the learner"):
        make_plan(DEMAND, Room(64 * GIB, "of this machine", addresses=GIB // 2))


def test_a_full_disk_is_a_warning() -> None:
    plan = make_plan(DEMAND, dataclasses.replace(PLENTY, disk=MIB))
    assert plan.changes == ()
    # three checkpoints of 5 MiB of networks and 168,000,000 bytes of replay
    assert "519,728,640 bytes, 1,048,576 are free" in plan.warnings()[0]
    assert make_plan(DEMAND, dataclasses.replace(PLENTY, disk=GIB)).warnings() == []


def test_a_plan_is_a_json_document_and_a_line() -> None:
    plan = make_plan(DEMAND, PLENTY)
    data = json.loads(json.dumps(plan.as_json()))
    assert data["places"][0]["needed_bytes"] == sum(need["bytes"] for need in data["places"][0]["needs"])
    assert data["line"].startswith("plan: at most 4 samplers x 16 environments, batch 64 on cpu; memory ")


@given(
    memory=st.integers(0, 2**36),
    gpu=st.integers(0, 2**36),
    addresses=st.none() | st.integers(0, 2**34),
    samplers=st.integers(1, 200),
    rows=st.integers(10_000, 10**8),
    on_gpu=st.booleans(),
    fixed=st.booleans(),
)
def test_what_is_planned_always_fits_or_is_refused(
    memory: int, gpu: int, addresses: int | None, samplers: int, rows: int, on_gpu: bool, fixed: bool
) -> None:
    demand = dataclasses.replace(ON_GPU if on_gpu else DEMAND, samplers=samplers, replay_rows=rows)
    try:
        plan = make_plan(demand, Room(memory, "free", gpu if on_gpu else None, addresses), fixed)
    except ConfigError:
        return
    assert all(place.needed_bytes <= place.free_bytes * 0.9 for place in plan.places)
    assert demand.least_replay_rows <= plan.demand.replay_rows <= rows
    assert plan.demand.first_batch_size in plan.demand.ladder
    assert plan.demand.samplers == samplers or not fixed
    changed = {change.name for change in plan.changes}
    assert changed == {
        n for n in ("ladder", "samplers", "replay_rows") if getattr(plan.demand, n) != getattr(demand, n)
    }


def test_who_draws_needs_memory_as_well() -> None:
    plan = make_plan(dataclasses.replace(DEMAND, visualizer=True), PLENTY)
    assert needs(plan, "memory") == needs(make_plan(DEMAND, PLENTY), "memory") | {"visualizer": 256 * MIB}
