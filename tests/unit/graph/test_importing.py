"""Whole small models through the import, held to ONNX's reference."""

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written

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


@pytest.mark.parametrize(("rows", "constant"), [(3, ":constant=b"), (64, "")])
def test_a_table_that_also_makes_logits_is_kept_once(
    tmp_path: Path, rows: int, constant: str
) -> None:
    """The table is like GPT-2's: exporters write the transposed table a second time. Many rows read
    it as `gather` does, so that no page packs a copy of it."""
    table = drawn((520, 512))
    model = parsed(f"""net (int64[1, {rows}] ids) => (float[1, {rows}, 520] y) {{
        hidden = Gather (table, ids)
        y = MatMul (hidden, head)
    }}""")
    model.graph.initializer.append(numpy_helper.from_array(table, "table"))
    model.graph.initializer.append(numpy_helper.from_array(table.T.copy(), "head"))
    graph = assert_as_reference(tmp_path, model, {"ids": np.arange(519, 519 - rows, -1)[None]})
    product = f"matmul_nt:f32:m{rows}k512n520{constant}"
    assert keys(graph) == [f"gather:f32:m{rows}k520n512", product]
    assert list(graph.constants) == ["table"]


def test_updates_at_known_places_are_read_where_a_table_says(tmp_path: Path) -> None:
    """A cache of keys that one step is written to. No entry asks every update."""
    model = parsed("""net (float[4, 6] cache, float[2, 6] step) => (float[4, 6] y) {
        rows = Constant <value = int64[2, 1] {3, -4}> ()
        y = ScatterND (cache, rows, step)
    }""")
    graph = assert_as_reference(tmp_path, model, {"cache": drawn((4, 6)), "step": drawn((2, 6), 1)})
    assert len(graph.nodes) == 1
    op = graph.nodes[0].op
    assert isinstance(op, Program)
    assert [stage.reducer for stage in op.stages] == [None]


def test_attention_is_what_onnx_defines_it_as(tmp_path: Path) -> None:
    """An operator without a function here is replaced by ONNX's definition of it."""
    shape = "float[1, 2, 4, 8]"
    model = parsed(
        f"net ({shape} q, {shape} k, {shape} v) => ({shape} y) {{"
        " y = Attention <is_causal = 1> (q, k, v) }",
        opset=23,
    )
    feeds = {name: drawn((1, 2, 4, 8), seed) for seed, name in enumerate("qkv")}
    graph = assert_as_reference(tmp_path, model, feeds)
    assert "softmax:f32:m8n4" in keys(graph)


def test_a_branch_that_is_known_takes_the_place_of_its_condition(tmp_path: Path) -> None:
    model = parsed("""net (float[N, 3] x) => (float[N, 3] y) {
        rows = Shape <start = 0, end = 1> (x)
        two = Constant <value_ints = [2]> ()
        few = Less (rows, two)
        y = If (few) <
            then_branch = few_rows () => (float[N, 3] t) { t = Exp (x) },
            else_branch = many_rows () => (float[N, 3] e) { e = Relu (x) }
        >
    }""")
    assert len(assert_as_reference(tmp_path, model, {"x": drawn((2, 3))}, {"N": 2}).nodes) == 1
    graph = import_model(written(tmp_path, model), {"N": 1})
    assert "exp" in str(graph.nodes[0].op)


def across_versions(opset: int) -> str:
    """Operators whose attributes became inputs, or that came, within the opsets that are read. With
    this momentum ONNX's reference of opset 13 takes the given means, as the operator says."""
    largest = "ReduceMax <axes = [2, 3]> (n)"
    parts = "Split <axis = 1> (r)"
    grouped = "g = Identity (p)"
    if opset >= 18:
        largest = "ReduceMax (n, image)"
        parts = "Split <axis = 1, num_outputs = 2> (r)"
    if opset >= 21:  # ONNX withdrew what GroupNormalization was from 18 on
        grouped = """scale = Constant <value_floats = [1.5, 1.0, 0.5, 2.0]> ()
        bias = Constant <value_floats = [0.25, 0.0, -0.5, 1.0]> ()
        g = GroupNormalization <num_groups = 2> (p, scale, bias)"""
    return f"""net (float[1, 4, 3, 3] x, float[4] s, float[4] b, float[4] m, float[4] v)
        => (float[1, 2, 10, 10] one, float[1, 2, 10, 10] other, float[1, 4, 1, 1] most) {{
        pads = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> ()
        p = Pad <mode = "reflect"> (x, pads)
        {grouped}
        n = BatchNormalization <momentum = 1.0> (g, s, b, m, v)
        image = Constant <value_ints = [2, 3]> ()
        most = {largest}
        whole = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        r = Resize <mode = "linear"> (n, , whole)
        one, other = {parts}
    }}"""


@pytest.mark.parametrize("opset", range(13, 23))
def test_a_model_of_each_opset_is_carried_over_as_that_defines_it(
    opset: int, tmp_path: Path
) -> None:
    feeds = {name: drawn((4,), seed) for seed, name in enumerate("sbm", 1)}
    feeds |= {"x": drawn((1, 4, 3, 3)), "v": np.square(drawn((4,), 4)) + np.float32(0.5)}
    assert_as_reference(tmp_path, parsed(across_versions(opset), opset), feeds)


@pytest.mark.parametrize("opset", [12, 13, 16])
def test_comparisons_have_a_shape_where_onnx_infers_none(opset: int, tmp_path: Path) -> None:
    model = parsed("""net (float[2, 3] x, float[3] w) => (bool[2, 3] y, bool[2, 3] z) {
        y = GreaterOrEqual (x, w)
        z = LessOrEqual (w, x)
    }""", opset)  # fmt: skip
    assert_as_reference(tmp_path, model, {"x": drawn((2, 3)), "w": drawn((3,), 1)})
    text = "net (float[2, 3] x, float[2] w) => (bool[N] y) { y = GreaterOrEqual (x, w) }"
    with pytest.raises(InvalidInput, match="do not fit the operator"):
        import_model(written(tmp_path, parsed(text, opset)), {})


def test_denormal_constants_are_zeros_of_their_sign(tmp_path: Path) -> None:
    text = """net (float[4] x) => (float[4] y) {
        w = Constant <value = float[4] {1e-40, -1e-40, 1.2e-38, 2.0}> ()
        y = Mul (x, w)
    }"""
    graph = import_model(written(tmp_path, parsed(text)), {})
    (constant,) = graph.constants.values()
    assert constant.tolist() == [0.0, 0.0, np.float32(1.2e-38), 2.0]
    assert np.signbit(constant).tolist() == [False, True, False, False]
