"""The flat vector, the two engines over it, and the torch policy against the NumPy one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spreeze.algos.engine import Engine
from spreeze.algos.fused import FusedMlp
from spreeze.algos.nets import FlatParameters
from spreeze.algos.reference import ReferenceMlp
from spreeze.weights.numpy_policy import NumpyPolicy, PolicySpec


def test_the_flat_vector_is_laid_out_as_drawn() -> None:
    parameters = FlatParameters((3, 4, 2), copies=2)
    parameters.data.copy_(torch.arange(len(parameters.data)))
    first, second = parameters.layers

    assert len(parameters.data) == 2 * (3 * 4 + 4 + 4 * 2 + 2)
    assert first.weight[0, 0].tolist() == [0, 1, 2, 3]  # from input 0 to each of 4 outputs
    assert first.weight[1, 0, 0] == 12
    assert first.bias.tolist() == [[24, 25, 26, 27], [28, 29, 30, 31]]
    assert second.weight[0, 0].tolist() == [32, 33]
    assert second.bias[1].tolist() == [50, 51]
    assert parameters.grad_layers[1].bias.data_ptr() == parameters.grad[48:].data_ptr()


def test_start_values_are_those_of_torch_linear() -> None:
    parameters = FlatParameters((100, 400, 3), copies=2).draw(torch.Generator().manual_seed(0))
    for layer, inputs in zip(parameters.layers, (100, 400), strict=True):
        bound = 1 / math.sqrt(inputs)
        for leaf in layer:
            assert leaf.abs().max() <= bound
            assert leaf.abs().max() > 0.8 * bound
    weight = parameters.layers[0].weight
    assert weight.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert not torch.equal(weight[0], weight[1])


@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer norm"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("sizes", "copies"), [((5, 1), 1), ((5, 8, 3), 1), ((5, 16, 8, 1), 2), ((5, 8, 8, 8, 2), 3)])
def test_the_fused_engine_equals_the_reference(
    sizes: tuple[int, ...], copies: int, dtype: torch.dtype, layer_norm: bool
) -> None:
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype is torch.float64 else {"rtol": 1e-5, "atol": 1e-6}
    generator = torch.Generator().manual_seed(1)
    fused = FusedMlp(FlatParameters(sizes, copies, dtype=dtype).draw(generator), dtype, layer_norm)
    reference = ReferenceMlp(fused.parameters.clone(), dtype, layer_norm)
    inputs = torch.randn(7, 5, generator=generator, dtype=dtype)
    grad_output = torch.randn(copies, 7, sizes[-1], generator=generator, dtype=dtype)

    output, tape = fused.forward(inputs)
    expected, expected_tape = reference.forward(inputs)
    torch.testing.assert_close(output, expected, **close)
    torch.testing.assert_close(
        fused.input_grad(tape, grad_output, 2), reference.input_grad(_again(reference, inputs), grad_output, 2), **close
    )
    assert fused.parameters.grad.abs().sum() == 0  # an input gradient leaves the weights' alone

    fused.backward(tape, grad_output)
    reference.backward(expected_tape, grad_output)
    torch.testing.assert_close(fused.parameters.grad, reference.parameters.grad, **close)


def _again(mlp: ReferenceMlp, inputs: torch.Tensor) -> object:
    return mlp.forward(inputs)[1]


@pytest.mark.parametrize("rows", [64, 256, 300])
def test_products_of_every_library_agree(rows: int) -> None:
    """At 256 wide, float32, the large products go to oneDNN and the small ones to the library behind torch.mm."""
    generator = torch.Generator().manual_seed(2)
    fused = FusedMlp(FlatParameters((23, 256, 256, 12), copies=2).draw(generator), torch.float32)
    exact = FusedMlp(_in_float64(fused.parameters), torch.float64)
    inputs = torch.randn(rows, 23, generator=generator)
    grad_output = torch.randn(2, rows, 12, generator=generator)

    output, tape = fused.forward(inputs)
    fused.backward(tape, grad_output)
    exact_output, exact_tape = exact.forward(inputs.double())
    exact.backward(exact_tape, grad_output.double())

    torch.testing.assert_close(output.double(), exact_output, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fused.parameters.grad.double(), exact.parameters.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        fused.input_grad(tape, grad_output, 17).double(),
        exact.input_grad(exact_tape, grad_output.double(), 17),
        rtol=1e-4,
        atol=1e-4,
    )


def _in_float64(parameters: FlatParameters) -> FlatParameters:
    exact = FlatParameters(parameters.sizes, parameters.copies, dtype=torch.float64)
    exact.data.copy_(parameters.data)
    return exact


@pytest.mark.parametrize("make", [FusedMlp, ReferenceMlp])
def test_layer_norm_by_hand(make: type) -> None:
    """2 hidden units z = (3 x, x): mean 2 x, deviation x, so that y = (1, -1) whatever x is, and ReLU leaves (1, 0)."""
    mlp = make(FlatParameters((1, 2, 1), dtype=torch.float64), torch.float64, True)
    mlp.parameters.data.copy_(torch.tensor([3.0, 1.0, 0.0, 0.0, 5.0, 7.0, 0.25]))  # W1, b1, W2, b2
    output, tape = mlp.forward(torch.tensor([[40.0], [0.9]], dtype=torch.float64))
    shrunk = [x / math.sqrt(x * x + 1e-5) for x in (40.0, 0.9)]
    assert output.flatten().tolist() == pytest.approx([5.0 * y + 0.25 for y in shrunk])
    mlp.backward(tape, torch.ones(1, 2, 1, dtype=torch.float64))
    # the last layer's weights see the normalized units; the first one's hardly matter: what scales z is divided away
    assert mlp.parameters.grad[4:].tolist() == pytest.approx([sum(shrunk), 0.0, 2.0])
    assert mlp.parameters.grad[:4].abs().max() < 1e-4


@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer norm"])
@pytest.mark.parametrize("make", [FusedMlp, ReferenceMlp])
def test_a_backward_pass_may_cover_the_first_rows_only(make: type, layer_norm: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    mlp = make(FlatParameters((4, 8, 2), dtype=torch.float64).draw(generator), torch.float64, layer_norm)
    inputs = torch.randn(10, 4, generator=generator, dtype=torch.float64)
    grad_output = torch.randn(1, 6, 2, generator=generator, dtype=torch.float64)

    mlp.backward(mlp.forward(inputs)[1], grad_output)
    of_ten = mlp.parameters.grad.clone()
    mlp.backward(mlp.forward(inputs[:6])[1], grad_output)
    torch.testing.assert_close(of_ten, mlp.parameters.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [FusedMlp, ReferenceMlp])
def test_the_first_copy_alone(make: type) -> None:
    generator = torch.Generator().manual_seed(4)
    mlp = make(FlatParameters((4, 8, 1), copies=2).draw(generator), torch.float32)
    inputs = torch.randn(5, 4, generator=generator)
    output, tape = mlp.forward(inputs, copies=1)
    assert output.shape == (1, 5, 1)
    torch.testing.assert_close(output[0], mlp.forward(inputs)[0][0])
    assert mlp.input_grad(tape, torch.ones(1, 5, 1), 1).shape == (5, 3)


@pytest.mark.parametrize("make", [FusedMlp, ReferenceMlp])
def test_bfloat16_products_follow_the_float32_weights(make: type) -> None:
    generator = torch.Generator().manual_seed(5)
    mlp = make(FlatParameters((6, 32, 32, 2)).draw(generator), torch.bfloat16)
    exact = FusedMlp(mlp.parameters.clone(), torch.float32)
    inputs = torch.randn(64, 6, generator=generator)
    grad_output = torch.randn(1, 64, 2, generator=generator)
    for net in (mlp, exact):
        net.parameters.data.mul_(1.5)
        net.refresh()
        output, tape = net.forward(inputs)
        net.backward(tape, grad_output)
    output, expected = mlp.forward(inputs)[0], exact.forward(inputs)[0]
    assert output.dtype is torch.float32
    assert (output - expected).abs().max() < 0.02 * expected.abs().max()
    assert torch.nn.functional.cosine_similarity(mlp.parameters.grad, exact.parameters.grad, dim=0) > 0.999


@pytest.mark.parametrize("engine", ["fused", "reference"])
@pytest.mark.parametrize("kind", ["tanh", "tanh_gaussian"])
def test_the_torch_actor_and_the_numpy_policy_are_the_same_network(kind: str, engine: str) -> None:
    spec = PolicySpec(kind, 5, 3, (16, 8))
    actor = Engine.of(engine, "float32", torch.device("cpu"), seed=6).mlp(spec.layer_sizes)
    policy = NumpyPolicy(spec, batch=9)
    policy.flat[:] = actor.parameters.data.numpy()
    obs = torch.randn(9, 5, generator=torch.Generator().manual_seed(7))

    output = actor.forward(obs)[0][0]
    np.testing.assert_allclose(policy.forward(obs.numpy()), output.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(policy.act(obs.numpy()), torch.tanh(output[:, :3]).numpy(), rtol=1e-5, atol=1e-6)


def test_the_numpy_policy_explores_with_the_distribution_that_the_learner_assumes() -> None:
    spec = PolicySpec("tanh_gaussian", 2, 2, (8,))
    engine = Engine.of("fused", "float32", torch.device("cpu"), seed=8)
    actor = engine.mlp(spec.layer_sizes)
    count = 200_000
    obs = torch.tensor([[0.3, -1.0]]).repeat(count, 1)
    noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(9))
    action = engine.squash().forward(actor.forward(obs)[0][0], noise)[0]

    policy = NumpyPolicy(spec, batch=count, seed=10)
    policy.flat[:] = actor.parameters.data.numpy()
    explored = policy.explore(obs.numpy())
    np.testing.assert_allclose(explored.mean(0), action.mean(0).numpy(), atol=0.01)
    np.testing.assert_allclose(explored.std(0), action.std(0).numpy(), atol=0.01)
    np.testing.assert_allclose(np.quantile(explored, 0.9, axis=0), action.quantile(0.9, dim=0).numpy(), atol=0.01)
