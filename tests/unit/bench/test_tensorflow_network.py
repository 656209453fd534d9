"""Networks step by step for TensorFlow.js."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from onnx.onnx_pb import NodeProto

from bench.models.tensorflow import TensorFlowNetwork, tensorflow_network

KERNEL = np.arange(4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)
SPATIAL: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}


def network(tmp_path: Path, *nodes: NodeProto) -> TensorFlowNetwork | None:
    weights = {"kernel": KERNEL, "bias": np.ones(4, np.float32)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    initial = [numpy_helper.from_array(entries, name) for name, entries in weights.items()]
    graph = helper.make_graph(list(nodes), "network", ends[:1], ends[1:], initial)
    save(helper.make_model(graph), tmp_path / "network.onnx")
    return tensorflow_network(tmp_path / "network.onnx")


def test_a_convolution_takes_its_activation_and_channels_last(tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "kernel", "bias"], ["sum"], **SPATIAL)
    found = network(tmp_path, conv, helper.make_node("Relu", ["sum"], ["y"]))
    assert found is not None
    (step,) = found.steps
    assert (step.operator, step.inputs, step.output) == ("conv", ("x",), "y")
    assert (step.activation, step.stride, step.pad) == ("relu", 2, 1)
    weight = step.weights[0]
    stored = found.weights[weight.offset : weight.offset + KERNEL.size].reshape(weight.shape)
    assert np.array_equal(stored, KERNEL.transpose(2, 3, 1, 0))


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Sigmoid", ["x"], ["y"])],
        [helper.make_node("Flatten", ["x"], ["y"])],
        [helper.make_node("Conv", ["x", "kernel", "bias"], ["y"], dilations=[2, 2], **SPATIAL)],
    ],
    ids=["operator", "flattened image", "dilation"],
)
def test_a_network_without_such_a_form_has_none(tmp_path: Path, nodes: list[NodeProto]) -> None:
    assert network(tmp_path, *nodes) is None
