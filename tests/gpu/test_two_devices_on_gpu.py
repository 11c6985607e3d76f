"""Updates in two places where a GPU takes part: two streams of one GPU, or a CPU and a GPU; with two GPUs also both.

Run by `make gpu` on a machine with an NVIDIA GPU; everywhere else these tests are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.learner.graphs import EagerUpdates  # noqa: E402
from spreeze.learner.paired_replay import PairedReplay  # noqa: E402
from spreeze.learner.places import make_place  # noqa: E402
from spreeze.learner.split import SplitUpdates  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

OBS, ACT, BATCH, UPDATES = 17, 6, 256, 30
LAYOUT = Layout(OBS, ACT)
CONFIG = RunConfig(hidden=(64, 64), target_entropy=-6.0)
PAIRS = [("cuda:0", "cuda:0"), ("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1")]
EVERY = pytest.mark.parametrize("name", ["sac", "td3", "ddpg"])
MODES = pytest.mark.parametrize("pipelined", [False, True], ids=["exact", "pipelined"])
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids="+".join)


def made_up_rows(count: int, seed: int = 1) -> torch.Tensor:
    rows = torch.randn(count, LAYOUT.row_size, generator=torch.Generator().manual_seed(seed))
    rows[:, LAYOUT.slice_of("action")].tanh_()
    rows[:, LAYOUT.slice_of("discount")] = 0.99
    return rows


def skip_without(pair: tuple[str, str]) -> None:
    if "cuda:1" in pair and torch.cuda.device_count() < 2:
        pytest.skip("needs two NVIDIA GPUs")


def split(name: str, pair: tuple[str, str], pipelined: bool, captured: bool) -> tuple[Any, SplitUpdates]:
    """After UPDATES of them, while rows came in."""
    actor, critics = map(torch.device, pair)
    algorithm = make_algorithm(name, OBS, ACT, CONFIG, actor, critic_device=critics)
    replay = PairedReplay(LAYOUT, 2_000, actor, critics)
    places = make_place("actor", actor), make_place("critics", critics)
    updates = SplitUpdates(algorithm, replay, BATCH, *places, pipelined=pipelined, captured=captured)
    for part in range(3):
        replay.extend(made_up_rows(500, seed=part))
        done = 0
        while done < UPDATES // 3:
            done += updates.run(UPDATES // 3 - done)
    updates.wait()
    updates.close()
    return algorithm, updates


def tensors(algorithm: Any) -> dict[str, torch.Tensor]:
    return {name: value.cpu() for name, value in algorithm.state().items() if name != "generator"}


@EVERY
def test_exact_on_two_streams_is_bit_for_bit_one_stream(name: str) -> None:
    algorithm, _ = split(name, ("cuda:0", "cuda:0"), pipelined=False, captured=False)
    one = make_algorithm(name, OBS, ACT, CONFIG, torch.device("cuda:0"))
    replay = Replay(LAYOUT, 2_000, "cuda:0")
    updates = EagerUpdates(one, replay, BATCH)
    for part in range(3):
        replay.extend(made_up_rows(500, seed=part).to("cuda:0"))
        for _ in range(UPDATES // 3):
            updates.run(1)
    expected = tensors(one)
    assert [key for key, value in tensors(algorithm).items() if not torch.equal(value, expected[key])] == []


@EVERY
@MODES
@EVERY_PAIR
def test_captured_is_bit_for_bit_eager_and_the_same_again(name: str, pipelined: bool, pair: tuple[str, str]) -> None:
    skip_without(pair)
    eager, counted = split(name, pair, pipelined, captured=False)
    for _ in range(2):
        captured, counted_too = split(name, pair, pipelined, captured=True)
        expected = tensors(eager)
        assert [key for key, value in tensors(captured).items() if not torch.equal(value, expected[key])] == []
    full = (3 * ACT + (name == "sac")) * 4 * BATCH
    without_the_actor = ACT * 4 * BATCH
    expected_bytes = UPDATES * full if name != "td3" else UPDATES // 2 * (full + without_the_actor)
    assert counted.bytes_crossed == expected_bytes <= UPDATES * (3 * ACT + 1) * 4 * BATCH
    warmed_up = 3 * (full if name != "td3" else full + without_the_actor)
    assert counted_too.bytes_crossed == expected_bytes + warmed_up


def test_a_cpu_and_a_gpu_learn_the_same_whichever_has_the_actor() -> None:
    """Of DDPG, which draws no noise: the rows drawn are counted, and products differ by rounding alone."""
    first, second = (
        tensors(split("ddpg", pair, pipelined=False, captured=True)[0])
        for pair in (("cpu", "cuda:0"), ("cuda:0", "cpu"))
    )
    start = make_algorithm("ddpg", OBS, ACT, CONFIG).state()
    for name in ("actor", "critic"):
        one, other = first[name] - start[name], second[name] - start[name]
        assert one.norm() > 0.1
        assert (one - other).norm() < 0.1 * one.norm()
