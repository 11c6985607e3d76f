"""The policy as an ONNX graph, built node by node: no tracing, no torch.

observation -> Gemm -> Relu -> ... -> Gemm -> Tanh -> x half_range -> + middle -> Max low -> Min high -> action
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spreeze.errors import ConfigError
from spreeze.export import INPUT, OUTPUT, Act, as_text, layers_of, scale_of
from spreeze.weights.policy_file import Policy

OPSET, IR_VERSION = 13, 8  # of 2021: every runtime in use reads them


def load_library() -> Any:
    try:
        import onnx
    except ImportError:
        raise ConfigError(
            "ONNX needs the package onnx: pip install 'spreeze[export]'; --format torchscript needs nothing more"
        ) from None
    return onnx


def write(policy: Policy, about: dict[str, Any], path: Path) -> Act:
    onnx = load_library()
    model = build_model(policy, about)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    from onnx.reference import ReferenceEvaluator

    evaluator: Any = ReferenceEvaluator(onnx.load(path))
    return lambda obs: evaluator.run([OUTPUT], {INPUT: obs})[0]


def build_model(policy: Policy, about: dict[str, Any]) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, values: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def node(kind: str, inputs: list[str], output: str) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output))
        return output

    layers, scale = layers_of(policy), scale_of(policy)
    flowing = INPUT
    for place, (weight, bias) in enumerate(layers):
        inputs = [flowing, constant(f"weight_{place}", weight), constant(f"bias_{place}", bias)]
        flowing = node("Gemm", inputs, f"layer_{place}")
        if place < len(layers) - 1:
            flowing = node("Relu", [flowing], f"relu_{place}")
    flowing = node("Tanh", [flowing], "tanh")
    flowing = node("Mul", [flowing, constant("half_range", scale["half_range"])], "scaled")
    flowing = node("Add", [flowing, constant("middle", scale["middle"])], "centred")
    flowing = node("Max", [flowing, constant("low", scale["low"])], "not_below")
    node("Min", [flowing, constant("high", scale["high"])], OUTPUT)

    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", policy.spec.obs_size])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", policy.spec.action_size])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="spreeze")
    model.ir_version = IR_VERSION
    helper.set_model_props(model, as_text(about))
    return model
