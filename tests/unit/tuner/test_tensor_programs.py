"""A program that no operator names is compiled and checked like one: both ends take any value."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Function,
    Input,
    Integer,
    Program,
    Real,
    Reducer,
    Stage,
    largest,
    read,
    smallest,
)
from kernelzoo.numerics.entries import TERMS_AT_ONCE, Floats, entries
from kernelzoo.numerics.operators import Indices
from services.tuner.compile import compile_program
from services.tuner.operators.lowering import prim_func
from tests.unit.tuner.execution import run_program

ROWS, WIDTH, DEPTH = 6, 9, 5
RANDOM = np.random.default_rng(7)


def axis(name: str, extent: int) -> Axis:
    return Axis(name, Integer(extent))


def attention() -> Program:
    """softmax(q·kᵀ / √d)·v of one head: sums that stand in sums."""
    i, j, k, d = axis("i", ROWS), axis("j", WIDTH), axis("k", WIDTH), axis("d", DEPTH)
    out = axis("o", DEPTH)
    scores = Stage("scores", (i, j), read("q", i, d) * read("k", j, d), Reducer.SUM, (d,))
    scaled = Stage("scaled", (i, j), scores[i, j] * Real(DEPTH**-0.5))
    top = Stage("top", (i,), scaled[i, k], Reducer.MAX, (k,))
    power = Stage("power", (i, j), Call(Function.EXP, scaled[i, j] - top[i]))
    total = Stage("total", (i,), power[i, k], Reducer.SUM, (k,))
    value = power[i, k] / total[i] * read("v", k, out)
    product = Stage("c", (i, out), value, Reducer.SUM, (k,))
    inputs = (
        Input("q", "f32", (ROWS, DEPTH)),
        Input("k", "f32", (WIDTH, DEPTH)),
        Input("v", "f32", (WIDTH, DEPTH)),
    )
    return Program(inputs, (scores, scaled, top, power, total, product))


def attention_by_numpy(q: Floats, k: Floats, v: Floats) -> Floats:
    scores = q @ k.T / np.sqrt(DEPTH)
    power = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True) @ v)


def embedding() -> Program:
    """Rows of a table by index, twice over, with a root and the remainder of a place."""
    i, j = axis("i", ROWS), axis("j", 2 * DEPTH)
    row = largest(smallest(read("rows", i), WIDTH - 1), 0)
    entry = read("table", row, j % DEPTH)
    root = Call(Function.SQRT, entry * entry) + Cast(read("rows", i))
    value = Choice((j // DEPTH < 1,), entry, root)
    inputs = (Input("table", "f32", (WIDTH, DEPTH)), Input("rows", "i32", (ROWS,)))
    return Program(inputs, (Stage("c", (i, j), value),))


def embedding_by_numpy(table: Floats, rows: Floats) -> Floats:
    entry = table[rows.astype(int)]
    return np.concatenate([entry, np.abs(entry) + rows[:, np.newaxis]], axis=1)


def given(program: Program) -> list[Floats]:
    return [
        RANDOM.integers(0, WIDTH, each.shape).astype(np.float64)
        if each.dtype == "i32"
        else RANDOM.standard_normal(each.shape).astype(np.float32).astype(np.float64)
        for each in program.inputs
    ]


def evaluated(program: Program, inputs: list[Floats]) -> Floats:
    def lookup(number: int, index: Indices) -> Floats:
        return inputs[number].ravel()[index]

    size = int(np.prod([int(str(each.extent)) for each in program.output.axes]))
    return entries(program, np.arange(size), lookup)


@pytest.mark.parametrize(
    ("program", "by_numpy"),
    [(attention(), attention_by_numpy), (embedding(), embedding_by_numpy)],
    ids=["attention", "embedding"],
)
def test_a_program_without_a_name_is_compiled_and_evaluated(
    program: Program, by_numpy: Callable[..., Floats]
) -> None:
    inputs = given(program)
    wanted = by_numpy(*inputs).ravel()
    np.testing.assert_allclose(evaluated(program, inputs), wanted, rtol=1e-12)
    made = compile_program(prim_func(program), "program")
    stored = [
        array.astype(np.int32).view(np.float32) if each.dtype == "i32" else array
        for each, array in zip(program.inputs, inputs, strict=True)
    ]
    flat: list[NDArray[np.generic]] = [np.asarray(each, np.float32).ravel() for each in stored]
    np.testing.assert_allclose(run_program(made, flat, wanted.size), wanted, rtol=1e-5, atol=1e-6)


def test_a_definition_that_reads_outside_of_a_tensor_is_found() -> None:
    i = axis("i", 4)
    program = Program((Input("a", "f32", (4,)),), (Stage("c", (i,), read("a", i + 1)),))
    with pytest.raises(IndexError, match="a is read outside of its axis 0, which has 4"):
        evaluated(program, [np.zeros(4)])


def test_what_a_choice_does_not_take_is_not_read() -> None:
    i = axis("i", 4)
    value = Choice((i < 3,), read("a", i + 1), Real(9.0))
    program = Program((Input("a", "f32", (4,)),), (Stage("c", (i,), value),))
    assert evaluated(program, [np.arange(4.0)]).tolist() == [1, 2, 3, 9]


def test_a_sum_that_many_stages_read_is_computed_once() -> None:
    """Each stage reads the one before twice: without memory the input would be read 2¹⁶ times."""
    i, k = axis("i", 3), axis("k", 7)
    stages = [Stage("s0", (i,), read("a", i, k), Reducer.SUM, (k,))]
    for number in range(1, 17):
        before = stages[-1]
        stages.append(Stage(f"s{number}", (i,), Binary(BinaryOp.MAX, before[i], before[i])))
    read_values = 0

    def lookup(_: int, index: Indices) -> Floats:
        nonlocal read_values
        read_values += index.size
        return np.ones(index.shape)

    program = Program((Input("a", "f32", (3, 7)),), tuple(stages))
    assert entries(program, np.arange(3), lookup).tolist() == [7, 7, 7]
    assert read_values == 3 * 7


def test_sums_that_stand_in_sums_are_taken_in_runs() -> None:
    """256 x 1024 products for an entry of which each term is a sum itself."""
    i, j, k = axis("i", 1), axis("j", 256), axis("k", 1024)
    inner = Stage("inner", (i, j), read("a", j, k), Reducer.SUM, (k,))
    outer = Stage("c", (i,), inner[i, j], Reducer.SUM, (j,))
    sizes: list[int] = []

    def lookup(_: int, index: Indices) -> Floats:
        sizes.append(index.size)
        return np.ones(index.shape)

    program = Program((Input("a", "f32", (256, 1024)),), (inner, outer))
    assert entries(program, np.zeros(1, dtype=np.int64), lookup).tolist() == [256 * 1024]
    assert max(sizes) <= TERMS_AT_ONCE
