"""What holds for every algorithm: seeds, saved states, metrics, engines, refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from spreeze.algos import ALGORITHMS, make_algorithm
from spreeze.algos.algorithm import StateError
from spreeze.config import RunConfig
from spreeze.errors import ConfigError
from spreeze.spec import Batch, Layout
from spreeze.weights.numpy_policy import NumpyPolicy

LAYOUT = Layout(4, 2)
EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))
CONFIG = RunConfig(hidden=(16, 16))


def draw_batch(seed: int, rows: int = 32) -> Batch:
    drawn = torch.randn(rows, LAYOUT.row_size, generator=torch.Generator().manual_seed(seed))
    drawn[:, LAYOUT.slice_of("action")].tanh_()
    drawn[:, LAYOUT.slice_of("discount")] = 0.99
    return LAYOUT.split(drawn)


def make(name: str, seed: int = 0, **settings: Any) -> Any:
    return make_algorithm(name, 4, 2, CONFIG, seed=seed, **settings)


def run(algorithm: Any, first: int, count: int) -> None:
    for index in range(first, first + count):
        algorithm.update(draw_batch(index), index % algorithm.period)


def tensors(algorithm: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in algorithm.state().items()}


def assert_bit_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


@EVERY
def test_the_same_seed_gives_the_same_weights_bit_for_bit(name: str) -> None:
    one, two, other = make(name, seed=7), make(name, seed=7), make(name, seed=8)
    for algorithm in (one, two, other):
        run(algorithm, 0, 6)
    assert_bit_equal(tensors(one), tensors(two))
    assert not torch.equal(one.policy_flat(), other.policy_flat())


@EVERY
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_loaded_state_goes_on_bit_for_bit(name: str, precision: str) -> None:
    whole = make(name, seed=1, precision=precision)
    run(whole, 0, 4)
    saved = tensors(whole)
    run(whole, 4, 5)

    resumed = make(name, seed=99, precision=precision)
    run(resumed, 50, 3)
    resumed.load(saved)
    run(resumed, 4, 5)
    assert_bit_equal(tensors(whole), tensors(resumed))


@EVERY
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    algorithm = make(name)
    before = tensors(algorithm)
    lacking = {key: value + 1 for key, value in before.items() if key != "actor"}
    for bad, word in (
        (lacking, "lacks actor"),
        ({**before, "extra": torch.zeros(1)}, "extra"),
        ({**before, "actor": torch.zeros(3)}, r"actor: .*\(3,\)"),
        ({**before, "actor": before["actor"].double()}, "float64"),
    ):
        with pytest.raises(StateError, match=word):
            algorithm.load(bad)
    assert_bit_equal(before, tensors(algorithm))


@EVERY
def test_the_engines_learn_the_same(name: str) -> None:
    fused, reference = (make(name, engine=engine) for engine in ("fused", "reference"))
    for algorithm in (fused, reference):
        run(algorithm, 0, 10)
    torch.testing.assert_close(fused.policy_flat(), reference.policy_flat(), rtol=1e-4, atol=1e-5)
    for metric, value in fused.metrics.items():
        torch.testing.assert_close(value, reference.metrics[metric], rtol=1e-4, atol=1e-4)


@EVERY
def test_bfloat16_learns_nearly_the_same(name: str) -> None:
    start = make(name).policy_flat()
    exact, rounded = (make(name, precision=precision) for precision in ("float32", "bfloat16"))
    for algorithm in (exact, rounded):
        run(algorithm, 0, 10)
    moved, rounded_moved = exact.policy_flat() - start, rounded.policy_flat() - start
    assert torch.nn.functional.cosine_similarity(moved, rounded_moved, dim=0) > 0.9


@EVERY
def test_persistent_tensors_stay_where_they_are(name: str) -> None:
    """A captured graph holds their addresses."""
    algorithm = make(name)
    persistent = {**algorithm.state(), **algorithm.metrics, "policy": algorithm.policy_flat()}
    del persistent["generator"]
    places = {key: value.data_ptr() for key, value in persistent.items()}
    run(algorithm, 0, 4)
    algorithm.load(tensors(make(name, seed=5)))
    now = {**algorithm.state(), **algorithm.metrics, "policy": algorithm.policy_flat()}
    assert {key: now[key].data_ptr() for key in places} == places


@EVERY
def test_metrics_are_written_by_an_update(name: str) -> None:
    algorithm = make(name)
    run(algorithm, 0, algorithm.period)
    values = {key: value.item() for key, value in algorithm.metrics.items()}
    assert {"critic_loss", "actor_loss", "q_mean"} <= values.keys()
    assert all(value != 0 for value in values.values())
    assert algorithm.metrics.values_vector.tolist() == list(values.values())


@EVERY
def test_the_policy_vector_is_one_that_samplers_can_load(name: str) -> None:
    algorithm = make(name)
    policy = NumpyPolicy(algorithm.policy_spec, batch=1)
    assert policy.flat.shape == algorithm.policy_flat().shape
    assert algorithm.policy_flat().dtype is torch.float32
    assert algorithm.policy_flat().is_contiguous()


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'sac'"):
        make_algorithm("sacc", 4, 2, CONFIG)
    with pytest.raises(ConfigError, match="'fused'"):
        make("sac", engine="fuse")
    with pytest.raises(ConfigError, match="'bfloat16'"):
        make("sac", precision="bfloat")


def test_sac_seeks_the_target_entropy() -> None:
    """Temperature falls where the policy is more random than asked for, and rises where it is less."""
    for target_entropy, rises in ((-100.0, False), (100.0, True)):
        config = CONFIG.replace(target_entropy=target_entropy, lr=1e-2)
        sac = make_algorithm("sac", 4, 2, config)
        run(sac, 0, 5)
        assert (sac.log_temperature.item() > 0.0) is rises
