"""Constants that are larger than a kernel's tensor may be, under a bound of a few bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from kernelzoo.domain import workload
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph import tables
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_model
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

PIECE_BYTES = 1 << 9
BOUND = 1 << 10
MOST_OF_OTHERS = 256
"""Bytes of constants that are no tables."""


@pytest.fixture(autouse=True)
def _small_bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real" not in request.node.name:
        monkeypatch.setattr(tables, "PIECE_BYTES", PIECE_BYTES)
        monkeypatch.setattr(tables, "MAX_MEASURED_BYTES", BOUND)
        monkeypatch.setattr(workload, "MAX_TENSOR_BYTES", BOUND)


def with_constants(text: str, **constants: NDArray[Any]) -> ModelProto:
    model = parsed(text)
    for name, entries in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(entries, name))
    return model


IDS = np.array([[0, 31, 32], [63, -1, -50]], np.int64)
NUMBERS = np.random.default_rng(2).integers(-9, 9, (61, 8), np.int32)
GATHER = "g (int64[2, 3] ids) => (float[2, 3, 8] y) { y = Gather (table, ids) }"
CASES = {
    "rows": (with_constants(GATHER, table=drawn((64, 8))), 4),
    "rows that are no multiple": (with_constants(GATHER, table=drawn((65, 8))), 5),
    "more pieces than bindings": (with_constants(GATHER, table=drawn((210, 8))), 14),
    "integers": (
        with_constants(GATHER.replace("(float", "(int32"), table=np.resize(NUMBERS, (64, 8))), 4,
    ),
    "an axis behind": (
        with_constants("""g (int64[2, 3] ids) => (float[4, 2, 3] y) {
            y = Gather <axis = 1> (table, ids) }""", table=drawn((4, 65))), 4,
    ),
    "an axis of one entry before": (
        with_constants("""g (int64[2, 3] ids) => (float[1, 2, 3, 8] y) {
            y = Gather <axis = 1> (table, ids) }""", table=drawn((1, 64, 8))), 4,
    ),
    "a sum of embeddings": (
        with_constants("""g (int64[2, 3] ids) => (float[2, 3, 8] y) {
            a = Gather (table, ids) b = Gather (other, ids) y = Add (a, b) }""",
            table=drawn((64, 8)), other=drawn((128, 8), 1)), 4 + 8,
    ),
    "places of several axes": (
        with_constants("""g (int64[2, 3] ids) => (float[2, 3, 8] y) {
            last = Constant <value_ints = [-1]> () at = Unsqueeze (ids, last)
            y = GatherND (table, at) }""", table=drawn((64, 8))), 4,
    ),
    "columns": (
        with_constants("""g (int64[2, 3] ids, float[2, 3, 8] x) => (float[2, 3, 40] y) {
            some = Gather (little, ids) h = Add (x, some) y = MatMul (h, w) }""",
            little=drawn((64, 1)), w=drawn((8, 40))), 3,
    ),
    "transposed weights and a bias": (
        with_constants("""g (int64[2, 3] ids, float[2, 8] x) => (float[2, 64] y) {
            y = Gemm <transB = 1, alpha = 0.5> (x, w, c) }""",
            w=drawn((64, 8)), c=drawn((64,), 3)), 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_large_constants_lie_in_pieces_on_every_target(name: str, tmp_path: Path) -> None:
    model, pieces = CASES[name]
    given: dict[str, NDArray[Any]] = {"ids": IDS}
    for port in model.graph.input[1:]:
        given[port.name] = drawn(tuple(d.dim_value for d in port.type.tensor_type.shape.dim), 5)
    graph = assert_as_reference(tmp_path, model, given)
    lowered = fused(graph)
    sizes = [entries.nbytes for entries in lowered.constants.values()]
    assert len([size for size in sizes if size > MOST_OF_OTHERS]) == pieces
    assert max(sizes) <= PIECE_BYTES
    ops = [node.op for node in lowered.nodes if isinstance(node.op, Workload)]
    assert max(len(op.tensors) for op in ops) <= 8, "buffers of a kernel on WebGPU"
    right = evaluate(lowered, given)["y"]
    for target in TARGETS:
        made = outputs_on(target, graph, given, tmp_path)["y"]
        np.testing.assert_allclose(made, right, rtol=1e-5, atol=1e-5, err_msg=str(target))


def test_a_head_reads_the_pieces_of_the_table_that_it_shares(tmp_path: Path) -> None:
    table = drawn((70_000, 8))  # Pieces of 1 MiB and more are looked at for tied weights.
    text = """g (int64[2, 3] ids) => (float[2, 3, 70000] y) {
        h = Gather (table, ids) y = MatMul (h, w) }"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PIECE_BYTES", 5 << 18)
        patch.setattr(tables, "MAX_MEASURED_BYTES", 1 << 21)
        patch.setattr(workload, "MAX_TENSOR_BYTES", 1 << 21)
        model = with_constants(text, table=table, w=np.ascontiguousarray(table.T))
        graph = fused(import_model(written(tmp_path, model), {}))
    assert [entries.shape for entries in graph.constants.values()] == [(35_000, 8)] * 2
    right = table[IDS] @ table.T
    np.testing.assert_allclose(evaluate(graph, {"ids": IDS})["y"], right, rtol=1e-5, atol=1e-5)


def test_what_cannot_lie_in_pieces_is_refused_with_its_node(tmp_path: Path) -> None:
    text = "g (float[4, 65] x) => (float[4, 65] y) { [big] y = Exp (x) }"
    with pytest.raises(InvalidInput, match=r"'big'.* has 1040 bytes; .*smaller dimensions"):
        fused(import_model(written(tmp_path, parsed(text)), {}))


def test_a_real_table_of_a_quarter_million_words_is_planned(tmp_path: Path) -> None:
    """It is that of multilingual-e5-small, 384 MB."""
    table = np.random.default_rng(0).standard_normal((250_037, 384), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 384])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file = tmp_path / "model.onnx"
    onnx.save_model(model, file, save_as_external_data=True, location="table.bin")
    del model, graph
    (plan,) = plan_model(file, [{}], "words").plans
    assert [weight.shape[1] for weight in plan.weights] == [384] * 4
    assert max(weight.bytes for weight in plan.weights) <= 1 << 27
    assert plan.memory.weights == table.nbytes + (-table.nbytes % 64)
    ids = np.array([[0, 62_510, 250_036, -1]], np.int64)
    made = evaluate(fused(import_model(file, {})), {"ids": ids})["y"]
    np.testing.assert_array_equal(made, table[ids])
