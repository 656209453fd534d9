"""Products of f32 become products of bytes, but for those that lose most."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

from cli.models.importing import (
    MetricChoice,
    QuantizeChoice,
    WantedWeights,
    WeightsChoice,
    imported,
)
from fixtures.encoder import Encoder
from fixtures.network_writer import NetworkWriter
from fixtures.quantised_networks import (
    by_onnxruntime,
    convolutional,
    dynamic,
    feeds_of,
)
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.calibration import calibration_feeds
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.golden import GoldenFile, golden_file
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import fixed_network, graph_of, import_model
from services.tuner.graph.network import Network
from services.tuner.graph.quantising import (
    Bound,
    Metric,
    QuantisedModel,
    codes_of,
    quantised_model,
)
from services.tuner.graph.reading import read_model
from services.tuner.graph.storing import output_error
from tests.unit.graph.models import parsed, written

ENCODER = Encoder()
LOOSE, TIGHT = 0.1, 0.012


@cache
def network(make: Callable[[], ModelProto] = ENCODER.model) -> tuple[Network, Graph, GoldenFile]:
    with TemporaryDirectory() as folder:
        made = fixed_network(read_model(written(Path(folder), make())), {})
        graph = graph_of(made)
        return made, graph, golden_file(graph)


def made(max_error: float, make: Callable[[], ModelProto] = ENCODER.model) -> QuantisedModel:
    read, graph, golden = network(make)
    return quantised_model([read], [graph], [golden], Bound(max_error=max_error))


def operators(graph: Graph) -> list[str]:
    found = (node.op for node in fused(graph).nodes if isinstance(node.op, Workload))
    return [each.operator.name for each in found if each.operator.name.startswith("matmul")]


def test_all_products_multiply_bytes_where_the_error_allows() -> None:
    found = made(LOOSE)
    assert (len(found.quantised), dict(found.left)) == (12, {})
    assert set(operators(found.graphs[0])) == {"matmul_u8i8"}
    assert found.golden[0].golden.storage_error == found.error <= LOOSE


def test_what_several_products_read_is_quantised_once() -> None:
    found = fused(made(LOOSE).graphs[0])
    names = [node.op.operator.name for node in found.nodes if isinstance(node.op, Workload)]
    assert names.count("quantise") == names.count("quantise_range") == 8


def test_products_that_lose_most_stay_f32_until_the_error_holds() -> None:
    found, all_ = made(TIGHT), made(LOOSE)
    assert all_.error > TIGHT >= found.error
    assert 0 < len(found.left) < 12
    assert "matmul" in operators(found.graphs[0])
    assert not found.quantised & set(found.left)
    _, _, golden = network()
    error = output_error(evaluate(found.graphs[0], golden.feeds), golden.outputs)
    assert error == pytest.approx(found.error)


def test_it_errs_about_as_much_as_onnxruntimes_quantiser(tmp_path: Path) -> None:
    model = ENCODER.model()
    feeds = feeds_of(model)
    right = evaluate(import_model(written(tmp_path, model), {}), feeds)
    theirs = evaluate(import_model(dynamic(model, tmp_path, per_channel=True), {}), feeds)
    ours = evaluate(made(LOOSE).graphs[0], feeds)
    assert output_error(ours, right) <= 1.5 * output_error(theirs, right)


def transposed_product() -> ModelProto:
    made = NetworkWriter(1)
    weights, bias = made.drawn(12, 16, scale=0.25), made.drawn(12, scale=0.1)
    y = made.node("Gemm", "x", weights, bias, transB=1)
    return made.model({"x": (TensorProto.FLOAT, (3, 16))}, (y, None))


def test_a_gemm_with_transposed_weights_and_a_bias_multiplies_bytes() -> None:
    found = made(LOOSE, transposed_product)
    assert operators(found.graphs[0]) == ["matmul_u8i8"]


def test_each_column_has_the_scale_of_its_largest_entry() -> None:
    weights = np.array([[1, 0, -3], [-2, 0, 1]], np.float32)
    codes, scales = codes_of(weights)
    assert codes.tolist() == [[64, 0, -127], [-127, 0, 42]]
    np.testing.assert_allclose(scales, [2 / 127, 1, 3 / 127], rtol=1e-6)


def test_a_model_that_cannot_be_quantised_is_refused() -> None:
    with pytest.raises(InvalidInput, match="golden outputs differ by more than 1e-09"):
        made(1e-9)
    with pytest.raises(InvalidInput, match="nothing with constant weights that could be"):
        made(LOOSE, lambda: parsed("g (float[2, 3] x) => (float[2, 3] y) { y = Tanh (x) }"))


def test_the_command_says_what_multiplies_bytes_and_what_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, ENCODER.model())
    wanted = WantedWeights(max_error=TIGHT, quantize=QuantizeChoice.INT8)
    found = imported(path, "small", ({},), tmp_path / "weights", lambda _: None, wanted)
    assert "of 12 products multiply bytes; golden outputs differ by 0.01" in found.remarks[0]
    assert found.remarks[1].startswith("left in f32, with the share that each would lose: MatMul")
    assert found.int8 is not None
    kinds = [{weight.dtype for weight in part.plans[0].weights} for part in (found, found.int8)]
    assert [DType.I8 in each for each in kinds] == [False, True]
    alone = replace(wanted, keeps_f32=False)
    only = imported(path, "small", ({},), tmp_path / "alone", lambda _: None, alone)
    assert (only.plans, only.int8) == (found.int8.plans, None)


def test_a_file_that_multiplies_bytes_itself_has_plans_of_int8_alone(tmp_path: Path) -> None:
    path = written(tmp_path, partly_quantised())
    wanted = WantedWeights(max_error=LOOSE, quantize=QuantizeChoice.INT8)
    found = imported(path, "net", ({},), tmp_path / "weights", lambda _: None, wanted)
    assert [
        key.partition(":")[0] for key in found.plans[0].kernels if key.startswith("matmul")
    ] == [
        "matmul_u8i8",
        "matmul_u8i7",
    ]
    assert found.int8 is None
    assert found.weights_by_precision == {Precision.INT8: tmp_path / "weights"}
    assert "multiplies bytes itself" in found.remarks[-1]


def partly_quantised() -> ModelProto:
    model = parsed(
        "g (float[16, 64] x) => (float[16, 64] y) <float step = {0.002}> {"
        " h = MatMul (x, w)\n bytes, scale, zero = DynamicQuantizeLinear (h)"
        " sums = MatMulInteger (bytes, q, zero)\n real = Cast <to = 1> (sums)"
        " by = Mul (scale, step)\n y = Mul (real, by) }",
        17,
    )
    draw = np.random.default_rng(7)
    weights = draw.standard_normal((64, 64), np.float32) / np.float32(8)
    codes = draw.integers(-60, 60, (64, 64)).astype(np.int8)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    model.graph.initializer.append(numpy_helper.from_array(codes, "q"))
    return model


@pytest.mark.parametrize("keeps_f32", [True, False])
def test_what_no_kernel_multiplies_as_bytes_is_not_quantised(
    keeps_f32: bool, tmp_path: Path
) -> None:
    """A convolution of one entry is computed in f32, whatever its numbers were rounded to."""
    model = parsed("g (float[1, 16, 1, 1] x) => (float[1, 16, 1, 1] y) { y = Conv (x, w) }", 17)
    weights = np.random.default_rng(7).standard_normal((16, 16, 1, 1), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    wanted = WantedWeights(max_error=LOOSE, quantize=QuantizeChoice.INT8, keeps_f32=keeps_f32)
    path = written(tmp_path, model)
    with pytest.raises(InvalidInput, match=r"no kernel multiplies bytes .*; leave --quantize out"):
        imported(path, "net", ({},), tmp_path / "weights", lambda _: None, wanted)


def test_inputs_and_a_cosine_may_decide_what_stays_f32() -> None:
    read, graph, golden = network()
    feeds = feeds_of(ENCODER.model())
    bound = Bound(max_error=1e-4, metric=Metric.COSINE, feeds=[[feeds]])
    found = quantised_model([read], [graph], [golden], bound)
    (right,), (outputs,) = (evaluate(each, feeds).values() for each in (graph, found.graphs[0]))
    x, y = (each.ravel().astype(np.float64) for each in (right, outputs))
    lacks = 1 - x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert found.apart == pytest.approx(lacks, rel=1e-6)
    assert found.apart <= 1e-4
    assert found.error != found.apart


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({}, "lacks mask, tokens; write it by numpy.savez"),
        ({"tokens": 1, "mask": 1, "more": 1}, "has more, no input"),
        ({"tokens": np.zeros((1, 9), int), "mask": 1}, r"shape \[1, 9\], but the model takes"),
        ({"tokens": np.zeros((1, 16)), "mask": 1}, "is of float64; the model takes integers"),
        (
            {"tokens": np.full((1, 16), 50), "mask": np.ones((1, 16), int)},
            r"has 50, but the model has rows for -50 to 49 alone; make the tokens",
        ),
    ],
)
def test_calibration_inputs_that_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    with pytest.raises(InvalidInput, match=sentence):
        calibration_feeds(path, network()[1])


def test_a_file_that_is_no_npz_is_refused(tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 50, (1, 16))
    one, packed, text = (tmp_path / name for name in ("one.npy", "packed.npz", "text.npz"))
    np.save(one, tokens)
    np.savez_compressed(packed, tokens=tokens, mask=tokens)
    torn = bytearray(packed.read_bytes())
    torn[120:160] = bytes(40)
    packed.write_bytes(torn)
    text.write_bytes(b"no arrays")
    for path in (one, packed, text):
        with pytest.raises(InvalidInput, match="cannot be read as arrays of NumPy"):
            calibration_feeds(path, network()[1])


def test_calibration_inputs_that_f32_does_not_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, image=np.full((1, 3, 12, 12), 1e300))
    with pytest.raises(InvalidInput, match="has infinities in f32"):
        calibration_feeds(path, network(convolutional)[1])


def test_the_command_says_by_which_inputs_it_decided(tmp_path: Path) -> None:
    path, inputs = written(tmp_path, convolutional()), tmp_path / "inputs.npz"
    feeds: dict[str, Any] = feeds_of(convolutional())
    np.savez(inputs, **feeds)
    wanted = WantedWeights(
        max_error=0.05,
        quantize=QuantizeChoice.INT8,
        metric=MetricChoice.COSINE,
        calibrate=inputs,
    )
    found = imported(path, "small", ({},), tmp_path / "weights", lambda _: None, wanted)
    assert found.remarks[0].startswith("1 of 1 products and 2 of 2 convolutions multiply bytes;")
    assert "by cosine, with inputs.npz, outputs are" in found.remarks[0]
    unknown = replace(wanted, metric=MetricChoice.LARGEST, calibrate=None)
    ranged = imported(path, "small", ({},), tmp_path / "weights", lambda _: None, unknown)
    assert "--calibrate with inputs that the model is for" in ranged.remarks[1]


def test_weights_in_fewer_bits_are_not_asked_for_twice(tmp_path: Path) -> None:
    path = written(tmp_path, ENCODER.model())
    wanted = WantedWeights(choice=WeightsChoice.INT8, quantize=QuantizeChoice.INT8)
    with pytest.raises(InvalidInput, match="leave --weights int8 out"):
        imported(path, "small", ({},), tmp_path / "weights", lambda _: None, wanted)


READS = """g (float[2, 4] x) => (float[2, 4] y) {
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, s, z)
}"""


@pytest.mark.parametrize("scale", [0.0, np.nan, np.inf, -np.inf])
def test_a_scale_that_is_no_number_or_0_is_refused(scale: float, tmp_path: Path) -> None:
    path = with_parameters(tmp_path, np.array(scale, np.float32), np.array(3, np.uint8))
    with pytest.raises(InvalidInput, match=r"has the scale .* in 's'; a scale is a finite number"):
        import_model(path, {})


@pytest.mark.parametrize("wrong", ["s", "t"])
def test_a_scale_of_0_of_what_is_put_together_is_refused(wrong: str, tmp_path: Path) -> None:
    model = parsed("""g (uint8[2, 4] x) => (uint8[2, 8] y) {
        y = com.microsoft.QLinearConcat <axis: int = 1> (u, z, x, s, z, x, t, z)
    }""")
    scales = {name: np.array(float(name != wrong), np.float32) for name in "stu"}
    given: dict[str, NDArray[np.generic]] = {**scales, "z": np.array(3, np.uint8)}
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    with pytest.raises(InvalidInput, match=rf"has the scale 0\.0 in '{wrong}'"):
        import_model(written(tmp_path, model), {})


def test_a_scale_of_a_constant_that_is_folded_is_looked_at_too(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 4] x) => (float[2, 4] y) {
        w = DequantizeLinear (c, s)
        y = MatMul (x, w)
    }""")
    scales = np.array([1, 0, 1, 1], np.float32)
    given: dict[str, NDArray[np.generic]] = {"c": np.ones((4, 4), np.int8), "s": scales}
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    with pytest.raises(InvalidInput, match=r"has the scale 0\.0 in 's'"):
        import_model(written(tmp_path, model), {})


@pytest.mark.parametrize(
    ("operator", "results"),
    [
        ("com.microsoft.MatMulIntegerToFloat (x, w, s, t)", "float"),
        ("com.microsoft.QGemm (x, s, z, w, t, v)", "float"),
        ("com.microsoft.QGemm (x, s, z, w, t, v, , u, z)", "uint8"),
        ("QLinearMatMul (x, s, z, w, t, v, u, z)", "uint8"),
        ("com.microsoft.QLinearMul (x, s, z, x, t, z, u, z)", "uint8"),
    ],
)
@pytest.mark.parametrize("scale", [1e20, 1e-2])
def test_scales_whose_product_is_beyond_f32_are_refused(
    operator: str, results: str, scale: float, tmp_path: Path
) -> None:
    """Each is a number, and a sum of 0 times both is none: onnxruntime answers NaN, or 0 in bytes,
    whatever the zero point."""
    model = parsed(f"""g (uint8[4, 4] x) => ({results}[4, 4] y) {{
        y = {operator}
    }}""")
    given: dict[str, NDArray[np.generic]] = {
        "w": np.zeros((4, 4), np.int8),
        "s": np.array(1e30, np.float32),
        "t": np.array(scale, np.float32),
        "u": np.ones((), np.float32),
        "z": np.array(3, np.uint8),
        "v": np.zeros((), np.int8),
    }
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    path = written(tmp_path, model)
    feeds = {"x": np.full((4, 4), 3, np.uint8)}
    right = by_onnxruntime(path, feeds)
    if scale > 1:
        assert np.isnan(right).all() if results == "float" else not right.any()
        with pytest.raises(
            UnsupportedModel, match="its scales together are beyond the range of f32"
        ):
            import_model(path, {})
    else:
        np.testing.assert_array_equal(evaluate(import_model(path, {}), feeds)["y"], right)


def test_a_zero_point_that_may_exceed_its_type_is_refused(tmp_path: Path) -> None:
    model = parsed("""g (uint8[2, 4] x) => (int32[2, 3] y) {
        y = MatMulInteger (x, w, z)
    }""")
    given: dict[str, NDArray[np.generic]] = {
        "w": np.ones((4, 3), np.int8), "z": np.array(300, np.int32),
    }  # fmt: skip
    for name, value in given.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    with pytest.raises(InvalidInput, match="a zero point 'z' of int32 for 'x' of uint8"):
        import_model(written(tmp_path, model), {})


def with_parameters(folder: Path, scale: NDArray[np.generic], zero: NDArray[np.generic]) -> Path:
    model = parsed(READS)
    for name, value in {"s": scale, "z": zero}.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return written(folder, model)
