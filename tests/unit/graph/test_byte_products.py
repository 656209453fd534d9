"""Networks that onnxruntime's quantiser made multiply bytes, and compute what onnxruntime does."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from onnxruntime.quantization import QuantFormat, QuantType

from fixtures.encoder import Encoder
from fixtures.quantised_networks import (
    Feeds,
    by_onnxruntime,
    convolutional,
    dynamic,
    static,
)
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Need
from kernelzoo.domain.workload import MAX_REDUCTION, Workload
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import ALL_RULES, fused
from services.tuner.graph.golden import (
    MOST_TOLERANCE,
    TOLERANCE,
    golden_file,
    quantises,
    rounded,
)
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import plan_f16, plan_graphs
from services.tuner.graph.multiples import multiples_of
from services.tuner.graph.storing import output_error
from tests.unit.graph.models import assert_as_reference, parsed, written
from tests.unit.graph.quantised_files import RELATIVE, Form, Imported, imported, output
from tests.unit.graph.running import Runner, golden_arrays

Quantise = Callable[..., Path]

ENCODER = Encoder().model
FORMS: dict[str, Form] = {
    "dynamic": (dynamic, ENCODER, {}),
    "dynamic, by channel": (dynamic, ENCODER, {"per_channel": True}),
    "dynamic, 7 bits": (dynamic, ENCODER, {"reduce_range": True}),
    "dynamic, 7 bits by channel": (dynamic, ENCODER, {"reduce_range": True, "per_channel": True}),
    "dynamic, unsigned weights": (dynamic, ENCODER, {"weight_type": QuantType.QUInt8}),
    "static": (static, ENCODER, {"quant_format": QuantFormat.QDQ}),
    "static, by channel": (static, ENCODER, {"per_channel": True}),
    "static, unsigned": (
        static, ENCODER, {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8},
    ),
    "static, operators": (static, ENCODER, {"quant_format": QuantFormat.QOperator}),
    "dynamic images": (dynamic, convolutional, {}),
    "static images": (static, convolutional, {}),
    "static images, operators": (static, convolutional, {"quant_format": QuantFormat.QOperator}),
}  # fmt: skip


@cache
def quantised(form: str) -> Imported:
    return imported(FORMS[form])


@cache
def ruled(form: str) -> Graph:
    return fused(quantised(form)[0])


def products(graph: Graph, name: str = "matmul_u8i") -> list[Workload]:
    found = (node.op for node in graph.nodes if isinstance(node.op, Workload))
    return [each for each in found if each.operator.name.startswith(name)]


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    x, y = (each.astype(np.float64).ravel() for each in (a, b))
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@pytest.mark.parametrize("form", FORMS)
def test_a_quantised_network_computes_what_onnxruntime_does(form: str) -> None:
    graph, feeds, wanted = quantised(form)
    for made in (graph, ruled(form)):
        assert cosine(output(made, feeds, wanted), wanted) > 1 - 1e-9


@pytest.mark.parametrize("form", [form for form in FORMS if "images" not in form])
def test_every_product_with_constant_weights_is_one_of_bytes(form: str) -> None:
    graph = ruled(form)
    assert sum(each.extent["n"] for each in products(graph)) == 2 * (5 * 32 + 64)
    assert not any(each.operator.name == "matmul" for each in products(graph, "matmul"))
    if "channel" not in form:  # Of some channels both -64 and 64 are taken.
        names = {each.operator.name.removesuffix("z") for each in products(graph)}
        assert names == {"matmul_u8i7" if "7 bits" in form else "matmul_u8i8"}


@pytest.mark.parametrize("zero", [0, 119, 128, 255])
def test_weights_whose_zero_point_leaves_more_than_8_bits_keep_one(
    zero: int, tmp_path: Path
) -> None:
    text = """g (uint8[3, 8] x) => (int32[3, 4] y) { y = MatMulInteger (x, w, a, b) }"""
    random = np.random.default_rng(7)
    weights = random.integers(0, 256, (8, 4)).astype(np.uint8)
    weights[:2] = [[0], [255]]
    points = {"a": np.array(9, np.uint8), "b": np.array(zero, np.uint8)}
    path = with_constants(text, tmp_path, w=weights, **points)
    feeds: Feeds = {"x": random.integers(0, 256, (3, 8)).astype(np.uint8)}
    graph = import_model(path, {})
    (product,) = products(fused(graph))
    assert product.operator.name == ("matmul_u8i8" if zero == 128 else "matmul_u8i8z")
    wanted = by_onnxruntime(path, feeds)
    assert np.array_equal(evaluate(fused(graph), feeds)["y"], wanted)
    held = {"x": feeds["x"].astype(np.int32)}
    assert np.array_equal(by_kernels(graph, held)["y"], wanted)


def test_scales_biases_and_functions_go_into_products() -> None:
    found = [each.epilogue for each in products(ruled("dynamic"))]
    assert found.count(("bias",)) == 2
    assert found.count(("bias", "residual")) == 4
    assert found.count(("bias", "gelu")) == 2


@pytest.mark.parametrize("form", ["dynamic", "dynamic, 7 bits", "static"])
def test_queries_keys_and_values_are_one_product_of_what_is_quantised_once(form: str) -> None:
    assert [each.extent["n"] for each in products(ruled(form))] == 2 * [96, 32, 64, 32]
    apart = fused(quantised(form)[0], replace(ALL_RULES, products=False))
    named = [node for node in apart.nodes if isinstance(node.op, Workload)]
    read = [node.inputs[0] for node in named if node.op in products(apart)]
    assert (len(read), len(set(read))) == (12, 8)


def test_weights_take_8_bits_in_the_file_and_in_memory() -> None:
    (plan,) = plan_graphs([quantised("dynamic")[0]], [{}], "small").plans
    assert plan.needs == (Need.I8,)
    matrices = [each for each in plan.weights if each.dtype is DType.I8]
    assert sum(each.bytes for each in matrices) == 2 * (4 * 32 * 32 + 2 * 32 * 64)
    assert all(each.bytes == np.prod(each.shape) for each in matrices)


@pytest.mark.parametrize(
    "form", ["dynamic", "dynamic, 7 bits", "dynamic, unsigned weights", "static"]
)
def test_kernels_give_the_golden_outputs(form: str) -> None:
    made = plan_graphs([quantised(form)[0]], [{}], "small")
    (plan,), (golden,) = made.plans, made.golden
    workloads = {workload.key: workload for workload in made.workloads}
    runner = Runner(plan, workloads, b"".join(made.weights.blocks()))
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    wanted = golden_arrays(plan.golden.outputs, plan.outputs, golden)
    for name, found in runner.run(feeds).items():
        apart = np.abs(found - wanted[name]).max()
        assert apart <= plan.golden.tolerance * np.abs(wanted[name]).max()


@pytest.mark.parametrize("form", ["dynamic", "static", "static, operators"])
def test_with_values_of_f16_what_quantises_computes_on_f32(form: str) -> None:
    """Some of its bytes are the next ones, as what they are made of is rounded to f16."""
    made = plan_f16([quantised(form)[0]], [{}], "small", 0.05)
    bytes_ = [each for each in made.workloads if each.operator.name.startswith("matmul_u8i8")]
    assert {each.dtype for each in bytes_} == {DType.F32}
    error = made.plans[0].golden.storage_error
    assert error is not None
    assert 0 < error <= 0.05


DYNAMIC = """g (float[4, 8] x) => (uint8[4, 8] y, float s, uint8 z)
    { y, s, z = DynamicQuantizeLinear (x) }"""


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0.5, 2), (-3, -1), (0, 0)])
def test_ranges_are_those_of_onnxruntime_and_have_0_in_them(
    low: float, high: float, tmp_path: Path
) -> None:
    path = written(tmp_path, parsed(DYNAMIC))
    feeds = {"x": np.random.default_rng(3).uniform(low, high, (4, 8)).astype(np.float32)}
    made = evaluate(import_model(path, {}), feeds)
    for name, wanted in zip(
        "ysz", onnxruntime.InferenceSession(path).run(None, feeds), strict=True
    ):
        assert np.array_equal(made[name], wanted), name


LARGE = """g (float[3000, 1500] x) => (uint8[3000, 1500] y, float s, uint8 z)
    { y, s, z = DynamicQuantizeLinear (x) }"""


def test_the_range_of_more_entries_than_a_sum_may_have_is_found_by_rows(tmp_path: Path) -> None:
    path = written(tmp_path, parsed(LARGE))
    feeds = {"x": np.random.default_rng(3).uniform(-1, 2, (3000, 1500)).astype(np.float32)}
    assert feeds["x"].size > MAX_REDUCTION
    made = evaluate(fused(import_model(path, {})), feeds)
    for name, wanted in zip(
        "ysz", onnxruntime.InferenceSession(path).run(None, feeds), strict=True
    ):
        assert np.array_equal(made[name], wanted), name


ATTENTION = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (float[1, 6, 32] x) => (float[1, 6, 16] y) {
    q, s, z = DynamicQuantizeLinear (x)
    y = com.microsoft.QAttention <num_heads = 2> (q, w, b, s, t, , z)
}"""


def test_attention_of_bytes_multiplies_bytes_too(tmp_path: Path) -> None:
    """The optimiser of onnxruntime writes attention so, which `quantize_dynamic` quantises."""
    random = np.random.default_rng(9)
    model = parser.parse_model(ATTENTION)
    given: dict[str, NDArray[Any]] = {
        "w": random.integers(-127, 128, (32, 48)).astype(np.int8),
        "b": random.standard_normal(48).astype(np.float32),
        "t": np.array(0.004, np.float32),
    }
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    path = written(tmp_path, model)
    feeds = {"x": random.standard_normal((1, 6, 32)).astype(np.float32)}
    graph = fused(import_model(path, {}))
    assert sum(each.extent["n"] for each in products(graph)) == 48
    wanted = by_onnxruntime(path, feeds)
    found = evaluate(graph, feeds)["y"]
    assert np.abs(found - wanted).max() <= RELATIVE * np.abs(wanted).max()


def test_a_sum_of_integers_along_one_axis_is_no_product(tmp_path: Path) -> None:
    text = "sums (int64[1, 7] x) => (y) { k = Constant<value_ints=[1]>() y = ReduceSum(x, k) }"
    feeds = {"x": np.arange(7)[None]}
    assert_as_reference(tmp_path, parsed(text), feeds)


ROUNDED = """g (float[3, 8] x) => (int32[3, 4] y) {
    a = Div (x, s)
    b = Round (a)
    c = Add (b, z)
    d = Clip (c, low, high)
    q = Cast <to = 6> (d)
    y = MatMul (q, w)
}"""
WHOLE = {"low": 0.0, "high": 255.0, "z": 3.0}


@pytest.mark.parametrize(
    "changed",
    [
        {}, {"z": 3.5}, {"low": 3.0}, {"low": 100.0, "high": -100.0}, {"low": -np.inf},
        {"high": np.inf},
        {"low": -127.5, "high": 127.5, "z": 0.0}, {"low": -128.5, "high": 126.5, "z": 0.0},
        {"low": -128.0, "high": 127.0}, {"low": -120.0, "high": -5.0},
    ],
)  # fmt: skip
def test_numbers_that_a_file_rounds_itself_become_the_same_bytes(
    changed: dict[str, float], tmp_path: Path
) -> None:
    """Zero points that are real numbers, and bounds that are no bytes' or in the wrong order."""
    random = np.random.default_rng(4)
    given = {name: np.array(value, np.float32) for name, value in (WHOLE | changed).items()}
    weights = random.integers(-128, 128, (8, 4)).astype(np.int32)
    path = with_constants(ROUNDED, tmp_path, w=weights, s=np.array(0.07, np.float32), **given)
    feeds = {"x": random.uniform(-12, 12, (3, 8)).astype(np.float32)}
    wanted = by_onnxruntime(path, feeds)
    graph = import_model(path, {})
    assert np.array_equal(evaluate(fused(graph), feeds)["y"], wanted)
    assert np.array_equal(by_kernels(graph, feeds)["y"], wanted)


@pytest.mark.parametrize("zero", [np.uint8(7), np.int8(7), np.int8(-128)])
@pytest.mark.parametrize("given", [False, True])
def test_what_is_no_number_becomes_the_least_byte(
    zero: np.uint8 | np.int8, given: bool, tmp_path: Path
) -> None:
    kind = "uint8" if zero.dtype == np.uint8 else "int8"
    inputs = f"float[3, 64] x, {kind} z" if given else "float[3, 64] x"
    text = f"""g ({inputs}) => (float[3, 4] y, {kind}[3, 64] q) {{
        q = QuantizeLinear (x, s, z)
        a = DequantizeLinear (q, s, z)
        y = MatMul (a, w)
    }}"""
    random = np.random.default_rng(8)
    codes = random.integers(-127, 128, (64, 4))
    codes[:2] = [[1], [127]]
    point = {"z": np.array(zero)}
    constants = {"w": (codes * 0.01).astype(np.float32), "s": np.array(0.1, np.float32)}
    path = with_constants(text, tmp_path, **constants, **({} if given else point))
    x = random.uniform(-12, 12, (3, 64)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    feeds: Feeds = {"x": x, **(point if given else {})}
    graph = import_model(path, {})
    assert products(fused(graph)) or given
    wanted = by_onnxruntime(path, feeds)
    for made in (graph, fused(graph)):
        found = evaluate(made, feeds)
        assert found["q"][0, :3].tolist() == [*np.array([0, 255, 0]) + np.iinfo(zero.dtype).min]
        assert np.abs(found["y"] - wanted).max() <= RELATIVE * np.abs(wanted).max()


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sum_of_products_with_constants_along_lines_is_no_matrix_product(
    keepdims: int, tmp_path: Path
) -> None:
    text = f"""g (int32[3, 8] x) => (int32[n, m] y) {{
        a = Mul (x, w)
        y = ReduceSum <keepdims = {keepdims}> (a, axes)
    }}""".replace("[n, m]", "[3, 1]" if keepdims else "[3]")
    weights = np.arange(-12, 12, dtype=np.int32).reshape(3, 8)
    path = with_constants(text, tmp_path, w=weights, axes=np.array([1]))
    feeds = {"x": np.arange(24, dtype=np.int32).reshape(3, 8)}
    found = evaluate(fused(import_model(path, {})), feeds)["y"]
    assert np.array_equal(found, by_onnxruntime(path, feeds))


@pytest.mark.parametrize(("zero", "is_of_bytes"), [(255, True), (40_000_000, False)])
def test_sums_that_may_leave_32_bits_stay_real_numbers(
    zero: int, is_of_bytes: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(6)
    text = """g (uint8[3, 8] x) => (float[3, 4] y) {
        q = Cast <to = 6> (x)
        m = Sub (q, z)
        f = Cast <to = 1> (m)
        a = Mul (f, s)
        y = MatMul (a, w)
    }"""
    codes = random.integers(-127, 128, (8, 4))
    codes[:2] = [[1], [127]]
    weights = (codes * 0.01).astype(np.float32)
    scale = np.array(0.1, np.float32)
    path = with_constants(text, tmp_path, w=weights, s=scale, z=np.array(zero, np.int32))
    feeds = {"x": random.integers(0, 256, (3, 8)).astype(np.uint8)}
    graph = fused(import_model(path, {}))
    assert bool(products(graph)) == is_of_bytes
    wanted = by_onnxruntime(path, feeds)
    assert np.abs(evaluate(graph, feeds)["y"] - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_scales_whose_product_is_too_small_for_f32_are_multiplied_one_by_one(
    tmp_path: Path,
) -> None:
    text = """g (uint8[3, 8] x) => (float[3, 4] y) {
        p = MatMulInteger (x, w)
        f = Cast <to = 1> (p)
        a = Mul (f, s)
        b = Mul (a, t)
        y = Mul (b, u)
    }"""
    sizes = {"s": 1e-30, "t": 1e-12, "u": 1e30}
    given = {name: np.full(4, size, np.float32) for name, size in sizes.items()}
    path = with_constants(text, tmp_path, w=np.full((8, 4), 127, np.int8), **given)
    feeds = {"x": np.full((3, 8), 255, np.uint8)}
    graph = fused(import_model(path, {}))
    assert products(graph)
    np.testing.assert_allclose(evaluate(graph, feeds)["y"], by_onnxruntime(path, feeds), rtol=1e-5)


def with_constants(text: str, folder: Path, **given: NDArray[Any]) -> Path:
    model = parsed(text)
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return written(folder, model)


def by_kernels(graph: Graph, feeds: Feeds) -> dict[str, NDArray[Any]]:
    made = plan_graphs([graph], [{}], "small")
    (plan,) = made.plans
    workloads = {workload.key: workload for workload in made.workloads}
    return Runner(plan, workloads, b"".join(made.weights.blocks())).run(feeds)


def test_multiples_of_scales_are_told_by_their_values() -> None:
    random = np.random.default_rng(0)
    codes = random.integers(-127, 128, (40, 6)).astype(np.int8)
    scales = random.uniform(1e-4, 10, 6).astype(np.float32)
    found = multiples_of(codes * scales)
    assert found is not None
    np.testing.assert_allclose(found.codes * found.scales, codes * scales, rtol=1e-6)


def test_a_column_of_zeros_is_a_multiple_of_anything() -> None:
    found = multiples_of(np.zeros((8, 2), np.float32))
    assert found is not None
    assert not found.codes.any()


def test_weights_near_multiples_keep_their_values() -> None:
    """The larger entry is off by less than two thousandths of the smaller."""
    assert multiples_of(np.array([[1.0], [2.0015]], np.float32)) is None
    assert multiples_of(np.array([[1.0], [2.0]], np.float32)) is not None


@pytest.mark.parametrize("scale", [1.0, 1e-20])
def test_other_weights_are_no_multiples(scale: float) -> None:
    drawn = np.random.default_rng(1).standard_normal((64, 4)) * scale
    assert multiples_of(drawn.astype(np.float32)) is None


def test_tolerances_follow_from_how_far_steps_move_outputs() -> None:
    """Some byte of its many products becomes its neighbour by rounding alone."""
    large = Encoder(tokens=64, hidden=128, inner=256, layers=4)
    with TemporaryDirectory() as folder:
        graph = import_model(dynamic(large.model(), Path(folder)), {})
    golden = golden_file(graph)
    assert 1e-4 < golden.golden.tolerance < MOST_TOLERANCE
    assert not golden.off
    for seed in (1, 2):
        moved = evaluate(graph, golden.feeds, seen=rounded(np.random.default_rng(seed)))
        assert output_error(moved, golden.outputs) <= golden.golden.tolerance


def test_a_network_that_quantises_nothing_keeps_its_tolerance(tmp_path: Path) -> None:
    graph = import_model(written(tmp_path, ENCODER()), {})
    assert not quantises(graph)
    assert golden_file(graph).golden.tolerance == TOLERANCE
    assert quantises(quantised("dynamic")[0])
