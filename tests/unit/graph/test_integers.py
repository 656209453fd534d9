"""Operators of integers at the edges of every size: imported, evaluated and run as wasm kernels.

What is right is told by ONNX's reference, but for what it refuses. Integers of 64 bits are compared
by their low half, which is what a page has of them.
"""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from kernelzoo.domain.plan import PortDType
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import integers_of_32
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

Array = NDArray[Any]

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
EVERY = (*SIGNED, *UNSIGNED)
WIDE = ("int32", "int64", "uint32", "uint64")
SIZES = np.array([0, 1, 2, 3, 7, 8, 60, 127, (1 << 24) + 1, 1_700_000_000, 3_000_000_000], np.int64)


@dataclass(frozen=True, slots=True)
class Case:
    """An operator of x and y, or of x alone; `made` is its output's type, x's where it is ''."""

    operator: str
    dtypes: tuple[str, ...] = EVERY
    inputs: str = "xy"
    made: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


CASES = (
    *(Case(operator) for operator in ("Add", "Sub", "Mul", "Div", "Mod")),
    *(Case(operator) for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    *(Case(operator) for operator in ("Max", "Min")),
    *(
        Case(operator, made="bool")
        for operator in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ),
    Case("Mod", attributes={"fmod": 1}),
    Case("Pow", ("int32", "int64"), inputs="xn"),
    Case("BitShift", UNSIGNED, inputs="xn", attributes={"direction": "LEFT"}),
    Case("BitShift", UNSIGNED, inputs="xn", attributes={"direction": "RIGHT"}),
    Case("PRelu", WIDE),
    *(Case(operator, inputs="x") for operator in ("Abs", "Sign", "BitwiseNot")),
    *(Case(operator, SIGNED, inputs="x") for operator in ("Neg", "Relu")),
    Case("Clip", inputs="xlh"),
    *(
        Case("Cast", inputs="x", made=made, attributes={"to": helper.np_dtype_to_tensor_dtype(
            np.dtype(made)
        )})
        for made in (*EVERY, "float32", "bool")
    ),
    *(
        Case(operator, WIDE, inputs="x")
        for operator in ("ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1")
    ),
    *(Case(f"Reduce{which}", (*WIDE, "int8", "uint8"), inputs="x") for which in ("Max", "Min")),
    *(Case(operator, inputs="x", made="int64") for operator in ("ArgMax", "ArgMin")),
    Case("CumSum", WIDE, inputs="xa"),
)  # fmt: skip


def specials(dtype: np.dtype[Any]) -> Array:
    """Integers at the edges of 32 bits: 0, ±1, least and most, and what f32 does not have."""
    info = np.iinfo(np.dtype(f"{dtype.kind}{min(dtype.itemsize, 4)}"))
    numbers = {*SIZES, *-SIZES, info.min, info.min + 1, info.max - 1, info.max}
    return np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype)


def given(dtype: np.dtype[Any]) -> dict[str, Array]:
    x, y = np.array(list(product(specials(dtype), specials(dtype))), dtype).T
    counts = np.resize(np.array([0, 1, 2, 5, 7, 8, 31, 32, 33, 64, 127], dtype), x.size)
    least, most = (5, 100) if dtype.kind == "u" else (-3, 100)
    if dtype == np.uint32:
        most = 3_000_000_000
    ends = {"l": np.array(least, dtype), "h": np.array(most, dtype), "a": np.array(0, np.int64)}
    return {"x": x.copy(), "y": y.copy(), "n": counts, **ends}


def model_of(dtype: str, cases: list[Case], feeds: dict[str, Array]) -> ModelProto:
    """All cases of a type, each an output."""
    nodes, outputs = [], []
    for number, case in enumerate(cases):
        name = f"{case.operator}{number}"
        nodes.append(helper.make_node(case.operator, list(case.inputs), [name], **case.attributes))
        made = np.dtype(case.made or dtype)
        outputs.append(
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(made), None)
        )
    told = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in feeds.items()
        if name not in "lha"
    ]
    constants = [
        helper.make_tensor(
            name, helper.np_dtype_to_tensor_dtype(feeds[name].dtype), (), [int(feeds[name])]
        )
        for name in "lha"
    ]
    graph = helper.make_graph(nodes, "integers", told, outputs, constants)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )  # fmt: skip


def low_half(values: Array) -> Array:
    """Returns values as memory has them."""
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    if values.dtype.itemsize == 8:
        values = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
        return values.astype(np.uint64).astype(np.uint32).view(np.int32)
    return integers_of_32(values)


@pytest.mark.parametrize("dtype", EVERY)
def test_operators_of_integers_are_exact_at_the_edges_of_their_size(
    dtype: str, tmp_path: Path
) -> None:
    cases = [case for case in CASES if dtype in case.dtypes]
    feeds = given(np.dtype(dtype))
    model = model_of(dtype, cases, feeds)
    shown = {name: value for name, value in feeds.items() if name not in "lha"}
    with np.errstate(all="ignore"):
        right = ReferenceEvaluator(model).run(None, shown)
    graph = import_model(written(tmp_path, model), {})
    found = {
        "as imported": evaluate(graph, shown),
        "fused": evaluate(fused(graph), shown),
        **{str(target): outputs_on(target, graph, shown, tmp_path) for target in TARGETS},
    }
    assert isinstance(right, list)
    for output, case, wanted in zip(model.graph.output, cases, right, strict=True):
        for way, made in found.items():
            differs = _differences(low_half(np.asarray(wanted)), made[output.name])
            assert not differs, (case, dtype, way, differs[:5])


def _differences(wanted: Array, made: Array) -> list[str]:
    made = np.asarray(made).reshape(wanted.shape)
    places = np.argwhere(made != wanted)
    return [f"{at}: {made[tuple(at)]} for {wanted[tuple(at)]}" for at in places]


def integers(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype)


INT_MIN = -(1 << 31)
SCATTERED = (
    "({type}[3] x, int64[2] i, {type}[2] u) => ({type}[3] y)"
    ' {{y = ScatterElements<reduction = "{reduction}">(x, i, u)}}'
)
VALUES: dict[str, tuple[str, dict[str, Array], list[float]]] = {
    "the quotient of large integers": (
        "(int64[3] x, int64[1] d) => (int64[3] y) {y = Div(x, d)}",
        {
            "x": integers(1_700_000_000, -7, INT_MIN, dtype="int64"),
            "d": integers(60, dtype="int64"),
        },
        [28_333_333, 0, -35_791_394],
    ),
    "a quotient by zero, and the one that is too large": (
        "(int32[3] x, int32[3] d) => (int32[3] y) {y = Div(x, d)}",
        {"x": integers(7, INT_MIN, 0), "d": integers(0, -1, 0)},
        [0, INT_MIN, 0],
    ),
    "a power beyond f32": (
        "(int64[4] x, int64[4] n) => (int64[4] y) {y = Pow(x, n)}",
        {"x": integers(7, -3, 0, 3, dtype="int64"), "n": integers(9, 3, 0, 30, dtype="int64")},
        [40_353_607, -27, 1, -1_010_140_999],
    ),
    "a negative power": (
        "(int32[6] x, int32[6] n) => (int32[6] y) {y = Pow(x, n)}",
        {"x": integers(7, 1, -1, -1, -2, 0), "n": integers(-1, -5, -3, -2, -31, -1)},
        [0, 1, -1, 1, 0, 0],
    ),
    "a real power of an integer": (
        "(int32[6] x, float[6] n) => (int32[6] y) {y = Pow(x, n)}",
        {
            "x": integers(9, 10, 8, 7, -3, 1000),
            "n": np.array([0.5, 0.5, 0.5, 9, 3, 1 / 3], np.float32),
        },
        [3, 3, 2, 40_353_607, -27, 10],
    ),
    "an integer power of a real number": (
        "(float[3] x, int32[3] n) => (float[3] y) {y = Pow(x, n)}",
        {"x": np.array([2.5, -2, 3], np.float32), "n": integers(3, 3, -2)},
        [15.625, -8, 1 / 9],
    ),
    "a large number without a sign as a real one": (
        "(uint32[4] x) => (float[4] y) {y = Cast<to = 1>(x)}",
        {"x": integers(3_000_000_000, 4_294_967_295, 2_147_483_777, 5, dtype="uint32")},
        [3e9, 4_294_967_296, 2_147_483_904, 5],
    ),
    "a large real number without a sign": (
        "(float[4] x) => (uint32[4] y) {y = Cast<to = 12>(x)}",
        {"x": np.array([3e9, 2.9, -1.5, 2_147_483_648], np.float32)},
        [3e9, 2, 4_294_967_295, 2_147_483_648],
    ),
    "the largest of numbers without a sign": (
        "(uint32[3] x) => (uint32[2] y, int64[2] i) <int64[1] k = {2}> {y, i = TopK(x, k)}",
        {"x": integers(5, 4_000_000_000, 7, dtype="uint32")},
        [4_000_000_000, 7],
    ),
    "the larger of updates without a sign": (
        SCATTERED.format(type="uint32", reduction="max"),
        {
            "x": integers(5, 4_000_000_000, 7, dtype="uint32"),
            "i": integers(1, 2, dtype="int64"),
            "u": integers(6, 3_000_000_000, dtype="uint32"),
        },
        [5, 4_000_000_000, 3_000_000_000],
    ),
    "updates of narrow numbers": (
        SCATTERED.format(type="int8", reduction="add"),
        {
            "x": integers(5, 127, 7, dtype="int8"),
            "i": integers(1, 1, dtype="int64"),
            "u": integers(1, 2, dtype="int8"),
        },
        [5, -126, 7],
    ),
    "a mean of integers": (
        "(int32[3, 4] x) => (int32[3] y) {y = ReduceMean<axes = [1], keepdims = 0>(x)}",
        {"x": np.array([[1, 2, 4, 4], [-1, -2, -4, -4], [INT_MIN // 2, 1, 1, 1]], np.int32)},
        [2, -2, -268_435_455],
    ),
    "a mean of numbers without a sign": (
        "(uint32[2] x) => (uint32 y) {y = ReduceMean<keepdims = 0>(x)}",
        {"x": integers(4_000_000_000, 7, dtype="uint32")},
        [2_000_000_003],
    ),
    "the root of a sum of squares": (
        "(int32[4, 2] x) => (int32[4] y) {y = ReduceL2<axes = [1], keepdims = 0>(x)}",
        {"x": np.array([[3, 4], [3, 5], [46_340, 0], [4095, 1]], np.int32)},
        [5, 5, 46_340, 4095],
    ),
    "the logarithm of a sum": (
        "(int32[5, 2] x) => (int32[5] y) {y = ReduceLogSum<axes = [1], keepdims = 0>(x)}",
        {"x": np.array([[1, 0], [3, 17], [485_165_195, 0], [485_165_195, 1], [0, 0]], np.int32)},
        [0, 2, 19, 20, INT_MIN],
    ),
    "the logarithm of a sum of powers": (
        "(int32[4, 3] x) => (int32[4] y) {y = ReduceLogSumExp<axes = [1], keepdims = 0>(x)}",
        {"x": np.array([[3, 4, 14], [5, 5, 5], [-3, -4, -14], [INT_MIN, 7, 7]], np.int32)},
        [14, 6, -2, 7],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_integers_is_right_on_every_target(name: str, tmp_path: Path) -> None:
    text, feeds, wanted = VALUES[name]
    graph = import_model(
        written(tmp_path, parsed(f"g {text}", opset=18 if "reduction" in text else 17)), {}
    )
    output = graph.outputs[0]
    for made in (
        evaluate(graph, feeds),
        *(outputs_on(target, graph, feeds, tmp_path) for target in TARGETS),
    ):
        found = made[output.name].reshape(-1)
        found = found.view(np.uint32) if output.dtype is PortDType.UINT32 else found
        np.testing.assert_allclose(found, wanted, rtol=2e-6 if found.dtype == np.float32 else 0)


@pytest.mark.parametrize("operator", ["Add", "Mul", "Div", "Pow", "BitwiseAnd"])
def test_what_is_computed_with_a_constant_of_more_than_32_bits_is_refused(
    operator: str, tmp_path: Path
) -> None:
    text = "g (int64[2] x) => (int64[2] y) <int64[1] c = {1099511627776}>"
    model = parsed(f"{text} {{y = {operator}(x, c)}}", opset=18)
    with pytest.raises(UnsupportedModel, match="computes with the constant 'c'"):
        import_model(written(tmp_path, model), {})


def test_a_constant_of_more_than_32_bits_may_be_a_bound(tmp_path: Path) -> None:
    text = (
        "g (int64[3] x) => (int64[3] y)"
        "<int64 least = {-9223372036854775808}, int64 most = {9223372036854775807}>"
        "{y = Clip(x, least, most)}"
    )
    graph = import_model(written(tmp_path, parsed(text)), {})
    x = integers(INT_MIN, 0, -INT_MIN - 1, dtype="int64")
    assert evaluate(graph, {"x": x})["y"].tolist() == x.tolist()


def test_ports_of_numbers_without_a_sign_are_called_so(tmp_path: Path) -> None:
    text = "g (uint32[2] x, uint64[2] z) => (uint32[2] y) {w = Cast<to = 12>(z) y = Add(x, w)}"
    graph = import_model(written(tmp_path, parsed(text)), {})
    ports = (*graph.inputs, *graph.outputs)
    assert [port.dtype for port in ports] == [PortDType.UINT32] * 3


def test_a_product_of_integers_is_scaled_by_whole_numbers_alone(tmp_path: Path) -> None:
    text = "g (int32[2, 2] a, int32[2, 2] b) => (int32[2, 2] y) {y = Gemm<alpha = %s>(a, b)}"
    x = np.array([[1, 2], [3, 1 << 30]], np.int32)
    graph = import_model(written(tmp_path, parsed(text % "3.0")), {})
    assert evaluate(graph, {"a": x, "b": x})["y"].tolist() == (x @ x * np.int32(3)).tolist()
    with pytest.raises(UnsupportedModel, match="scales integers by a fraction"):
        import_model(written(tmp_path, parsed(text % "0.5")), {})
