"""A file of a package is judged by how far onnxruntime is from itself, too."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from bench.models.cases import NetworkCase
from bench.models.files import NetworkFiles
from bench.models.packages import RIGHT, ROUNDING, Row, claims, sensitivity_of
from tests.unit.graph.models import written


def network(tmp_path: Path, slope: float) -> NetworkFiles:
    """y = x + slope * (x - 1), at x = 1; its other input, an integer, is added to nothing."""
    nodes = [
        helper.make_node("Sub", ["x", "one"], ["apart"]),
        helper.make_node("Mul", ["apart", "slope"], ["times"]),
        helper.make_node("Add", ["x", "times"], ["y"]),
        helper.make_node("Identity", ["n"], ["same"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("n", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("same", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor(name, TensorProto.FLOAT, [], [value])
            for name, value in (("one", 1.0), ("slope", slope))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return NetworkFiles(
        case=NetworkCase(name="steep"),
        onnx=written(tmp_path, model),
        tflite=None,
        tensorflow=None,
        inputs={"x": np.ones(4, np.float32), "n": np.array([7])},
        outputs={},
    )


def test_how_far_onnxruntime_is_from_itself_is_measured_with_inputs_that_a_rounding_moves(
    tmp_path: Path,
) -> None:
    assert 0 < sensitivity_of(network(tmp_path, 0.0)) < 2 * ROUNDING
    steep = sensitivity_of(network(tmp_path, 1e5))
    assert 0.5e5 * ROUNDING < steep < 1.5e5 * ROUNDING


@pytest.mark.parametrize(
    ("peer", "sensitivity", "holds"),
    [(0.0, 0.0, False), (0.0, 8e-3, False), (0.0, 1e-2, True), (1e-2, 0.0, True)],
)
def test_a_difference_beyond_the_bound_holds_where_onnxruntime_is_as_far_from_itself(
    peer: float, sensitivity: float, holds: bool
) -> None:
    row = Row(
        package="p",
        file="f",
        opset=17,
        difference=9e-3,
        peer_difference=peer,
        sensitivity=sensitivity,
        ours_ms=1.0,
        peer_ms=2.0,
    )
    near = Row(package="p", file="g", opset=17, difference=RIGHT / 2, ours_ms=1.0, peer_ms=2.0)
    (told,) = [each for each in claims([row, near]) if each.what.startswith("difference")]
    assert (told.ok, told.value) == (holds, RIGHT / 2 if holds else 9e-3)
