"""Quantisation in WebAssembly, held to ONNX's formula to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload, refuse_unmeasured
from kernelzoo.errors import InvalidInput
from services.tuner import ir
from services.tuner.schedules.registry import lite_space
from tests.examples import examples
from tests.unit.tuner.execution import execute
from tests.unit.tuner.test_integer_matmul import WORDS, X, Y, Z, ran, words_of
from tests.unit.tuner.wasm_checks import legal

NUMBERS = st.sampled_from((0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 127.5, -3.0, 255.0, 1e9, -1e30, np.inf))


def quantised(x: NDArray[np.float32], scale: float, zero: int) -> NDArray[np.uint8]:
    steps = np.rint(x / np.float32(scale)) + np.float32(zero)
    return np.asarray(np.clip(steps, 0, 255).astype(np.uint8))


@given(rows=WORDS)
@settings(max_examples=examples(20), deadline=None, derandomize=True)
def test_bytes_are_the_nearest_numbers_that_a_byte_has(rows: list[list[int]]) -> None:
    x, y, z = words_of(rows)
    z >>= 22
    values = np.concatenate([x, z, y, z])
    for found in ran(ir.Bytes(values=(X, Z, Y, Z)), x, y, z):
        np.testing.assert_array_equal(found.view(np.uint8), np.clip(values, 0, 255))


@given(
    words=st.integers(1, 90),
    blocks=st.sampled_from((0, 1, 3)),
    special=st.lists(NUMBERS),
    seed=st.integers(0, 99),
)
@settings(max_examples=examples(40), deadline=None, derandomize=True)
def test_bytes_of_any_numbers_are_those_of_the_formula(
    words: int, blocks: int, special: list[float], seed: int
) -> None:
    n = 4 * words + 4096 * blocks
    random = np.random.default_rng(seed)
    x = (random.standard_normal(n) * 40).astype(np.float32)
    x[: len(special[:n])] = special[:n]
    zero = int(random.integers(0, 256))
    inputs: list[Any] = [x, np.ones(1, np.float32) / 3, np.array([zero], np.int32)]
    workload = Workload.of("quantise", (n,))
    for candidate in lite_space(workload, TargetKind.WASM)[:2]:
        output = execute(legal(candidate).artifact, inputs).view(np.uint8)
        np.testing.assert_array_equal(output, quantised(x, inputs[1], zero))


@pytest.mark.parametrize("n", [16, 68, 16 * 300 + 4])
def test_no_number_is_quantised_to_0(n: int) -> None:
    x = np.full(n, np.nan, np.float32)
    inputs: list[Any] = [x, np.ones(1, np.float32), np.zeros(1, np.int32)]
    (first, *_) = lite_space(Workload.of("quantise", (n,)), TargetKind.WASM)
    assert not execute(legal(first).artifact, inputs).any()


@given(
    n=st.integers(1, 200),
    scale=st.sampled_from((0.0, 1.0, 1e30)),
    shift=st.sampled_from((-9, 0, 9)),
)
@settings(max_examples=examples(40), deadline=None, derandomize=True)
def test_a_range_has_0_in_it(n: int, scale: float, shift: int) -> None:
    x = (np.random.default_rng(n).standard_normal(n) * scale + shift).astype(np.float32)
    for candidate in lite_space(Workload.of("quantise_range", (n,)), TargetKind.WASM):
        least, most = execute(legal(candidate).artifact, [x])
        assert (least, most) == (min(x.min(), 0), max(x.max(), 0))


@pytest.mark.parametrize("at", [0, 17, 66])
def test_the_range_of_no_number_is_none(at: int) -> None:
    x = np.ones(67, np.float32)
    x[at] = np.nan
    for candidate in lite_space(Workload.of("quantise_range", (67,)), TargetKind.WASM):
        assert np.isnan(execute(legal(candidate).artifact, [x])).all()


def test_agents_are_lent_no_kernel_that_rounds_to_integers() -> None:
    workload = Workload.of("quantise", (64,))
    assert not workload.is_measured
    assert Workload.of("quantise_range", (64,)).is_measured
    with pytest.raises(InvalidInput, match="rounds to integers"):
        refuse_unmeasured(workload)
