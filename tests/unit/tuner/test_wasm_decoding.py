"""Programs of decoders for wasm: states, quantised weights, attention over a cache."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelzoo.domain.operators.decoding import (
    AttentionShape,
    decode_attention,
    gated_product,
    normed_product,
)
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.operators.prefill import block_attention
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.decode_attention.config import WasmDecodeAttentionConfig
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import executed, inputs_of
from tests.unit.tuner.reference import dequantised, reference
from tests.unit.tuner.test_gpu_attention import ADVANCE, attended
from tests.unit.tuner.test_gpu_quantised import Doubles, gated, normed
from tests.unit.tuner.wasm_checks import legal


def test_a_program_that_writes_its_input_reads_what_that_held_before() -> None:
    workload = Workload.of_program("advance", parsed(ADVANCE))
    inputs: list[Any] = [np.array([7, 1, 2, 3], np.int32), np.array([42], np.int32)]
    artifact = compile_candidate(lite_space(workload, TargetKind.WASM)[0])
    state, output = executed(artifact, inputs)
    assert list(state) == list(output) == [8, 42, 2, 3]
    assert [tensor.role for tensor in artifact.manifest.tensors] == ["state", "input", "output"]


def is_right(found: Any, wanted: Doubles) -> bool:
    return bool(np.abs(found - wanted).max() <= 3e-6 * np.abs(wanted).max())


FEW_ROWS = (
    "matmul_q4+bias+residual:f32:m1k96n24",
    "matmul_q4z:f32:m3k288n8",
    "matmul_q8+silu:f32:m2k64n16:constant=b",
    "matmul_q8z:f32:m1k320n8block64",
    "matmul_q4z:f32:m1k512n8block128",
)


@pytest.mark.parametrize("tile_n", [1, 2])
@pytest.mark.parametrize("key", FEW_ROWS)
def test_products_of_few_rows_are_those_of_numpy(key: str, tile_n: int) -> None:
    workload = Workload.parse(key)
    config = WasmQuantisedGemvConfig(tile_n=tile_n, block_n=8, fma=tile_n == 1)
    steps = legal(config.candidate(workload))
    inputs = inputs_of(workload)
    (found,) = executed(steps.artifact, inputs)
    assert is_right(found, reference(workload, inputs))


MANY_ROWS = (
    "matmul_q4+bias+residual:f32:m13k96n24",
    "matmul_q4z:f32:m6k288n16",
    "matmul_q8+silu:f32:m9k64n8block16",
    "matmul_q8z:f32:m5k320n8block64",
)


@pytest.mark.parametrize("key", MANY_ROWS)
def test_products_of_many_rows_are_those_of_numpy(key: str) -> None:
    workload = Workload.parse(key)
    for tile_m, tile_n, fma in ((4, 8, True), (3, 4, False)):
        config = WasmQuantisedMatmulConfig(
            tile_m=tile_m, tile_n=tile_n, block_n=8, unroll_k=2, fma=fma
        )
        steps = legal(config.candidate(workload))
        inputs = inputs_of(workload)
        (found,) = executed(steps.artifact, inputs)
        assert is_right(found, reference(workload, inputs))


PROGRAMS: dict[str, tuple[Program, Callable[..., Doubles]]] = {
    "norm": (
        normed_product(1, 96, 24, epsilon=1e-6, bias=True),
        lambda a, gamma, w, s, bias: normed(a, gamma, 1e-6) @ dequantised(w, s).T + bias,
    ),
    "gate": (gated_product(9, 64, 24), lambda a, w, s: gated(a, dequantised(w, s))),
    "norm_gate": (
        gated_product(1, 288, 16, epsilon=1e-5, form=Form(zeros=True)),
        lambda a, gamma, w, s, z: gated(normed(a, gamma, 1e-5), dequantised(w, s, z)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_norms_and_gates_around_products_are_those_of_numpy(name: str) -> None:
    program, right = PROGRAMS[name]
    workload = Workload.of_program(name, program)
    first = lite_space(workload, TargetKind.WASM)[0]
    assert first.family.startswith("quantised")
    inputs = inputs_of(workload)
    (found,) = executed(compile_candidate(first), inputs)
    assert is_right(found, right(*inputs))


SHAPE = AttentionShape(heads=6, kv_heads=2, head_dim=32, length=152)
WINDOWED = replace(SHAPE, window=29, cap=0.5)
"""A window begins at each place of a quad."""


@pytest.mark.parametrize(
    ("shape", "here"),
    [
        *((SHAPE, here) for here in (0, 77, 151)),
        *((WINDOWED, here) for here in (28, 77, 78, 151)),
    ],
    ids=str,
)
@pytest.mark.parametrize(("heads", "vectors", "fma"), [(1, 4, True), (3, 2, False)])
def test_a_token_attends_to_those_before_it_and_joins_the_cache(
    heads: int, vectors: int, fma: bool, shape: AttentionShape, here: int
) -> None:
    workload = Workload.of_program("decode_attention", decode_attention(shape))
    inputs = inputs_of(workload)
    inputs[3][0] = here
    config = WasmDecodeAttentionConfig(heads=heads, vectors=vectors, fma=fma)
    steps = legal(config.candidate(workload))
    found = executed(steps.artifact, inputs)
    for got, wanted in zip(found, attended(shape, inputs), strict=True):
        assert np.abs(got - wanted).max() < 1e-6


def test_a_window_is_read_and_what_is_before_it_is_not() -> None:
    workload = Workload.of_program("decode_attention", decode_attention(WINDOWED))
    inputs = inputs_of(workload)
    inputs[3][0] = 120
    inputs[4][:, :, : 120 - 28 - 3] = np.nan
    inputs[5][:, : 120 - 28] = np.nan
    *_, output = executed(compile_candidate(lite_space(workload, TargetKind.WASM)[0]), inputs)
    assert np.isfinite(output).all()


@pytest.mark.parametrize(("cap", "window"), [(0.0, 0), (0.25, 0), (0.0, 11)])
@pytest.mark.parametrize("here", [0, 50, 58])
def test_a_block_attends_as_its_tokens_one_by_one(here: int, cap: float, window: int) -> None:
    shape = AttentionShape(heads=4, kv_heads=2, head_dim=16, length=60, cap=cap, window=window)
    rows = 5
    block = Workload.of_program("block_attention", block_attention(shape, rows))
    one = Workload.of_program("decode_attention", decode_attention(shape))
    inputs = inputs_of(block)
    inputs[3][0] = here
    first, *_ = lite_space(block, TargetKind.WASM)
    assert first.family == "decode_attention"
    keys, values, output = executed(compile_candidate(first), inputs)
    single = compile_candidate(lite_space(one, TargetKind.WASM)[0])
    given = list(inputs)
    for row in range(min(rows, shape.length - here)):
        given[0] = inputs[0][row : row + 1]
        given[3] = inputs[3].copy()
        given[3][0] = here + row
        *given[4:6], wanted = executed(single, given)
        assert np.abs(output[row] - wanted[0]).max() < 1e-6
    assert np.array_equal(keys, given[4])
    assert np.array_equal(values, given[5])


def test_what_no_family_takes_is_computed_as_stated() -> None:
    for key in ("matmul_q4:f32:m1k96n7", "matmul_q4:f32:m1k96n8block16"):
        workload = Workload.parse(key)
        first = lite_space(workload, TargetKind.WASM)[0]
        assert first.family == "elementwise"
        inputs = inputs_of(workload)
        (found,) = executed(compile_candidate(first), inputs)
        assert is_right(found, reference(workload, inputs))
