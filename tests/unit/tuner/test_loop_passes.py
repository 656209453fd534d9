"""Passes over loops: dependence, unswitching, partitioning, invariants, vectors, transposes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.nodes import (
    BinaryOp,
    Block,
    Call,
    Const,
    If,
    IndexValue,
    Let,
    Loop,
    LoopKind,
    MathFunction,
    Program,
    Shuffle,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import statements, values
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.dependence import is_parallel
from services.tuner.passes.loop_invariant_code_motion import hoist_lets
from services.tuner.passes.loop_partition import partition_loops
from services.tuner.passes.loop_unswitching import unswitch_loops
from services.tuner.passes.pipeline import ALL_PASSES, PassOptions, run_passes
from services.tuner.passes.vectorise import vectorise_inner_loops
from tests.examples import examples
from tests.unit.tuner.execution import Floats, execute_program
from tests.unit.tuner.programs import X, Y, at, binary, load, loop, number, parameter, program

RANGE, J, K = 5, 4, 3
OUT = parameter("y", RANGE * J * K)
HERE = at(r=J * K, j=K, k=1)
FACTORS = st.integers(-3, 3)
BOUNDS = st.builds(
    lambda r, j, k, limit: Bound(index=at(r=r, j=j, k=k), limit=limit),
    FACTORS,
    FACTORS,
    FACTORS,
    st.integers(-9, 12),
).filter(lambda bound: bool(bound.index.terms))


def stored(value: float) -> Store:
    return Store(buffer=OUT, index=HERE, value=number(value))


def nest(body: Block) -> Program:
    """`body` for r < RANGE, j < J, k < K."""
    return program(RANGE, (loop("j", J, (loop("k", K, body),)),), OUT)


def result(one: Program) -> Floats:
    memory = np.zeros(OUT.size, np.float32)
    interpret(one, {"y": memory}, low=0, high=one.body.extent)
    return memory


@given(bounds=st.lists(BOUNDS, min_size=1, max_size=3), other=st.booleans())
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_unswitching_and_partitioning_keep_what_guarded_stores_compute(
    bounds: list[Bound], other: bool
) -> None:
    otherwise = (stored(2),) if other else ()
    stated = nest((If(bounds=tuple(bounds), body=(stored(1),), otherwise=otherwise),))
    wanted = result(stated)
    assert np.array_equal(result(unswitch_loops(stated)), wanted)
    assert np.array_equal(result(partition_loops(unswitch_loops(stated))), wanted)
    optimised = run_passes(stated, ALL_PASSES, PassOptions(vectors=1))
    assert np.array_equal(result(optimised), wanted)
    zeros = {"y": np.zeros(OUT.size, np.float32)}
    assert np.array_equal(execute_program(optimised, ALL_PASSES, zeros)["y"], wanted)
    # One condition may decide another around which it stands; such a one stays, and is right.
    assert [
        fault for fault in faults(optimised, Phase.STRENGTH_REDUCED) if "is decided" not in fault
    ] == []


def kinds(one: Program) -> list[type[Statement]]:
    return [type(statement) for statement in statements((one.body,))]


def test_a_condition_on_the_row_is_evaluated_once_a_row() -> None:
    row, both = Bound(index=at(j=1), limit=2), Bound(index=at(j=1, k=1), limit=3)
    moved = unswitch_loops(
        nest((If(bounds=(row, both), body=(stored(1),), otherwise=(stored(2),)),))
    )
    assert kinds(moved) == [Loop, Loop, If, Loop, If, Store, Store, Loop, Store]
    assert partition_loops(moved).body.kind is LoopKind.RANGE


def test_partitioning_by_an_interval_leaves_three_loops_without_a_condition() -> None:
    low, high = Bound(index=at(k=-1), limit=0), Bound(index=at(k=1), limit=2)
    cut = partition_loops(
        nest((If(bounds=(low, high), body=(stored(1),), otherwise=(stored(2),)),))
    )
    assert kinds(cut) == [Loop, Loop, Store, Store, Store]


@pytest.mark.parametrize(("guards", "is_split"), [(3, True), (4, False)])
def test_a_range_loop_of_more_than_four_parts_stays_whole(guards: int, is_split: bool) -> None:
    def stage(n: int) -> If:
        bound = Bound(index=at(r=1), limit=n)
        return If(bounds=(bound,), body=(stored(n),), otherwise=(stored(0),))

    stated = nest(tuple(stage(n) for n in range(1, guards + 1)))
    partitioned = partition_loops(stated)
    assert np.array_equal(result(partitioned), result(stated))
    assert (partitioned != stated) is is_split


def test_an_invariant_let_is_hoisted_out_of_a_loop() -> None:
    half = IndexValue(index=at(j=1)) // Const(value=2, dtype=DType.I32)
    store = Store(buffer=OUT, index=Affine.of(0, {"v": 1, "r": J * K, "k": 3}), value=number(1))
    let = Let(var="v", value=half, low=0, high=1, body=(store,))
    lifted = hoist_lets(nest((let,)))
    assert kinds(lifted) == [Loop, Loop, Let, Loop, Store]
    assert np.array_equal(result(lifted), result(nest((let,))))


def over(index: Affine, value_at: Affine, extent: int = 4) -> Loop:
    """for i < extent: y[index] = y[value_at] + x[i]."""
    value = binary(BinaryOp.ADD, load(Y, value_at.constant, **dict(value_at.terms)), load(X, i=1))
    return loop("i", extent, (Store(buffer=Y, index=index, value=value),))


def rows_of_three(columns: int) -> Loop:
    """for i < 4, j < columns: y[3i + j] = 1."""
    store = Store(buffer=Y, index=at(i=3, j=1), value=number(1))
    return loop("i", 4, (loop("j", columns, (store,)),))


@pytest.mark.parametrize(
    ("one", "apart"),
    [
        (over(at(i=1), at(i=1)), True),
        (over(at(i=1), at(1, i=1)), False),
        (over(at(i=2), at(1, i=2)), True),
        (over(at(i=2), at(2, i=2)), False),
        (over(at(), at()), False),
        (over(at(i=-1), at(i=-1)), True),
        (over(at(i=1), at(i=2)), False),
        (over(at(i=1, o=7), at(i=1, o=7)), True),
        (over(at(i=1, o=2), at(i=1, o=1)), False),
        (
            loop("i", 4, (loop("j", 3, (Store(buffer=Y, index=at(i=3, j=1), value=number(1)),)),)),
            True,
        ),
        (
            loop("i", 4, (loop("j", 4, (Store(buffer=Y, index=at(i=3, j=1), value=number(1)),)),)),
            False,
        ),
    ],
)
def test_a_loop_is_parallel_where_no_iteration_accesses_what_another_writes(
    one: Loop, apart: bool
) -> None:
    assert is_parallel(one) is apart


@given(extent=st.integers(1, 40), vectors=st.integers(1, 4))
@settings(max_examples=examples(40), deadline=None, derandomize=True)
def test_a_vectorised_loop_with_a_remainder_computes_the_same(extent: int, vectors: int) -> None:
    value = binary(BinaryOp.MUL, load(X, i=1), number(3))
    store = Store(buffer=parameter("z", 40), index=at(i=1), value=value)
    stated = program(1, (loop("i", extent, (store,)),), X, parameter("z", 40))
    taken = vectorise_inner_loops(stated, vectors)
    x = np.arange(40, dtype=np.float32)
    memory = {"x": x, "z": np.zeros(40, np.float32)}
    interpret(taken, memory, low=0, high=1)
    assert np.array_equal(memory["z"][:extent], 3 * x[:extent])
    assert not memory["z"][extent:].any()
    wide = [
        s for s in statements((taken.body,)) if isinstance(s, Loop) and s.kind is LoopKind.VECTOR
    ]
    assert bool(wide) is (extent >= 4)


def test_vector_constants_of_exp_are_hoisted_out_of_the_loop() -> None:
    power = Call(function=MathFunction.EXP, argument=load(X, r=1, i=1))
    made = vectorise_inner_loops(
        program(1, (loop("i", 20, (Store(buffer=Y, index=at(i=1), value=power),)),), X, Y), 1
    )
    optimised = run_passes(made, ALL_PASSES, PassOptions())
    (inner,) = (s for s in statements(optimised.body.body) if isinstance(s, Loop))
    assert not any(isinstance(v, Const) and v.lanes > 1 and v.value for v in values(inner.body))
    memory = {"x": np.linspace(-3, 3, X.size, dtype=np.float32), "y": np.zeros(Y.size, np.float32)}
    got = execute_program(optimised, ALL_PASSES, memory)["y"]
    assert np.allclose(got, np.exp(memory["x"][: Y.size]), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("rows", "columns", "blocked"),
    [(4, 5, True), (5, 4, True), (6, 3, True), (3, 6, False), (2, 10, False), (20, 1, False)],
)
def test_a_transposition_of_at_least_4x4_or_to_rows_of_three_is_blocked_and_right(
    rows: int, columns: int, blocked: bool
) -> None:
    store = Store(buffer=Y, index=at(i=columns, j=1), value=load(X, i=1, j=rows))
    plain = program(1, (loop("i", rows, (loop("j", columns, (store,)),)),), X, Y)
    squares = transpose_in_blocks(plain, 8)
    assert (squares != plain) is blocked
    memory = {"x": np.arange(X.size, dtype=np.float32), "y": np.zeros(Y.size, np.float32)}
    wanted = np.zeros(Y.size, np.float32)
    size = rows * columns
    wanted[:size] = memory["x"][:size].reshape(columns, rows).T.ravel()
    optimised = run_passes(squares, ALL_PASSES, PassOptions())
    assert np.array_equal(execute_program(optimised, ALL_PASSES, memory)["y"], wanted)
    interpret(squares, memory, low=0, high=1)
    assert np.array_equal(memory["y"], wanted)


@pytest.mark.parametrize(("rows", "columns"), [(4, 5), (6, 4), (6, 3)])
def test_transpositions_with_padding_that_stand_in_a_loop_are_blocked_and_right(
    rows: int, columns: int
) -> None:
    """Two pictures of rows · columns, with a row of ones before each of their transposes."""
    pixels, padded = rows * columns, (rows + 1) * columns
    x, y = parameter("x", 2 * pixels), parameter("y", 2 * padded)
    place = at(b=padded, i=columns, j=1)
    inside = Store(buffer=y, index=place, value=load(x, -1, b=pixels, i=1, j=rows))
    outside = Store(buffer=y, index=place, value=number(1))
    guard = If(bounds=(Bound(index=at(i=-1), limit=0),), body=(inside,), otherwise=(outside,))
    nests = loop("i", rows + 1, (loop("j", columns, (guard,)),))
    plain = program(1, (loop("b", 2, (nests,)),), x, y)
    squares = transpose_in_blocks(plain, 8)
    assert any(isinstance(value, Shuffle) for value in values((squares.body,)))
    memory = {"x": np.arange(x.size, dtype=np.float32), "y": np.zeros(y.size, np.float32)}
    pictures = memory["x"].reshape(2, columns, rows).swapaxes(1, 2)
    wanted = np.pad(pictures, ((0, 0), (1, 0), (0, 0)), constant_values=1).ravel()
    optimised = run_passes(squares, ALL_PASSES, PassOptions())
    assert np.array_equal(execute_program(optimised, ALL_PASSES, memory)["y"], wanted)
    interpret(squares, memory, low=0, high=1)
    assert np.array_equal(memory["y"], wanted)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (16, 8), (39, 9), (6, 21)])
def test_what_is_computed_of_transposed_entries_is_made_in_tiles_and_right(
    rows: int, columns: int
) -> None:
    """y = x transposed, plus a number for each column, times one for each row."""
    x, y = parameter("x", rows * columns), parameter("y", rows * columns)
    b, c = parameter("b", columns), parameter("c", rows)
    total = binary(BinaryOp.ADD, load(x, i=1, j=rows), load(b, j=1))
    value = binary(BinaryOp.MUL, total, load(c, i=1))
    store = Store(buffer=y, index=at(i=columns, j=1), value=value)
    plain = program(1, (loop("i", rows, (loop("j", columns, (store,)),)),), x, b, c, y)
    tiled = transpose_in_blocks(plain, 8)
    assert any(isinstance(value, Shuffle) for value in values((tiled.body,)))
    random = np.random.default_rng(5)
    sizes = {"x": x.size, "b": columns, "c": rows, "y": y.size}
    memory = {name: random.random(size, np.float32) for name, size in sizes.items()}
    wanted = (memory["x"].reshape(columns, rows).T + memory["b"]) * memory["c"][:, None]
    optimised = run_passes(tiled, ALL_PASSES, PassOptions(vectors=2))
    assert np.array_equal(execute_program(optimised, ALL_PASSES, memory)["y"], wanted.ravel())
    interpret(tiled, memory, low=0, high=1)
    assert np.array_equal(memory["y"], wanted.ravel())
