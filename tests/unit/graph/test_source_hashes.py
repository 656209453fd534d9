"""The hashes by which a page finds the model that was imported from a file."""

import json
import os
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from fixtures.encoder import Encoder
from kernelzoo.errors import InvalidInput
from services.tuner.graph.source_hashes import WEIGHT_BYTES, SourceHashes, read_source

RECORDED = Path(__file__).parents[2] / "golden" / "source_hashes.json"
"""client/tests/source-hashes.test.ts expects these of the same files, which stand in base 64."""


def model(
    weight: float = 1.0, shape: tuple[int, ...] = (8, 64), eps: float = 0.5
) -> onnx.ModelProto:
    """x + a weight of 512 entries + a small tensor, by a constant within a branch."""
    weights = numpy_helper.from_array(np.full((8, 64), weight, np.float32), "w")
    small = numpy_helper.from_array(np.array([eps], np.float32), "small")
    constant = numpy_helper.from_array(np.full((8, 64), 3, np.float32), "c")
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["b"], value=constant)],
        "branch",
        [],
        [helper.make_tensor_value_info("b", 1, shape)],
    )
    nodes = [
        helper.make_node("Add", ["x", "w"], ["s"]),
        helper.make_node("Add", ["s", "small"], ["t"]),
        helper.make_node("If", ["yes"], ["u"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["t", "u"], ["y"]),
    ]
    yes = numpy_helper.from_array(np.array(True), "yes")
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("x", 1, ["batch", 64])],
        [helper.make_tensor_value_info("y", 1, ["batch", 64])],
        [weights, small, yes],
    )
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def hashes(proto: onnx.ModelProto, folder: Path) -> SourceHashes:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return read_source(path).hashes


def test_weights_change_one_hash_and_everything_else_the_other(tmp_path: Path) -> None:
    first = hashes(model(), tmp_path)
    tuned = hashes(model(weight=2.0), tmp_path)
    assert (tuned.graph, tuned.weights != first.weights) == (first.graph, True)
    other = hashes(model(eps=0.25), tmp_path)
    assert (other.graph != first.graph, other.weights) == (True, first.weights)


def test_external_weights_have_the_hashes_of_those_inside(tmp_path: Path) -> None:
    proto = Encoder(tokens=4, hidden=48, heads=4, vocabulary=61).model()
    inside = hashes(proto, tmp_path)
    path = tmp_path / "beside.onnx"
    onnx.save(
        proto,
        path,
        save_as_external_data=True,
        location="beside.onnx_data",
        size_threshold=WEIGHT_BYTES,
    )
    assert (tmp_path / "beside.onnx_data").stat().st_size > WEIGHT_BYTES
    assert read_source(path).hashes == inside
    data = tmp_path / "beside.onnx_data"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(InvalidInput, match="cut off"):
        read_source(path)
    data.unlink()
    with pytest.raises(InvalidInput, match="is missing"):
        read_source(path)


@given(st.data())
def test_a_torn_file_is_refused_or_hashed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    body = bytearray(model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(1, len(body))) :]
    path = tmp_path_factory.getbasetemp() / "torn.onnx"
    path.write_bytes(body)
    with suppress(InvalidInput):
        assert len(read_source(path).hashes.graph) == 64


def files() -> dict[str, bytes]:
    """Files as tools write them, with entries as bytes and as numbers, and one that is cut off."""
    numbers = model()
    for tensor in numbers.graph.initializer:
        if tensor.name == "w":
            tensor.ClearField("raw_data")
            tensor.float_data.extend(range(512))
    whole = model().SerializeToString()
    return {"bytes": whole, "numbers": numbers.SerializeToString(), "cut": whole[:-3]}


def recorded(folder: Path) -> dict[str, dict[str, str | None]]:
    made: dict[str, dict[str, str | None]] = {}
    for name, body in files().items():
        path = folder / f"{name}.onnx"
        path.write_bytes(body)
        made[name] = {"file": b64encode(body).decode(), "graph": None, "weights": None}
        with suppress(InvalidInput):
            found = read_source(path).hashes
            made[name] |= {"graph": found.graph, "weights": found.weights}
    return made


def test_the_recorded_files_have_the_recorded_hashes(tmp_path: Path) -> None:
    """The client's tests hash the same files."""
    found = recorded(tmp_path)
    if os.environ.get("UPDATE_GOLDEN"):
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    assert json.loads(RECORDED.read_text()) == found
    assert found["cut"]["graph"] is None
    assert found["bytes"]["graph"] == found["numbers"]["graph"]
