"""Normalized observations: statistics by hand, what is drawn, what is published, and what goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spreeze.algos import ALGORITHMS, make_algorithm
from spreeze.config import RunConfig
from spreeze.learner.graphs import EagerUpdates
from spreeze.learner.paired_replay import PairedReplay
from spreeze.learner.places import CpuPlace
from spreeze.learner.split import SplitUpdates
from spreeze.observation_norm import LEAST_STD, ObservationNorm, fold
from spreeze.replay import Replay
from spreeze.spec import Layout
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec

LAYOUT = Layout(3, 2)
CONFIG = RunConfig(hidden=(16, 16), target_entropy=-2.0)


def made_up_rows(count: int, seed: int = 1) -> torch.Tensor:
    rows = torch.randn(count, LAYOUT.row_size, generator=torch.Generator().manual_seed(seed))
    for name in ("obs", "next_obs"):
        rows[:, LAYOUT.slice_of(name)] *= torch.tensor([100.0, 0.5, 1.0])
        rows[:, LAYOUT.slice_of(name)] += torch.tensor([1000.0, -2.0, 0.0])
    rows[:, LAYOUT.slice_of("action")].tanh_()
    rows[:, LAYOUT.slice_of("discount")] = 0.99
    return rows


def observations(*values: float) -> torch.Tensor:
    """Rows of a single number each; what else stands in a row does not count."""
    return torch.tensor([[value, 7.0, 8.0, 9.0, 0.5] for value in values])


def test_statistics_by_hand() -> None:
    norm = ObservationNorm(Layout(1, 1))
    assert (norm.shift.item(), norm.scale.item()) == (0.0, 1.0)  # before the first row nothing is changed
    norm.update(observations(1.0, 3.0))
    assert (norm.shift.item(), norm.scale.item()) == (2.0, 1.0)
    norm.update(observations(8.0))  # 1, 3, 8: mean 4, squared deviations 9 + 1 + 16
    assert norm.shift.item() == 4.0
    assert norm.scale.item() == pytest.approx((26 / 3) ** -0.5)
    norm.update(observations())
    assert norm.shift.item() == 4.0


def test_statistics_are_those_of_all_rows_however_they_came() -> None:
    rows = made_up_rows(1000)
    norm = ObservationNorm(LAYOUT)
    for part in rows.split([1, 9, 500, 90, 400]):
        norm.update(part)
    obs = rows[:, LAYOUT.slice_of("obs")].double()
    torch.testing.assert_close(norm.shift, obs.mean(0).float())
    torch.testing.assert_close(norm.scale, 1 / obs.std(0, unbiased=False).float())


def test_a_number_that_never_changed_is_not_blown_up() -> None:
    norm = ObservationNorm(Layout(1, 1))
    norm.update(observations(5.0, 5.0, 5.0))
    assert (norm.shift.item(), norm.scale.item()) == (5.0, pytest.approx(1 / LEAST_STD))


def test_what_is_drawn_is_normalized_and_what_is_kept_is_not() -> None:
    rows = made_up_rows(200)
    plain, replay = Replay(LAYOUT, 200, seed=3), Replay(LAYOUT, 200, seed=3, normalize=True, reward_scale=0.1)
    for side in (plain, replay):
        side.extend(rows)
    batch = plain.sample(64)
    drawn, obs = replay.sample(64), rows[:, LAYOUT.slice_of("obs")]
    mean, std = obs.mean(0), obs.std(0, unbiased=False)
    torch.testing.assert_close(drawn.obs, (batch.obs - mean) / std, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(drawn.next_obs, (batch.next_obs - mean) / std, rtol=1e-4, atol=1e-4)
    assert torch.equal(drawn.obs_action, torch.cat((drawn.obs, batch.action), 1))
    assert torch.equal(drawn.discount, batch.discount)
    torch.testing.assert_close(drawn.reward, 0.1 * batch.reward)
    assert torch.equal(replay.view(0, 200), rows)


def test_folding_by_hand() -> None:
    """h = relu(2 x' + 1) with x' = (x - 10) / 5 is relu(0.4 x - 3)."""
    spec, norm = PolicySpec("tanh", 1, 1, (1,)), ObservationNorm(Layout(1, 1))
    norm.update(observations(5.0, 15.0))
    policy = torch.tensor([2.0, 1.0, 3.0, 0.25])  # W1, b1, W2, b2
    fold(policy, spec, norm)
    assert policy.tolist() == pytest.approx([0.4, -3.0, 3.0, 0.25])


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_whoever_acts_on_observations_as_they_are_acts_as_the_actor_on_normalized_ones(name: str) -> None:
    algorithm: Any = make_algorithm(name, 3, 2, CONFIG)
    replay = Replay(LAYOUT, 500, normalize=True)
    replay.extend(made_up_rows(300))
    for turn in range(6):
        algorithm.update(replay.sample(32), turn % algorithm.period)
    assert replay.norm is not None
    folded = algorithm.policy_flat().detach().clone()
    fold(folded, algorithm.policy_spec, replay.norm)
    policy = NumpyPolicy(algorithm.policy_spec, batch=20)
    policy.flat[:] = folded.numpy()
    obs = made_up_rows(20, seed=9)[:, LAYOUT.slice_of("obs")]
    expected = algorithm.actor.forward((obs - replay.norm.shift) * replay.norm.scale)[0][0]
    np.testing.assert_allclose(policy.forward(obs.numpy()), expected.numpy(), rtol=1e-3, atol=1e-4)


def test_a_replay_that_goes_on_has_the_statistics_of_all_rows_it_ever_saw() -> None:
    first, second = Replay(LAYOUT, 50, normalize=True), Replay(LAYOUT, 50, normalize=True)
    first.extend(made_up_rows(40))
    first.extend(made_up_rows(40, seed=2))  # 30 rows are no longer held
    assert first.norm is not None
    assert second.norm is not None
    second.begin_again([first.rows[30:].clone(), first.rows[:30].clone()], rows=50, end=80)
    second.load_draws({name: value.clone() for name, value in first.draws().items()})
    assert torch.equal(first.norm.shift, second.norm.shift)
    for replay in (first, second):
        replay.extend(made_up_rows(7, seed=3))
    assert torch.equal(first.norm.scale, second.norm.scale)
    assert torch.equal(first.sample(16).obs, second.sample(16).obs)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_two_places_normalize_as_one(name: str) -> None:
    one, two = make_algorithm(name, 3, 2, CONFIG), make_algorithm(name, 3, 2, CONFIG, critic_device="cpu")
    replay = Replay(LAYOUT, 500, normalize=True, reward_scale=0.5)
    paired = PairedReplay(LAYOUT, 500, "cpu", "cpu", normalize=True, reward_scale=0.5)
    split = SplitUpdates(two, paired, 32, CpuPlace("actor"), CpuPlace("critics"), pipelined=False)
    eager = EagerUpdates(one, replay, 32)
    for seed in range(4):
        for side, updates in ((replay, eager), (paired, split)):
            side.extend(made_up_rows(100, seed))
            done = 0
            while done < 6:
                done += updates.run(6 - done)
    assert torch.equal(one.policy_flat(), two.policy_flat())
    split.close()
