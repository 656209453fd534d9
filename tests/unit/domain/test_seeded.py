"""Seeded inputs: the values that Python and the browser must agree on."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.seeded import input_value, sampled_positions
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Role, Tensor, Workload
from services.aggregator.verification import input_values

GOLDEN = Path(__file__).parents[2] / "golden" / "seeded.json"
SEED = st.integers(min_value=0, max_value=0xFFFFFFFF)


def test_values_and_positions_equal_the_golden_ones() -> None:
    for case in json.loads(GOLDEN.read_text())["cases"]:
        seed = case["seed"]
        for value in case["values"]:
            assert input_value(seed, value["tensor"], value["index"]) == value["value"]
        for value in case["whole"]:
            typed = (DType(value["dtype"]), value["limit"])
            assert input_value(seed, value["tensor"], value["index"], *typed) == value["value"]
        positions = sampled_positions(seed, case["output_elements"])
        assert list(positions) == case["positions"]


F32, F16, I8, I7, I32 = (
    Tensor(name="x", role=Role.INPUT, dtype=dtype, shape=(1,), limit=limit)
    for dtype, limit in (
        (DType.F32, 0),
        (DType.F16, 0),
        (DType.I8, 0),
        (DType.I8, 64),
        (DType.I32, 50_257),
    )
)


@given(
    seed=SEED,
    number=st.integers(0, 3),
    index=st.integers(0, 1 << 26),
    tensor=st.sampled_from((F32, F16, I8, I7, I32)),
)
def test_the_vectorised_form_equals_the_scalar_one(
    seed: int, number: int, index: int, tensor: Tensor
) -> None:
    expected = input_value(seed, number, index, tensor.dtype, tensor.limit)
    assert input_values(seed, number, np.array([index]), tensor)[0] == expected
    assert np.float32(expected) == expected, "a value must be exact in float32"
    ranges = {F32: (-0.5, 0.5), F16: (-0.5, 0.5), I8: (-128, 128), I7: (-64, 64), I32: (0, 50_257)}
    low, high = ranges[tensor]
    assert low <= expected < high or (tensor is F16 and expected == high)


def digest(values: NDArray[np.generic]) -> str:
    return sha256(values.tobytes()).hexdigest()


def test_the_golden_halves_are_those_of_numpy() -> None:
    """The client's own conversion is held to the same digests: of what all 65,536 patterns mean,
    and of what the middle of any two neighbours, and the float32 on both sides of it, round to."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    values[np.isnan(values)] = np.nan
    finite = np.unique(values[np.isfinite(values)])
    middles = np.append((finite[1:] + finite[:-1]) / 2, np.array([65_520, -65_520], np.float32))
    around = [np.nextafter(middles, np.float32(to)) for to in (-np.inf, np.inf)]
    with np.errstate(over="ignore"):
        rounded = np.concatenate([around[0], middles, around[1]]).astype(np.float16)
    recorded = {"values": digest(values), "rounded": digest(rounded)}
    assert json.loads(GOLDEN.read_text())["halves"] == recorded


def test_halves_that_are_rounded_twice_are_within_the_tolerance_and_wrong_ones_are_not() -> None:
    workload = Workload.parse("matmul:f16:m64k768n64")
    a, b = (
        input_values(7, number, np.arange(tensor.elements), tensor).reshape(tensor.shape)
        for number, tensor in enumerate(workload.tensors[:2])
    )
    exact = a @ b
    tolerance = comparison_tolerance(workload, TargetKind.WEBGPU)
    nearest = exact.astype(np.float16)
    other = np.nextafter(nearest, np.float16(np.inf)).astype(np.float64)
    assert np.abs(other - exact).max() <= tolerance
    assert np.abs(exact - a[:, -1:] * b[-1:, :] - exact).max() > 2 * tolerance
    accumulated = np.zeros(exact.shape, dtype=np.float16)
    for k in range(768):
        accumulated += (a[:, k : k + 1] * b[k : k + 1, :]).astype(np.float16)
    assert np.abs(accumulated - exact).max() > tolerance, "a sum in float16 is not the result"


def test_float32_results_in_any_order_are_within_the_tolerance_and_wrong_ones_are_not() -> None:
    workload = Workload.of("matmul", (64, 768, 64))
    tensors = [
        input_values(7, number, np.arange(tensor.elements), tensor).reshape(tensor.shape)
        for number, tensor in enumerate(workload.tensors[:2])
    ]
    exact = tensors[0] @ tensors[1]
    a, b = (tensor.astype(np.float32) for tensor in tensors)
    total = np.zeros(exact.shape, dtype=np.float32)
    for k in range(768):
        total += a[:, k : k + 1] * b[k : k + 1, :]
    tolerance = comparison_tolerance(workload)
    assert np.max(np.abs(total - exact)) <= tolerance
    without_last_product = total - a[:, -1:] * b[-1:, :]
    assert np.max(np.abs(without_last_product - exact)) > 10 * tolerance


def upwards(exact: NDArray[np.float64]) -> NDArray[np.float32]:
    """Rounded to float32 as WGSL permits and WebAssembly does not: never down."""
    nearest = exact.astype(np.float32)
    return np.where(nearest < exact, np.nextafter(nearest, np.float32(np.inf)), nearest)


def test_sums_that_are_always_rounded_up_are_right_on_webgpu() -> None:
    workload = Workload.parse("row_sum:f32:m64n4096")
    matrix = workload.tensors[0]
    values = input_values(7, 0, np.arange(matrix.elements), matrix).reshape(matrix.shape) + 0.5
    total = np.zeros(64, dtype=np.float32)
    for column in values.T:
        total = upwards(total.astype(np.float64) + column)
    error = np.max(np.abs(total - values.sum(axis=1)))
    assert comparison_tolerance(workload) / 16 < error
    assert error <= comparison_tolerance(workload, TargetKind.WEBGPU)
