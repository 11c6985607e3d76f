"""What only a GPU can show: captured updates learn what eager ones learn, and rows arrive whole on the device.

Run by `make gpu` on a machine with an NVIDIA GPU; everywhere else these tests are skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

from spreeze.algos import make_algorithm  # noqa: E402
from spreeze.config import RunConfig  # noqa: E402
from spreeze.experience.ring import RingReceiver, RingSender, Stamp, make_ring_block, ring_shape  # noqa: E402
from spreeze.learner.graphs import CapturedUpdates, EagerUpdates, make_updates  # noqa: E402
from spreeze.learner.ingest import Ingest  # noqa: E402
from spreeze.replay import Replay  # noqa: E402
from spreeze.spec import Layout  # noqa: E402

DEVICE = torch.device("cuda:0")
LAYOUT = Layout(17, 6)


def make_config(algo: str, precision: str = "float32") -> RunConfig:
    return RunConfig(algo=algo, device="cuda:0", precision=precision, compile="on", target_entropy=-6.0, batch_size=256)


def filled_replay(rows: int) -> Replay:
    replay = Replay(LAYOUT, 10_000, DEVICE, seed=3)
    drawn = torch.randn(rows, LAYOUT.row_size, generator=torch.Generator().manual_seed(5))
    drawn[:, LAYOUT.slice_of("action")].tanh_()
    drawn[:, LAYOUT.slice_of("discount")] = 0.99
    replay.extend(drawn.to(DEVICE))
    return replay


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_captured_updates_equal_eager_updates(algo: str) -> None:
    weights = []
    for make in (EagerUpdates, CapturedUpdates):
        replay = filled_replay(5_000)
        algorithm = make_algorithm(algo, 17, 6, make_config(algo), DEVICE)
        before = algorithm.policy_flat().clone()
        updates = make(algorithm, replay, 256)
        assert torch.equal(algorithm.policy_flat(), before)  # capture left nothing behind
        done = 0
        while done < 43:  # bundles, and single updates for the rest
            done += updates.run(43 - done)
        torch.cuda.synchronize()
        assert done == 43
        assert not torch.equal(algorithm.policy_flat(), before)
        weights.append(algorithm.policy_flat().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_captured_updates_of_changing_batch_sizes_equal_eager_ones(algo: str) -> None:
    weights = []
    for captured in (False, True):
        replay = filled_replay(5_000)
        algorithm = make_algorithm(algo, 17, 6, make_config(algo), DEVICE)
        updates = make_updates(algorithm, replay, 256, captured)
        for batch_size, count in ((256, 9), (64, 5), (1_024, 7), (64, 8), (256, 4)):
            updates.step_to(batch_size)
            done = 0
            while done < count:
                done += updates.run(count - done)
        torch.cuda.synchronize()
        weights.append(algorithm.policy_flat().clone())
    assert torch.equal(*weights)


def test_a_captured_draw_sees_rows_that_came_after_the_capture() -> None:
    replay = Replay(LAYOUT, 1_000, DEVICE, seed=1)
    replay.extend(torch.full((10, LAYOUT.row_size), 1.0, device=DEVICE))
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(replay.generator)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        replay.sample(4_096)
    torch.cuda.current_stream().wait_stream(stream)
    with torch.cuda.graph(graph):
        batch = replay.sample(4_096)
    graph.replay()
    assert batch.reward.unique().tolist() == [1.0]
    replay.extend(torch.full((10, LAYOUT.row_size), 2.0, device=DEVICE))
    graph.replay()
    assert batch.reward.unique().tolist() == [1.0, 2.0]
    assert 0.45 < (batch.reward == 2.0).float().mean().item() < 0.55


def test_rows_reach_the_device_whole_and_in_order_while_updates_run() -> None:
    shape = ring_shape(LAYOUT.row_size, 32, 4_096)
    block = make_ring_block("test", shape)
    sender = RingSender(block, shape)
    replay = Replay(LAYOUT, 50_000, DEVICE, seed=1)
    ingest = Ingest(RingReceiver([block], shape), replay, 32, before_rows=lambda rows: None)
    busy = torch.randn(4_096, 4_096, device=DEVICE)
    sent = 0
    while sent < 40_000:
        rows = np.repeat(np.arange(sent, sent + 32, dtype=np.float32)[:, None], LAYOUT.row_size, axis=1)
        while not sender.send(rows, Stamp(1, 1, 1), 1):
            busy = torch.tanh(busy @ busy)  # the updates' stream is kept busy
            ingest.poll(0)
        sent += 32
    while ingest.env_steps < sent:
        ingest.poll(0)
    torch.cuda.synchronize()
    stored = replay.rows[:sent]
    assert torch.equal(stored[:, 0], torch.arange(sent, device=DEVICE, dtype=torch.float32))
    assert torch.equal(stored, stored[:, :1].expand_as(stored))
