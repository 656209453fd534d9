"""Integers, conditions and casts of TVM keep their meaning after lowering: as wasm, as WGSL,
interpreted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm import s_tir, script, te, tirx

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Role, Tensor
from kernelzoo.errors import UnsupportedProgram
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.compile import compile_program, webgpu_artifact
from services.tuner.ir.interpreter import interpret
from services.tuner.passes.pipeline import run_gpu_passes
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads, split_nests
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node
from tests.unit.tuner.execution import Values, run_program
from tests.unit.tuner.gpu_execution import execute_on_gpu

SMALLEST, LARGEST = -(1 << 31), (1 << 31) - 1
EDGES = np.array([SMALLEST, SMALLEST + 1, -3, -1, 0, 1, 2, LARGEST - 1, LARGEST], np.int32)
COUNT = len(EDGES)
Entry = Callable[[Node, Node], Node]


def i32(value: int) -> Node:
    return tirx.const(value, "int32")


def ran(entry: Entry, x: NDArray[np.generic], dtype: type[np.generic] = np.int32) -> Any:
    """c[i] = entry(x, i), as wasm; interpreted and on a GPU it is the same."""
    given = te.placeholder(x.shape, name="x", dtype=str(x.dtype))
    output = te.compute(x.shape, lambda i: entry(given, i), name="c")
    function = te.create_prim_func([given, output])
    made = compile_program(function, "tested")
    got = run_program(made, [x], x.size, dtype)
    interpreted = np.zeros(x.size, dtype)
    interpret(made.program, {"x": x, "c": interpreted}, low=0, high=made.range_extent)
    assert np.array_equal(interpreted, got)
    if x.dtype == dtype == np.int32:  # WGSL says little about NaN and infinity.
        assert np.array_equal(ran_on_gpu(function, x), got)
    return got


def ran_on_gpu(function: Node, x: NDArray[np.generic]) -> Values:
    """Runs a function from int32 to int32 on a GPU."""
    threads = ThreadBinding(count=64, vectors=1, vec4=False)
    programs = [bind_threads(each, threads) for each in split_nests(plain_program(function))]
    module = print_module(tuple(map(run_gpu_passes, programs)), ("x", "c"))
    tensors = tuple(
        Tensor(name=name, role=role, shape=x.shape, dtype=DType.I32)
        for name, role in (("x", Role.INPUT), ("c", Role.OUTPUT))
    )
    return execute_on_gpu(webgpu_artifact(module, tensors), [x])


def test_each_branch_of_a_condition_computes_with_its_own_value() -> None:
    got = ran(lambda x, i: i32(1) - tirx.if_then_else(x[i] == 1, i32(1), i32(0)), EDGES)
    assert got.tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 1]


def test_a_condition_that_is_one_of_several_bounds_reads_what_it_compares() -> None:
    got = ran(lambda x, i: tirx.if_then_else(x[i] + 0 != i32(1), x[i], i32(7)), EDGES)
    assert np.array_equal(got, np.where(EDGES != 1, EDGES, 7))


def test_a_condition_may_depend_on_another_condition() -> None:
    def entry(x: Node, i: Node) -> Node:
        inner = tirx.if_then_else(x[i] > 0, x[i], i32(5))
        return tirx.if_then_else(inner < 3, x[i], i32(9))

    inner = np.where(EDGES > 0, EDGES, 5)
    assert np.array_equal(ran(entry, EDGES), np.where(inner < 3, EDGES, 9))


def test_numbers_are_compared_whose_difference_is_no_i32() -> None:
    def entry(x: Node, i: Node) -> Node:
        return tirx.if_then_else(x[i] < x[COUNT - 1 - i], i32(1), i32(0))

    assert np.array_equal(ran(entry, EDGES), EDGES[::-1] > EDGES)


def test_the_smallest_number_is_not_above_zero() -> None:
    got = ran(lambda x, i: tirx.if_then_else(x[i] >= 0, i32(1), i32(0)), EDGES)
    assert np.array_equal(got, EDGES >= 0)


@pytest.mark.parametrize("by", [1, 3, 8, 1000, (1 << 30) + 1, LARGEST])
def test_any_number_is_divided_rounding_down(by: int) -> None:
    quotients = ran(lambda x, i: tirx.floordiv(x[i], i32(by)), EDGES)
    assert np.array_equal(quotients, EDGES.astype(np.int64) // by)
    rests = ran(lambda x, i: tirx.floormod(x[i], i32(by)), EDGES)
    assert np.array_equal(rests, EDGES.astype(np.int64) % by)


@pytest.mark.parametrize("by", [-2, -3, -8, -1000, -((1 << 30) + 1), -LARGEST])
def test_any_number_is_divided_by_a_negative_one_rounding_down(by: int) -> None:
    quotients = ran(lambda x, i: tirx.floordiv(x[i], i32(by)), EDGES)
    assert np.array_equal(quotients, EDGES.astype(np.int64) // by)
    rests = ran(lambda x, i: tirx.floormod(x[i], i32(by)), EDGES)
    assert np.array_equal(rests, EDGES.astype(np.int64) % by)


@pytest.mark.parametrize("by", [-1, -4, -7])
def test_a_place_is_divided_by_a_negative_number(by: int) -> None:
    places = np.arange(COUNT)
    got = ran(lambda _, i: tirx.floordiv(i, i32(by)) * 100 + tirx.floormod(i, i32(by)), EDGES)
    assert np.array_equal(got, places // by * 100 + places % by)


def test_a_divisor_of_either_sign_is_refused() -> None:
    with pytest.raises(UnsupportedProgram, match="restate it with a positive divisor"):
        ran(lambda x, i: tirx.floormod(x[i], x[COUNT - 1 - i]), EDGES)


def test_a_cast_to_int8_keeps_the_low_byte() -> None:
    numbers = np.array([0, 127, 128, 255, 256, -128, -129, 300, SMALLEST], np.int32)
    wide = ran(lambda x, i: x[i].astype("int8").astype("int32"), numbers)
    assert np.array_equal(wide, numbers.astype(np.int8))
    assert np.array_equal(ran(lambda x, i: x[i].astype("int8"), numbers, np.int8), wide)


def test_four_entries_at_once_may_be_read_as_int64_and_not_written_as_int8() -> None:
    numbers = np.arange(-20, 20, dtype=np.int64)
    got = ran(lambda x, i: x[i].astype("float32"), numbers, np.float32)
    assert np.array_equal(got, numbers)
    given = te.placeholder((40,), name="x", dtype="int32")
    output = te.compute((40,), lambda i: given[i].astype("int8"), name="c")
    schedule = s_tir.Schedule(te.create_prim_func([given, output]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("c"))[0])
    made = compile_program(schedule.mod["main"], "bytes")
    numbers = np.arange(-200, 200, 10, dtype=np.int32)
    assert np.array_equal(run_program(made, [numbers], 40, np.int8), numbers.astype(np.int8))


def test_a_condition_is_a_number_and_a_choice_of_integers_computes_both() -> None:
    got = ran(lambda x, i: (x[i] < 2).astype("int32") * 2 + i32(1), EDGES)
    assert np.array_equal(got, np.where(EDGES < 2, 3, 1))
    got = ran(lambda x, i: tirx.Select(tirx.Not(x[i] < 2), x[i], i32(4)), EDGES)
    assert np.array_equal(got, np.where(EDGES < 2, 4, EDGES))


@pytest.mark.parametrize("choose", [tirx.if_then_else, tirx.Select])
def test_the_side_that_is_not_taken_may_read_outside(choose: Callable[..., Node]) -> None:
    got = ran(lambda x, i: choose(i > 0, x[i - 1], i32(7)), EDGES)
    assert got.tolist() == [7, *EDGES[:-1]]

    def entry(x: Node, i: Node) -> Node:
        return choose(tirx.all(x[i] >= 0, x[i] < COUNT), x[x[i]] + i32(1), i32(5))

    held = np.minimum(EDGES, 100)
    assert ran(entry, held).tolist() == [held[n] + 1 if 0 <= n < COUNT else 5 for n in held]


def test_a_float_that_is_no_i32_becomes_the_nearest_one_and_nan_zero() -> None:
    floats = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9, -2.9, -0.0], np.float32)
    got = ran(lambda x, i: x[i].astype("int32"), floats)
    assert got.tolist() == [0, LARGEST, SMALLEST, LARGEST, SMALLEST, 2, -2, 0]


@pytest.mark.parametrize("choose", [tirx.if_then_else, tirx.Select])
def test_nan_is_neither_below_nor_above_nor_equal(choose: Callable[..., Node]) -> None:
    floats = np.array([np.nan, 1, -1, np.inf, -np.inf], np.float32)
    one, two = (tirx.const(value, "float32") for value in (1.0, 2.0))
    below = ran(lambda x, i: choose(x[i] < 0, one, two), floats, np.float32)
    assert below.tolist() == [2, 2, 1, 2, 1]
    others = ran(lambda x, i: choose(x[i] >= 0, one, two), floats, np.float32)
    assert others.tolist() == [2, 1, 2, 1, 2]
    differ = ran(lambda x, i: choose(x[i] != 1, one, two), floats, np.float32)
    assert differ.tolist() == [1, 2, 1, 1, 1]


def test_a_buffer_at_the_start_of_memory_is_read_from_its_end() -> None:
    """An address below the buffer, to which an instruction adds its offset, would be below 0."""
    x = np.arange(40, dtype=np.float32)
    assert np.array_equal(ran(lambda x, i: x[39 - i], x, np.float32), x[::-1])


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "int16"])
def test_a_cast_that_would_round_or_wrap_otherwise_is_refused(dtype: str) -> None:
    with pytest.raises(UnsupportedProgram, match=f"a cast to {dtype} is not lowered"):
        ran(lambda x, i: x[i].astype(dtype).astype("int32"), EDGES)


CHANGED_NAME = """
@tirx.prim_func(s_tir=True)
def main(x: tirx.Buffer((8,), "float32"), c: tirx.Buffer((8,), "float32")):
    for i in range(8):
        held: tirx.let = x[i]
        x[i] = tirx.float32(0)
        c[i] = held
"""


def test_a_name_for_a_value_that_changes_is_refused() -> None:
    sentence = "swap: a variable names a value of buffer x, to which the program stores"
    with pytest.raises(UnsupportedProgram, match=sentence):
        compile_program(script.from_source(CHANGED_NAME, {"tirx": script.tirx}), "swap")
