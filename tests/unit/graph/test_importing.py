"""Whole small models through the import, held to ONNX's reference."""

from pathlib import Path

import numpy as np

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Graph
from tests.unit.graph.models import assert_as_reference, drawn, parsed

IMAGES = """net (float[B, 3, 8, 8] x, float[5, 3, 3, 3] w, float[5] b) => (float[B, 5] y) {
    c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w, b)
    r = Relu (c)
    p = GlobalAveragePool (r)
    y = Flatten (p)
}"""

HEADS = """net (int64[S] ids, float[9, 8] table, float[8, 8] w) => (float[2, S, S] y) {
    size = Shape (ids)
    two = Constant <value_ints = [2]> ()
    rest = Constant <value_ints = [-1]> ()
    e = Gather (table, ids)
    q = MatMul (e, w)
    shape = Concat <axis = 0> (size, two, rest)
    heads = Reshape (q, shape)
    a = Transpose <perm = [1, 0, 2]> (heads)
    k = Transpose <perm = [1, 2, 0]> (heads)
    s = MatMul (a, k)
    y = Softmax <axis = -1> (s)
}"""


def keys(graph: Graph) -> list[str]:
    return [node.op.key for node in graph.nodes if isinstance(node.op, Workload)]


def test_an_image_goes_through_a_named_convolution_channels_last(tmp_path: Path) -> None:
    feeds = {"x": drawn((2, 3, 8, 8)), "w": drawn((5, 3, 3, 3), 1), "b": drawn((5,), 2)}
    graph = assert_as_reference(tmp_path, parsed(IMAGES), feeds, {"B": 2})
    assert keys(graph) == [
        "conv2d:f32:b2h8w8c3o5kh3kw3stride2pad1",
        "row_mean:f32:m10n16",
    ]


def test_arithmetic_on_shapes_vanishes(tmp_path: Path) -> None:
    feeds = {"ids": np.array([3, 0, 8, -1]), "table": drawn((9, 8)), "w": drawn((8, 8), 1)}
    graph = assert_as_reference(tmp_path, parsed(HEADS), feeds, {"S": 4})
    assert keys(graph) == [
        "gather:f32:m4k9n8",
        "matmul:f32:m4k8n8",
        "batch_matmul:f32:b2m4k4n4",
        "softmax:f32:m8n4",
    ]
    assert sum(isinstance(node.op, Program) for node in graph.nodes) == 3
    assert [port.dtype for port in graph.inputs] == [
        PortDType.INT64, PortDType.FLOAT32, PortDType.FLOAT32,
    ]  # fmt: skip
