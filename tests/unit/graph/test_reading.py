"""Files that are no sound models: one clear sentence for each, and nothing read outside."""

from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser

from kernelzoo.errors import InvalidInput, KernelZooError, UnsupportedModel
from services.tuner.graph import shapes
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import import_model
from services.tuner.graph.reading import entries
from tests.unit.graph.models import HEAD, parsed, written

ADD = "net (float[N, 3] x) => (float[N, 3] y) { y = Add (x, x) }"


def model(*nodes: Any, weights: tuple[TensorProto, ...] = ()) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "net", [x], [y], list(weights))
    made: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return made


def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs, [output], name=f"the {operator}", **attributes)


def damaged(shape: list[int], entries: int = 3) -> TensorProto:
    tensor = numpy_helper.from_array(np.zeros(entries, np.float32), "w")
    del tensor.dims[:]
    tensor.dims.extend(shape)
    return tensor


def with_a_stray_tag(made: NodeProto) -> NodeProto:
    """A group of an unknown field: Python's protobuf keeps it, ONNX's checker cannot read it."""
    made.attribute[0].MergeFromString(b"\x73\x00\x01\x74")
    return made


def outside(location: str, offset: int = 0) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", "12")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def called(depth: int) -> ModelProto:
    """Functions that each call the next one ten times: 10^depth nodes when put in place."""
    text = HEAD.format(opset=17).replace('"" : 17', '"" : 17, "own" : 1')
    text += "net (float[2, 3] x) => (float[2, 3] y) { y = own.f0 (x) }\n"
    for level in range(depth):
        inner = f"own.f{level + 1}" if level + 1 < depth else "Relu"
        body = "\n".join(f"t{n + 1} = {inner} (t{n})" for n in range(10))
        text += (
            f'<domain: "own", opset_import: ["" : 17, "own" : 1]>\n'
            f"f{level} (t0) => (t10) {{ {body} }}\n"
        )
    made: ModelProto = parser.parse_model(text)
    return made


RELU = node("Relu", ["x"], "y")
ADD_W = node("Add", ["x", "w"], "y")

REFUSED = {
    "a cycle": (
        model(node("Add", ["x", "y"], "z"), node("Relu", ["z"], "y")),
        "node 'the Add' (Add) waits for its own output: the graph has a cycle",
    ),
    "a value that nothing makes": (
        model(node("Add", ["x", "z"], "y")),
        "node 'the Add' (Add) reads 'z', which nothing makes",
    ),
    "a value made twice": (model(RELU, RELU), "(Relu) makes 'y', which is there already"),
    "no nodes": (model(), "has no nodes or no outputs"),
    "a control character": (
        model(node("Relu", ["x"], "a\x1b[2J"), node("Relu", ["a\x1b[2J"], "y")),
        r"the name 'a\x1b[2J' is longer than 1024 or has control characters",
    ),
    "too few entries": (
        model(ADD_W, weights=(damaged([2, 3]),)),
        "tensor 'w' has not the entries that its shape [2, 3] promises",
    ),
    "an absurd shape": (
        model(ADD_W, weights=(damaged([1 << 40, 1 << 40]),)),
        "which no memory holds",
    ),
    "a negative shape": (model(ADD_W, weights=(damaged([-3]),)), "which no memory holds"),
    "operands that do not fit": (
        model(ADD_W, weights=(damaged([5], 5),)),
        "the inputs of node 'the Add' (Add) do not fit the operator",
    ),
    "a wrongly typed attribute": (
        model(node("Softmax", ["x"], "y", axis="last")),
        "node 'the Softmax' (Softmax) is not made as ONNX demands",
    ),
    "an attribute that ONNX itself cannot read": (
        model(with_a_stray_tag(node("Softmax", ["x"], "y", axis=1))),
        "node 'the Softmax' (Softmax) is not made as ONNX demands",
    ),
    "a missing attribute": (
        model(node("Cast", ["x"], "y")),
        "node 'the Cast' (Cast) is not made as ONNX demands",
    ),
    "an unknown operator": (
        model(node("Frobnicate", ["x"], "y")),
        "node 'the Frobnicate' (Frobnicate) is no operator of ONNX 17 that the import knows",
    ),
    "an operator of a runtime": (
        model(node("QLinearWhere", ["x", "x"], "y", domain="com.microsoft")),
        "is no operator of ONNX 17 of com.microsoft that the import knows; export",
    ),
    "an operator that is not carried over": (
        model(node("Det", ["x"], "y")),
        "node 'the Det' (Det)",
    ),
    "a shape that depends on values": (
        model(node("NonZero", ["x"], "z"), node("Cast", ["z"], "y", to=1)),
        "the shape of what node 'the NonZero' (NonZero) makes depends on the values",
    ),
    "training": (
        model(
            node("Dropout", ["x", "r", "t"], "y"),
            weights=(
                numpy_helper.from_array(np.array(0.5, np.float32), "r"),
                numpy_helper.from_array(np.array(1, np.bool_), "t"),
            ),
        ),
        "it is in training mode; call model.eval() before the export",
    ),
    "external data outside": (
        model(ADD_W, weights=(outside("../secret"),)),
        "lies outside of the model's folder, at '../secret'",
    ),
    "external data through a link": (
        model(ADD_W, weights=(outside("link"),)),
        "lies outside of the model's folder, at 'link'",
    ),
    "external data that is missing": (
        model(ADD_W, weights=(outside("weights.bin"),)),
        "is missing: put 'weights.bin' beside the model",
    ),
    "external data that is cut off": (
        model(ADD_W, weights=(outside("short", 8),)),
        "needs 12 bytes from offset 8 of short, which has 12",
    ),
    "an old opset": (parsed(ADD, opset=6), "the model is of opset 6; export it with an opset"),
    "an open dimension": (parsed(ADD), "dimension 'N' of input 'x' is open; give it a number"),
    "texts": (
        parsed("net (string[3] x) => (string[3] y) { y = Identity (x) }"),
        "input 'x' has the element type STRING",
    ),
    "a sequence": (
        parsed("net (seq(float[3]) x) => (seq(float[3]) y) { y = Identity (x) }"),
        "input 'x' is no tensor",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    proto, sentence = REFUSED[name]
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "short").write_bytes(bytes(12))
    started = perf_counter()
    with pytest.raises((InvalidInput, UnsupportedModel)) as refusal:
        import_model(written(folder, proto), {})
    assert sentence in str(refusal.value)
    assert len(str(refusal.value)) < 600
    assert perf_counter() - started < 30


def test_functions_that_would_grow_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "MAX_NODES", 1000)
    with pytest.raises(InvalidInput, match="more than 1000 nodes with its functions in place"):
        import_model(written(tmp_path, called(9)), {})


def test_a_dimension_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no dimension 'M'; it leaves 'N' open"):
        import_model(written(tmp_path, parsed(ADD)), {"M": 3})


def test_a_tensor_that_no_memory_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Give smaller dimensions"):
        import_model(written(tmp_path, parsed(ADD)), {"N": 1 << 30})


def test_every_cut_and_every_flipped_byte_is_an_error_or_a_model(tmp_path: Path) -> None:
    whole = model(ADD_W, weights=(damaged([3]),)).SerializeToString()
    path = tmp_path / "model.onnx"
    for place in range(len(whole)):
        flipped = whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :]
        for content in (whole[:place], flipped):
            path.write_bytes(content)
            with suppress(KernelZooError):
                import_model(path, {})


def test_external_data_beside_the_model_is_mapped(tmp_path: Path) -> None:
    np.arange(5, dtype=np.float32).tofile(tmp_path / "weights.bin")
    proto = model(ADD_W, weights=(outside("weights.bin", 8),))
    graph = import_model(written(tmp_path, proto), {})
    assert isinstance(graph.constants["w"].base, np.memmap)
    made = evaluate(graph, {"x": np.zeros((2, 3))})["y"]
    np.testing.assert_array_equal(made, [[2, 3, 4], [2, 3, 4]])


def test_a_dimension_may_be_a_sum_of_named_ones(tmp_path: Path) -> None:
    proto = parsed(ADD)
    for each in (*proto.graph.input, *proto.graph.output):
        each.type.tensor_type.shape.dim[0].dim_param = "past + sequence"
    graph = import_model(written(tmp_path, proto), {"past": 3, "sequence": 4})
    assert graph.values["x"].shape == (7, 3)


def test_packed_integers_are_read_from_the_file_and_from_one_beside_it(tmp_path: Path) -> None:
    """Two numbers of 4 bits are in a byte, the first in its lower bits."""
    numbers = [-8, 7, 3, -1, 0]
    body = bytes([0x78, 0xF3, 0x00])
    inside = helper.make_tensor("w", TensorProto.INT4, [5], body, raw=True)
    assert entries(inside).astype(int).tolist() == numbers
    (tmp_path / "weights").write_bytes(b"\0" * 4 + body)
    beside = TensorProto(name="w", data_type=TensorProto.INT4, dims=[5])
    beside.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights", "offset": "4", "length": "3"}.items():
        beside.external_data.add(key=key, value=value)
    assert entries(beside, tmp_path).astype(int).tolist() == numbers
