"""Updates in two CPU places: equal to one place, counted in bytes, saved and loaded across."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spreeze.algos import ALGORITHMS, make_algorithm
from spreeze.config import RunConfig
from spreeze.learner.graphs import CapturedLadder, EagerUpdates
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import CpuPlace
from spreeze.learner.split import SplitUpdates
from spreeze.replay import Replay
from spreeze.spec import Layout

OBS, ACT, BATCH = 5, 3, 32
LAYOUT = Layout(OBS, ACT)
CONFIG = RunConfig(hidden=(16, 16), target_entropy=-3.0)
EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))
MODES = pytest.mark.parametrize("pipelined", [False, True], ids=["exact", "pipelined"])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made_up_rows(count: int, seed: int = 1) -> torch.Tensor:
    rows = torch.randn(count, LAYOUT.row_size, generator=torch.Generator().manual_seed(seed))
    rows[:, LAYOUT.slice_of("action")].tanh_()
    rows[:, LAYOUT.slice_of("discount")] = 0.99
    return rows


class Two:
    """Algorithm, replay and updates in two places."""

    def __init__(self, name: str, pipelined: bool = False, batch_size: int = BATCH, seed: int = 0) -> None:
        self.algorithm: Any = make_algorithm(name, OBS, ACT, CONFIG, seed=seed, critic_device="cpu")
        self.replay = PairedReplay(LAYOUT, 500, "cpu", "cpu", seed)
        self.updates = SplitUpdates(
            self.algorithm, self.replay, batch_size, CpuPlace("actor"), CpuPlace("critics"), pipelined
        )

    def run(self, count: int) -> None:
        done = 0
        while done < count:
            done += self.updates.run(count - done)
        assert done == count


class One:
    def __init__(self, name: str, seed: int = 0) -> None:
        self.algorithm: Any = make_algorithm(name, OBS, ACT, CONFIG, seed=seed)
        self.replay = Replay(LAYOUT, 500, "cpu", seed)
        self.updates = EagerUpdates(self.algorithm, self.replay, BATCH)

    def run(self, count: int) -> None:
        for _ in range(count):
            self.updates.run(1)


def tensors(algorithm: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in algorithm.state().items()}


def assert_bit_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@EVERY
def test_exact_is_bit_for_bit_one_place_after_1000_updates_while_rows_come_in(name: str) -> None:
    one, two = One(name), Two(name)
    for index in range(20):
        for side in (one, two):
            side.replay.extend(made_up_rows(37, seed=index))  # past the capacity, too
            side.run(50)
    assert_bit_equal(tensors(one.algorithm), tensors(two.algorithm))
    for metric, value in one.algorithm.metrics.items():
        both = two.algorithm.metrics[metric] + two.algorithm.critic_metrics[metric]
        assert both.item() == pytest.approx(value.item(), rel=1e-5)


@EVERY
@MODES
def test_the_same_seed_gives_the_same_bits_however_the_places_take_turns(name: str, pipelined: bool) -> None:
    ends = []
    for chunk in (1, 7, 60):  # a run of one update leaves nothing to overlap
        two = Two(name, pipelined)
        two.replay.extend(made_up_rows(300))
        for _ in range(0, 420, chunk):
            two.run(chunk)
        ends.append(tensors(two.algorithm))
    assert_bit_equal(ends[0], ends[1])
    assert_bit_equal(ends[0], ends[2])


@EVERY
def test_exact_stays_bit_for_bit_one_place_while_the_batch_size_changes(name: str) -> None:
    one, two = One(name), Two(name)

    def at_size(batch_size: int) -> SplitUpdates:
        return SplitUpdates(two.algorithm, two.replay, batch_size, two.updates.actor, two.updates.critics, False)

    ladder = CapturedLadder(at_size, BATCH)
    for side in (one, two):
        side.replay.extend(made_up_rows(300))
    for batch_size in (BATCH, 48, 16, BATCH, 48):
        for updates in (one.updates, ladder):
            updates.step_to(batch_size)
            done = 0
            while done < 7:  # odd: TD3's actor goes on learning in every second update
                done += updates.run(7 - done)
    assert_bit_equal(tensors(one.algorithm), tensors(two.algorithm))


@EVERY
@MODES
def test_what_crosses(name: str, pipelined: bool) -> None:
    """At most (2 A + 1 + A) x 4 x batch bytes an update, and nothing per row of replay."""
    two = Two(name, pipelined)
    two.replay.extend(made_up_rows(300))
    two.run(12)
    full = {"sac": 3 * ACT + 1, "td3": 3 * ACT, "ddpg": 3 * ACT}[name] * 4 * BATCH
    without_the_actor = ACT * 4 * BATCH
    expected = 6 * (full + without_the_actor) if name == "td3" else 12 * full
    assert two.updates.bytes_crossed == expected <= 12 * (2 * ACT + 1 + ACT) * 4 * BATCH


class Touched(TorchDispatchMode):
    """Where the tensors lie that operations of this thread are given."""

    def __init__(self, places: set[int]) -> None:
        super().__init__()
        self._places = places

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(value, torch.Tensor):
                self._places.add(value.untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


class WatchedPlace(CpuPlace):
    def __init__(self, name: str) -> None:
        self.touched: set[int] = set()
        super().__init__(name)

    def submit(self, work: Any, after: Any = ()) -> Any:
        def watched() -> None:
            with Touched(self.touched):
                work()

        return super().submit(watched, after)


@EVERY
def test_a_half_reads_nothing_of_the_other_but_what_crossed(name: str) -> None:
    algorithm: Any = make_algorithm(name, OBS, ACT, CONFIG, critic_device="cpu")
    replay = PairedReplay(LAYOUT, 500, "cpu", "cpu")
    replay.extend(made_up_rows(300))
    actor, critics = WatchedPlace("actor"), WatchedPlace("critics")
    updates = SplitUpdates(algorithm, replay, BATCH, actor, critics, pipelined=False)
    for _ in range(4):
        updates.run(1)
    lasting = {
        **{key: value for key, value in algorithm.state().items() if key != "generator"},
        **{f"{key}.grad": net.parameters.grad for key, net in vars(algorithm).items() if hasattr(net, "parameters")},
        "actor_metrics": algorithm.metrics.values_vector, "critic_metrics": algorithm.critic_metrics.values_vector,
        "actor_rows": replay.actor.rows, "critic_rows": replay.critics.rows,
        **{f"{name} {way}": getattr(crossing, way) for name, crossing in vars(updates).items()
           if name in ("proposals", "advice") for way in ("_outbox", "_landing", "_inbox")},
    }  # fmt: skip
    place_of = {key: value.untyped_storage().data_ptr() for key, value in lasting.items()}
    by_actor = {key for key, place in place_of.items() if place in actor.touched}
    by_critics = {key for key, place in place_of.items() if place in critics.touched}
    assert by_actor & by_critics == {"proposals _landing", "advice _landing"}
    assert {key for key in by_actor if "critic" in key} == set()
    assert {key for key in by_critics if "critic" not in key} == {
        "proposals _landing", "proposals _inbox", "advice _outbox", "advice _landing",
    }  # fmt: skip
    assert {"actor", "actor_rows", "actor.grad"} <= by_actor
    assert {"critic_rows", "critic_metrics"} < by_critics


@EVERY
@MODES
def test_a_state_goes_on_in_one_place_and_back(name: str, pipelined: bool) -> None:
    """Saved in two places, gone on in one, saved there, gone on in two: the same bits as one place all the way."""
    one, two, other = One(name), Two(name), One(name, seed=9)
    for side in (one, two):
        side.replay.extend(made_up_rows(300))
        side.run(10)
    other.algorithm.load(tensors(two.algorithm))
    copy_replay(two.replay, other.replay)
    back = Two(name, pipelined, seed=5)
    for side in (one, other):
        side.run(10)
    back.algorithm.load(tensors(other.algorithm))
    copy_replay(other.replay, back.replay)
    assert_bit_equal(tensors(one.algorithm), tensors(back.algorithm))
    for side in (one, back):
        side.run(10)
    if pipelined:
        assert not torch.equal(one.algorithm.policy_flat(), back.algorithm.policy_flat())
    else:
        assert_bit_equal(tensors(one.algorithm), tensors(back.algorithm))
    assert torch.equal(one.replay.view(0, 300), back.replay.view(0, 300))


def copy_replay(source: Replay | PairedReplay, target: Replay | PairedReplay) -> None:
    target.begin_again([source.view(0, source.size)], source.size, source.total)
    target.load_draws(source.draws())


def test_both_sides_draw_the_same_rows() -> None:
    for devices_differ in (False, True):
        replay = PairedReplay(LAYOUT, 50, "cpu", "cpu", seed=3)
        if devices_differ:  # as a CPU and a GPU would
            for side, part in (("critics", replay.layout), ("actor", replay.observations)):
                setattr(replay, side, Replay(part, 50, "cpu", seed=3, counted=True))
        for seed in range(8):
            replay.extend(made_up_rows(13, seed))
            for _ in range(3):
                rows, seen = replay.critics.sample(64), replay.actor.sample(64)
                assert torch.equal(rows.obs, seen.obs)
                assert torch.equal(rows.next_obs, seen.next_obs)


def test_a_counted_draw_from_nothing_gives_zeros_on_a_cpu_too() -> None:
    """A CPU's half runs beside the capture of a GPU's half, before the first row came."""
    batch = Replay(LAYOUT, 50, "cpu", counted=True).sample(16)
    assert torch.equal(batch.obs, torch.zeros(16, OBS))


def test_a_failing_half_is_told_and_does_not_hang_the_other() -> None:
    two = Two("sac")
    two.replay.extend(made_up_rows(300))

    def fail(*_: Any) -> None:
        raise FloatingPointError("in the critics' half")

    two.algorithm.advise = fail
    with pytest.raises(FloatingPointError, match="critics' half"):
        two.run(20)
