"""Operators of com.microsoft, recurrent layers and what else ONNX has few tests of, held to what
onnxruntime 1.32 computed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import parser

from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from tests.unit.graph.targets import TARGETS, outputs_on

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded"
ARRAYS: dict[str, NDArray[Any]] = {
    f"{path.stem.removeprefix('onnxruntime_')}/{name}": array
    for path in sorted(RECORDED.glob("onnxruntime_*.npz"))
    for name, array in np.load(path).items()
}
CASES = sorted({key.rpartition("/")[0] for key in ARRAYS})


def recorded(case: str, kind: str) -> dict[str, NDArray[Any]]:
    start = f"{case}/{kind}."
    return {key[len(start) :]: value for key, value in ARRAYS.items() if key.startswith(start)}


def imported(case: str, folder: Path) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(ARRAYS[f"{case}/model"].tobytes())
    return import_model(path, {})


def assert_as_recorded(case: str, made: Mapping[str, NDArray[Any]]) -> None:
    """Whole numbers are the same, but for softmax of bytes, which onnxruntime computes by a table
    of integers: those may lie a step apart."""
    step = 1.0 if "QLinearSoftmax" in case else 0.0
    for name, wanted in recorded(case, "output").items():
        reach = step or 1e-5 * max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(made[name], wanted, rtol=1e-4, atol=reach, err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_an_operator_of_onnxruntime_computes_the_same(case: str, tmp_path: Path) -> None:
    graph, feeds = imported(case, tmp_path), recorded(case, "input")
    for made in (evaluate(graph, feeds), evaluate(fused(graph), feeds)):
        assert_as_recorded(case, made)


ON_TARGETS = """
images/regions_avg_0_half_pixel images/regions_max_0_output_half_pixel
images/regions_avg_2_half_pixel images/sampled_cubic_reflection_0_2 images/sampled_linear_zeros_1_3
images/largest images/largest_columns_first images/power_pool images/determinant images/columns
images/groups_of_opset_18 trees/regressor_equals_3 trees/classifier_3_3_True_SOFTMAX_0 trees/forest
trees/ensemble trees/lightgbm trees/xgboost_of_two trees/labels trees/vectors_RBF
quantised/convolution_u8_i8_True quantised/convolution_of_many quantised/matmul_of_many
quantised/dynamic quantised/QLinearAdd_int8_1 quantised/concat quantised/integers_of_inputs
signals/short_time_of_inputs signals/fourier_padded
""".split()  # noqa: SIM905 - a table of names


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", ON_TARGETS)
def test_a_kernel_of_an_operator_computes_the_same(
    case: str, target: TargetKind, tmp_path: Path
) -> None:
    made = outputs_on(target, imported(case, tmp_path), recorded(case, "input"), tmp_path)
    assert_as_recorded(case, made)


def attention(folder: Path, inputs: str, feeds: dict[str, NDArray[Any]]) -> NDArray[Any]:
    shapes = (f"float[{', '.join(map(str, feed.shape))}] {name}" for name, feed in feeds.items())
    given = ", ".join(shapes)
    path = folder / "attention.onnx"
    text = f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g ({given}) => (float[B, S, H] y)
        {{ y = com.microsoft.MultiHeadAttention <num_heads=2> ({inputs}) }}"""
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return evaluate(import_model(path, {}), feeds)["y"]


def test_packed_queries_keys_and_values_attend_as_those_apart(tmp_path: Path) -> None:
    """onnxruntime has no packed ones on a CPU, by which they could be recorded."""
    packed = np.random.default_rng(0).standard_normal((2, 5, 2, 3, 4)).astype(np.float32)
    bias = np.linspace(-1, 1, 24, dtype=np.float32)
    q, k, v = (packed[:, :, :, n].reshape(2, 5, 8) for n in range(3))
    wanted = attention(tmp_path, "q, k, v, b", {"q": q, "k": k, "v": v, "b": bias})
    whole = attention(tmp_path, "qkv, , , b", {"qkv": packed, "b": bias})
    later = np.ascontiguousarray(packed[:, :, :, 1:])
    half = attention(tmp_path, "q, kv, , b", {"q": q, "kv": later, "b": bias})
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(half, wanted, rtol=1e-5, atol=1e-6)


HEAD = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (float[2, 3, 8] x, float[2, 3] s, uint8[4, 1, 4] w, int32[2] n, int32[1] t) => (float y)
"""


REFUSED = """
MatMulNBits <K=8, N=4, bits=4, block_size=8> (x, w, s)            its weight depends on inputs
MatMulNBits <K=8, N=4, bits=3, block_size=8> (x, w, s)            its weights have 3 bits
MatMulNBits <K=8, N=4, bits=4, block_size=0> (x, w, s)            is not made as its operator
Attention <num_heads=0> (x, x)                                    is not made as its operator
Attention <num_heads=2, do_rotary=1> (x, x)                       it has do_rotary
MultiHeadAttention <num_heads=2> (x)                              have (3, 0, 0) axes
MultiHeadAttention <num_heads=3> (x, x, x)                        do not fit the operator
GroupQueryAttention <num_heads=2, kv_num_heads=1> (x, x, x, , , n, t)   depends on inputs
GroupQueryAttention <num_heads=2, kv_num_heads=1> (x)             its total length
SkipLayerNormalization (x)                                        do not fit the operator
FusedConv <activation="Sine"> (x, x)                              its activation Sine is not known
QLinearWhere (x)                                                  that the import knows
"""


@pytest.mark.parametrize("row", REFUSED.strip().splitlines())
def test_a_form_that_is_not_carried_over_is_refused_in_a_sentence(row: str, tmp_path: Path) -> None:
    node, sentence = row.split("  ", 1)
    path = tmp_path / "model.onnx"
    model = parser.parse_model(f"{HEAD}{{ y = com.microsoft.{node} }}")
    path.write_bytes(model.SerializeToString())
    with pytest.raises((InvalidInput, UnsupportedModel)) as told:
        import_model(path, {})
    assert sentence.strip() in str(told.value)
    assert "; " in str(told.value), "it says what would help"
