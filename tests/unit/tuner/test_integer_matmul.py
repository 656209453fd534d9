"""Products of integers in WebAssembly: instructions, layouts and kernels, to the bit."""

from dataclasses import replace
from platform import machine
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fixtures.wasm_space import common_space
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule, UnsupportedProgram
from services.tuner import ir
from services.tuner.codegen.wasm.module import assemble, lower
from services.tuner.compile import compile_candidate, compile_packing
from services.tuner.ir.interpreter import interpret
from services.tuner.passes.pipeline import ALL_PASSES, PassOptions, run_passes
from services.tuner.schedules.integer_matmul.config import (
    Dot,
    Slices,
    WasmIntegerMatmulConfig,
    has_seven_bits,
)
from services.tuner.schedules.integer_matmul.space import wasm_integer_matmul_configs
from services.tuner.schedules.registry import lite_space
from tests.examples import examples
from tests.unit.tuner.execution import (
    SIGNED_DOT,
    UNSIGNED_DOT,
    Floats,
    Kernel,
    execute,
    inputs_of,
    packed_inputs,
)
from tests.unit.tuner.reference import reference, unpacked
from tests.unit.tuner.wasm_checks import legal

BYTES = st.integers(-128, 127)
WORDS = st.lists(st.lists(BYTES, min_size=16, max_size=16), min_size=3, max_size=3)

Words = NDArray[np.int32]


def ran(value: ir.Expression, x: Words, y: Words, z: Words) -> tuple[Words, Words]:
    """Returns what a kernel and the interpreter make of `value`, an expression of the words."""
    names = ("x", "y", "z", "out")
    buffers = [
        ir.Buffer(name=name, scope=ir.Scope.PARAMETER, dtype=DType.I32, size=4) for name in names
    ]
    program = ir.program(buffers, "once", 1, (buffers[-1].store(0, value),))
    arguments = dict(zip(names, (x, y, z, np.zeros(4, np.int32)), strict=True))
    interpret(program, arguments, low=0, high=1)
    made = lower(run_passes(program, ALL_PASSES, PassOptions()), ALL_PASSES)
    kernel = Kernel(assemble(made.function), 65_536)
    for place, array in enumerate((x, y, z)):
        kernel.place(64 * place, array)
    kernel.run(0, 64, 128, 192, 0, 1)
    return kernel.values.view(np.int32)[48:52].copy(), arguments["out"]


X, Y, Z = (
    ir.Buffer(name=name, scope=ir.Scope.PARAMETER, dtype=DType.I32, size=4).vector(0)
    for name in "xyz"
)


def words_of(rows: list[list[int]]) -> tuple[Words, Words, Words]:
    x, y, z = (np.array(row, np.int8).view(np.int32) for row in rows)
    return x, y, z


@given(rows=WORDS, odd=st.booleans())
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_halves_are_bytes_with_their_sign(rows: list[list[int]], odd: bool) -> None:
    x, y, z = words_of(rows)
    wanted = x.view(np.int8)[int(odd) :: 2].astype(np.int16)
    for found in ran(ir.Halves(value=X, odd=odd), x, y, z):
        np.testing.assert_array_equal(found.view(np.int16), wanted)


@given(rows=WORDS)
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_a_dot_of_pairs_sums_two_products_of_i16(rows: list[list[int]]) -> None:
    x, y, z = words_of(rows)
    products = x.view(np.int16).astype(np.int64) * y.view(np.int16)
    wanted = products.reshape(4, 2).sum(axis=1).astype(np.int32)
    for found in ran(ir.DotPairs(left=X, right=Y), x, y, z):
        np.testing.assert_array_equal(found, wanted)


@given(rows=WORDS, in_two=st.booleans())
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_a_dot_of_quads_sums_four_products_of_bytes(rows: list[list[int]], in_two: bool) -> None:
    x, y, z = words_of(rows)
    y &= 0x7F7F7F7F
    products = x.view(np.int8).astype(np.int64) * y.view(np.int8)
    wanted = (products.reshape(4, 4).sum(axis=1) + z).astype(np.int32)
    value = ir.DotQuads(left=X, right=Y, addend=Z, in_two=in_two)
    for found in ran(value, x, y, z):
        np.testing.assert_array_equal(found, wanted)


def test_the_interpreter_refuses_a_dot_of_quads_that_engines_compute_in_three_ways() -> None:
    x, z = np.full(4, 0x01010101, np.int32), np.zeros(4, np.int32)
    y = np.full(4, -1, np.int32)
    with pytest.raises(UnsupportedProgram, match="right byte below 0"):
        ran(ir.DotQuads(left=X, right=Y, addend=Z), x, y, z)


def exact(workload: Workload, inputs: list[Floats]) -> Floats:
    """The output in the arithmetic of kernels: exact sums, then f32 as stated."""
    words, b, a_scale, a_zero, b_scale, b_sum, *zeros = inputs
    a, zero = unpacked(words, 8), a_zero.astype(np.int64)
    total = a @ b.astype(np.int64).T - zero * b_sum.astype(np.int64)
    for b_zero in zeros:
        sums = a.sum(axis=1, keepdims=True) - a.shape[1] * zero
        total = total - b_zero.astype(np.int64) * sums
    assert np.abs(total).max() < 1 << 31, workload.key
    return np.asarray(total.astype(np.int32).astype(np.float32) * (a_scale * b_scale))


def extreme(workload: Workload, inputs: list[Any]) -> list[Any]:
    """The inputs with entries at the ends of their ranges alone."""
    given = workload.extent
    random = np.random.default_rng(given["m"] + given["k"] + given["n"])
    least = workload.tensors[1].limit
    ends = np.array([-least, least - 1], np.int8)
    a = random.choice(np.array([0, 255], np.uint8), (given["m"], given["k"])).view(np.int32)
    return [a, random.choice(ends, (given["n"], given["k"])), *inputs[2:]]


def runnable(workload: Workload) -> tuple[Candidate, ...]:
    """Candidates that are right here: of those for devices whose dot products take all bytes, which
    wasmtime's saturate or wrap around, the ones of weights of 7 bits; where bytes have no sign, on
    x86."""
    usual = common_space(workload)
    if not has_seven_bits(workload):
        return usual
    here = {SIGNED_DOT, UNSIGNED_DOT} if machine() == "x86_64" else {SIGNED_DOT}
    space = lite_space(workload, TargetKind.WASM)
    return (*(each for each in space if here & set(each.requires)), *usual)


SIZES = st.one_of(st.integers(1, 40), st.sampled_from((1, 5, 8, 9, 12, 13, 61)))
OPERATORS = st.sampled_from(("matmul_u8i8", "matmul_u8i7", "matmul_u8i8z", "matmul_u8i7z"))


@given(
    operator=OPERATORS,
    extents=st.tuples(SIZES, st.integers(1, 20), SIZES),
    constant=st.sampled_from(((), ("b",))),
    extremes=st.booleans(),
    data=st.data(),
)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_kernels_of_any_shape_give_the_bits_of_exact_sums(
    operator: str,
    extents: tuple[int, int, int],
    constant: tuple[str, ...],
    extremes: bool,
    data: st.DataObject,
) -> None:
    m, words, n = extents
    workload = Workload.of(operator, (m, 4 * words, n), constant=constant)
    inputs: list[Any] = inputs_of(workload)
    if extremes:
        inputs = extreme(workload, inputs)
    space = runnable(workload)
    candidate = space[data.draw(st.integers(0, len(space) - 1))]
    artifact = legal(candidate).artifact
    output = execute(artifact, packed_inputs(candidate, artifact, inputs))
    np.testing.assert_array_equal(output.reshape(m, n), exact(workload, inputs))


@pytest.mark.parametrize("dot", [Dot.QUADS_OF_I8, Dot.QUADS_OF_U8])
@pytest.mark.parametrize("operator", ["matmul_u8i8", "matmul_u8i8z"])
@pytest.mark.parametrize("extents", [(1, 8, 5), (7, 20, 13), (9, 8, 24)])
def test_dot_products_of_all_bytes_need_no_weights_of_7_bits(
    dot: Dot, operator: str, extents: tuple[int, int, int]
) -> None:
    workload = Workload.of(operator, extents)
    inputs = extreme(workload, inputs_of(workload))
    space = lite_space(workload, TargetKind.WASM)
    own = [each for each in space if dict(each.config)["dot"] == dot]
    assert {each.requires[1:] for each in own} == {("relaxed-simd", "simd128")}
    for candidate in own[::3]:
        program = legal(candidate).scheduled
        output = np.zeros(extents[0] * extents[2], np.float32)
        # Bytes of weights lie four to a word.
        flat = [np.ascontiguousarray(each).reshape(-1) for each in (*inputs, output)]
        words = [each.view(np.int32) if each.dtype == np.int8 else each for each in flat]
        names = [buffer.name for buffer in program.parameters]
        arrays = dict(zip(names, words, strict=True))
        interpret(program, arrays, low=0, high=program.body.extent)
        np.testing.assert_array_equal(output.reshape(extents[::2]), exact(workload, inputs))


@given(
    operator=OPERATORS,
    extents=st.tuples(SIZES, st.integers(1, 20), SIZES),
    epilogue=st.lists(
        st.sampled_from(("bias", "relu", "gelu", "residual", "scale", "scales")),
        min_size=1, max_size=3, unique=True,
    ),
    data=st.data(),
)  # fmt: skip
@settings(max_examples=examples(30), deadline=None, derandomize=True)
def test_kernels_with_any_epilogue_are_right(
    operator: str, extents: tuple[int, int, int], epilogue: list[str], data: st.DataObject
) -> None:
    m, words, n = extents
    name = "+".join((operator, *epilogue))
    workload = Workload.of(name, (m, 4 * words, n), constant=("b",))
    inputs = inputs_of(workload)
    space = runnable(workload)
    candidate = space[data.draw(st.integers(0, len(space) - 1))]
    artifact = compile_candidate(candidate)
    output = execute(artifact, packed_inputs(candidate, artifact, inputs))
    error = np.abs(output.reshape(m, n) - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize(("n", "width"), [(16, 8), (13, 8), (3, 4), (37, 12)])
def test_the_layout_has_four_entries_along_k_and_zeros_behind_the_columns(
    n: int, width: int
) -> None:
    workload = Workload.of("matmul_u8i8", (2, 20, n), constant=("b",))
    b: Any = np.random.default_rng(n).integers(-128, 128, (n, 20)).astype(np.int8)
    packed = execute(compile_packing(workload, f"quads{width}"), [b]).view(np.int8)
    panels = -(-n // width)
    padded = np.zeros((panels * width, 20), np.int8)
    padded[:n] = b
    wanted = padded.reshape(panels, width, 5, 4).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(packed.reshape(wanted.shape), wanted)


def test_the_default_needs_no_relaxed_simd_and_the_space_has_every_dot_product() -> None:
    workload = Workload.parse("matmul_u8i7:f32:m384k768n768:constant=b")
    space = lite_space(workload, TargetKind.WASM)
    assert common_space(workload)[0].requires == ("simd128",)
    assert {dict(each.config)["dot"] for each in space} == set(Dot)
    eight = replace_operator(workload, "matmul_u8i8")
    assert {dict(each.config)["dot"] for each in common_space(eight)} == {Dot.PAIRS}


@pytest.mark.parametrize(
    ("dot", "feature"), [(Dot.QUADS_OF_I8, "dot-of-i8"), (Dot.QUADS_OF_U8, "dot-of-u8")]
)
def test_a_device_whose_dot_products_take_all_bytes_has_them_by_default(
    dot: Dot, feature: str
) -> None:
    device = Target.of(TargetKind.WASM, (feature, "relaxed-simd", "simd128"))
    for operator in ("matmul_u8i8", "matmul_u8i8z", "matmul_u8i7", "matmul_u8i8q"):
        workload = Workload.of(operator, (128, 384, 1536), constant=("b",))
        space = lite_space(workload, TargetKind.WASM)
        default = next(each for each in space if device.offers(each.requires))
        assert dict(default.config)["dot"] == dot


@pytest.mark.parametrize("m", [1, 4, 384])
def test_weights_that_may_change_are_copied_a_panel_at_a_time(m: int) -> None:
    workload = Workload.of("matmul_u8i7", (m, 16_384, 8192))
    for candidate in (common_space(workload)[0], lite_space(workload, TargetKind.WASM)[0]):
        assert compile_candidate(candidate).manifest.scratch_bytes < 1 << 22


def replace_operator(workload: Workload, name: str) -> Workload:
    return Workload.of(name, workload.extents, constant=workload.constant)


def test_what_makes_a_config_unusable_is_said() -> None:
    workload = Workload.parse("matmul_u8i8:f32:m20k16n24:constant=b")
    space = wasm_integer_matmul_configs(workload)
    config = next(each for each in space if each.dot is Dot.PAIRS)
    for changed, message in (
        ({"tile_n": 6}, "whole vectors"),
        ({"tile_m": 9}, "too many sums"),
        ({"unroll_k": 3}, "must divide 4"),
        ({"fma": True}, "quads need relaxed SIMD"),
        ({"dot": Dot.QUADS, "fma": True}, "7 bits alone"),
        ({"dot": Dot.QUADS_OF_I8, "fma": True, "prepared": True}, "nothing to prepare"),
        ({"block_m": config.tile_m + 1}, "whole tiles"),
        ({"outer": Slices.COLUMNS}, "block_m is all rows"),
    ):
        made = replace(config, **changed).candidate(workload)
        with pytest.raises(InvalidSchedule, match=message):
            WasmIntegerMatmulConfig.of(made)
    loose = Workload.parse("matmul_u8i8:f32:m20k16n24")
    with pytest.raises(InvalidSchedule, match="constant=b"):
        WasmIntegerMatmulConfig.of(config.candidate(loose))
