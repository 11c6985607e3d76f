"""The policy of the samplers against torch, against its own formulas, and against descriptions that make no sense."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from spreeze.errors import WeightsError
from spreeze.weights.numpy_policy import LOG_STD_MAX, NumpyPolicy, PolicySpec

SPECS = [
    PolicySpec("tanh", 3, 2, (16, 8)),
    PolicySpec("tanh_gaussian", 5, 3, (32, 32)),
    PolicySpec("tanh_gaussian", 1, 1, (4,)),
    PolicySpec("tanh", 7, 4, ()),
]


def make_policy(spec: PolicySpec, batch: int = 8, seed: int = 0) -> NumpyPolicy:
    policy = NumpyPolicy(spec, batch, seed)
    policy.flat[:] = np.random.default_rng(1).normal(0, 0.5, spec.weight_count)
    return policy


def observations(spec: PolicySpec, count: int = 8) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, spec.obs_size)).astype(np.float32)


def test_the_flat_vector_is_laid_out_as_its_docstring_says() -> None:
    """2 -> 2 -> 1: weight (inputs x outputs) row by row, then bias, layer after layer."""
    spec = PolicySpec("tanh", 2, 1, (2,))
    assert spec.layer_sizes == (2, 2, 1)
    assert spec.weight_count == (4 + 2) + (2 + 1)
    policy = NumpyPolicy(spec, 1)
    policy.flat[:] = [1, 2, 3, 4, 10, -100, 0.01, 5, 0.1]
    # hidden = relu([1*1 + 2*3 + 10, 1*2 + 2*4 - 100]) = [17, 0]; output = 17 * 0.01 + 0 * 5 + 0.1 = 0.27
    np.testing.assert_allclose(policy.act(np.array([[1, 2]], np.float32)), np.tanh([[0.27]]), rtol=1e-6)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_it_acts_as_torch_does(spec: PolicySpec) -> None:
    torch = pytest.importorskip("torch")
    policy, obs = make_policy(spec), observations(spec)
    hidden, offset = torch.from_numpy(obs), 0
    flat = torch.from_numpy(policy.flat.copy())
    sizes = list(pairwise(spec.layer_sizes))
    for index, (inputs, outputs) in enumerate(sizes):
        linear = torch.nn.Linear(inputs, outputs)
        with torch.no_grad():
            linear.weight.copy_(flat[offset : offset + inputs * outputs].reshape(inputs, outputs).T)
            linear.bias.copy_(flat[offset + inputs * outputs : offset + (inputs + 1) * outputs])
            hidden = linear(hidden)
        hidden = torch.relu(hidden) if index < len(sizes) - 1 else hidden
        offset += (inputs + 1) * outputs
    assert offset == spec.weight_count
    np.testing.assert_allclose(policy.act(obs), torch.tanh(hidden[:, : spec.action_size]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_fewer_observations_than_the_batch_give_the_same_actions(spec: PolicySpec) -> None:
    policy, obs = make_policy(spec), observations(spec)
    whole = policy.act(obs).copy()
    for count in (1, 3, 8):
        np.testing.assert_allclose(policy.act(obs[:count]), whole[:count], rtol=1e-4, atol=1e-6)


def test_new_weights_act_at_once() -> None:
    policy, obs = make_policy(SPECS[0]), observations(SPECS[0])
    before = policy.act(obs).copy()
    policy.flat *= 2
    assert not np.allclose(before, policy.act(obs))
    policy.flat[:] = 0
    np.testing.assert_array_equal(policy.act(obs), np.zeros((8, 2)))


def test_gaussian_exploration_follows_mean_and_deviation() -> None:
    """With zero weights the biases alone are mean and log standard deviation; the noise is undone with arctanh."""
    spec = PolicySpec("tanh_gaussian", 1, 2, ())
    policy = NumpyPolicy(spec, 4_096, seed=3)
    policy.flat[-4:] = [0.2, -0.3, np.log(0.1), np.log(0.4)]
    drawn = np.arctanh(policy.explore(np.zeros((4_096, 1), np.float32)).astype(np.float64))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.2, -0.3], atol=0.03)
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.4], rtol=0.05)
    np.testing.assert_allclose(policy.act(np.zeros((1, 1), np.float32)), np.tanh([[0.2, -0.3]]), rtol=1e-6)


def test_a_deviation_beyond_its_bounds_is_bounded() -> None:
    policy = NumpyPolicy(PolicySpec("tanh_gaussian", 1, 2, ()), 1_024)
    policy.flat[-4:] = [0.0, 0.5, 1_000.0, -1_000.0]
    drawn = policy.explore(np.zeros((1_024, 1), np.float32))
    assert np.isfinite(drawn).all()
    assert np.abs(drawn[:, 0]).mean() > np.tanh(np.exp(LOG_STD_MAX)) * 0.7
    np.testing.assert_allclose(drawn[:, 1], np.tanh(0.5), rtol=1e-5)


def test_noise_is_scaled_for_each_environment_and_stays_in_bounds() -> None:
    spec = PolicySpec("tanh", 1, 1, ())
    policy = NumpyPolicy(spec, 3_000, seed=5)
    policy.flat[-1] = 0.5
    scales = np.repeat([0.0, 0.1, 50.0], 1_000)[:, None].astype(np.float32)
    actions = policy.explore(np.zeros((3_000, 1), np.float32), scales)
    quiet, little, loud = actions.reshape(3, 1_000)
    np.testing.assert_allclose(quiet, np.tanh(0.5), rtol=1e-6)
    np.testing.assert_allclose(little.std(), 0.1, rtol=0.15)
    assert actions.min() == -1.0
    assert actions.max() == 1.0
    assert np.isin(loud, (-1.0, 1.0)).mean() > 0.9


def test_noise_follows_its_seed() -> None:
    spec, obs = SPECS[1], observations(SPECS[1])
    same, again, other = (make_policy(spec, seed=seed).explore(obs) for seed in (1, 1, 2))
    np.testing.assert_array_equal(same, again)
    assert not np.allclose(same, other)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_description_survives_json(spec: PolicySpec) -> None:
    assert PolicySpec.from_json(spec.as_json()) == spec


GOOD = SPECS[0].as_json()


@pytest.mark.parametrize(
    "data",
    [
        {**GOOD, "kind": "softmax"},
        {**GOOD, "kind": ["tanh"]},
        {**GOOD, "obs_size": 0},
        {**GOOD, "obs_size": 3.0},
        {**GOOD, "action_size": -1},
        {**GOOD, "action_size": "2"},
        {**GOOD, "hidden": [16, 0]},
        {**GOOD, "hidden": "16"},
        {**GOOD, "hidden": None},
        {**GOOD, "hidden": [1 << 20, 1 << 20]},
        {**GOOD, "hidden": [10**4000, 10**4000]},
        {"kind": "tanh"},
        {},
        [],
        None,
        "tanh",
    ],
    ids=lambda data: str(data)[:60],
)
def test_a_description_that_makes_no_sense_is_refused_by_name(data: object) -> None:
    with pytest.raises(WeightsError):
        PolicySpec.from_json(data)  # type: ignore[arg-type]
