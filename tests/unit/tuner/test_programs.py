"""Programs straight from TVM, unscheduled: integers, conditions, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm import s_tir, te, tirx

from kernelzoo.errors import UnsupportedProgram
from services.tuner.compile import compile_program
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.text import program_text
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node
from tests.snapshots import Golden
from tests.unit.tuner.execution import Floats, run_program

RANDOM = np.random.default_rng(11)
TABLE = RANDOM.random((9, 13), dtype=np.float32) - np.float32(0.5)
VECTOR = RANDOM.random(40, dtype=np.float32) - np.float32(0.5)
Case = tuple[Node, list[NDArray[np.generic]], NDArray[np.generic]]


def _zero(value: float = 0.0) -> Node:
    return tirx.const(value, "float32")


def gather(dtype: str = "int32") -> Case:
    """Rows of a table by index; an index outside of the table takes its nearest row."""
    indices = np.array([3, 8, 0, 100, -7, 5], dtype)
    x, i = te.placeholder((9, 13), name="x"), te.placeholder((6,), name="i", dtype=dtype)
    low, high = tirx.const(0, dtype), tirx.const(8, dtype)
    c = te.compute((6, 13), lambda m, n: x[te.max(te.min(i[m], high), low), n], name="c")
    return te.create_prim_func([x, i, c]), [TABLE, indices], TABLE[np.clip(indices, 0, 8)]


def gather_by_long_indices() -> Case:
    return gather("int64")


def quantised_matmul() -> Case:
    """int8 weights with a scale for each column."""
    b = RANDOM.integers(-128, 128, (13, 11)).astype(np.int8)
    s = RANDOM.random(11, dtype=np.float32)
    x = te.placeholder((9, 13), name="x")
    w = te.placeholder((13, 11), name="w", dtype="int8")
    scale = te.placeholder((11,), name="scale")
    k = te.reduce_axis((0, 13), name="k")
    total = te.compute(
        (9, 11), lambda m, n: te.sum(x[m, k] * w[k, n].astype("float32"), axis=k), name="total"
    )
    c = te.compute((9, 11), lambda m, n: total[m, n] * scale[n], name="c")
    wanted = TABLE.astype(np.float64) @ b.astype(np.float64) * s
    return te.create_prim_func([x, w, scale, c]), [TABLE, b, s], wanted


def dequantised() -> Case:
    """Four int8 at once."""
    q = RANDOM.integers(-128, 128, 37).astype(np.int8)
    x = te.placeholder((37,), name="q", dtype="int8")
    c = te.compute((37,), lambda i: x[i].astype("float32") * _zero(0.5), name="c")
    return te.create_prim_func([x, c]), [q], q.astype(np.float64) / 2


def reshaped() -> Case:
    """Division and remainder by what no loop is split by."""
    x = te.placeholder((40,), name="x")
    c = te.compute((8, 5), lambda i, j: x[((i * 5 + j) * 3) % 40 // 2], name="c")
    at = (np.arange(40).reshape(8, 5) * 3) % 40 // 2
    return te.create_prim_func([x, c]), [VECTOR], VECTOR[at]


def negative_remainder() -> Case:
    x = te.placeholder((40,), name="x")
    c = te.compute((40,), lambda i: x[tirx.floormod(i * 7 - 100, 40)], name="c")
    return te.create_prim_func([x, c]), [VECTOR], VECTOR[(np.arange(40) * 7 - 100) % 40]


def chosen_by_value() -> Case:
    """Both sides are computed, four lanes at once."""
    x = te.placeholder((40,), name="x")

    def entry(i: Node) -> Node:
        small = tirx.any(x[i] < _zero(-0.25), tirx.all(x[i] > _zero(0.1), x[i] <= _zero(0.3)))
        return tirx.Select(small, x[i] * _zero(2), te.max(x[i], _zero()))

    c = te.compute((40,), entry, name="c")
    small = (VECTOR < -0.25) | ((VECTOR > 0.1) & (VECTOR <= 0.3))
    return te.create_prim_func([x, c]), [VECTOR], np.where(small, VECTOR * 2, np.maximum(VECTOR, 0))


def branched_on_a_value() -> Case:
    """A condition on a loaded value decides which element is read at all."""
    x = te.placeholder((40,), name="x")
    at = te.placeholder((40,), name="at", dtype="int32")
    index = RANDOM.integers(-5, 45, 40).astype(np.int32)

    def entry(i: Node) -> Node:
        inside = tirx.all(at[i] >= 0, at[i] < 40)
        return tirx.if_then_else(inside, x[te.max(te.min(at[i], 39), 0)], _zero(-1))

    c = te.compute((40,), entry, name="c")
    inside = (index >= 0) & (index < 40)
    return (
        te.create_prim_func([x, at, c]),
        [VECTOR, index],
        np.where(inside, VECTOR[np.clip(index, 0, 39)], -1),
    )


def nested_conditions() -> Case:
    x = te.placeholder((40,), name="x")

    def entry(i: Node) -> Node:
        outer = tirx.any(i < 3, i >= 30, i == 12)
        inner = tirx.if_then_else(tirx.Not(tirx.all(i > 10, i < 20)), x[i] * _zero(2), x[39 - i])
        return tirx.if_then_else(outer, _zero(7), inner) + x[0]

    c = te.compute((40,), entry, name="c")
    i = np.arange(40)
    inner = np.where(~((i > 10) & (i < 20)), VECTOR * 2, VECTOR[::-1])
    wanted = np.where((i < 3) | (i >= 30) | (i == 12), 7, inner) + VECTOR[0]
    return te.create_prim_func([x, c]), [VECTOR], wanted


def positions() -> Case:
    """Loop variables as numbers, and numbers that become whole."""
    x = te.placeholder((40,), name="x")
    c = te.compute(
        (40,),
        lambda i: (
            (i * 3 - 7).astype("float32") + (x[i] * _zero(10)).astype("int32").astype("float32")
        ),
        name="c",
    )
    wanted = np.arange(40) * 3 - 7 + np.trunc(VECTOR.astype(np.float64) * 10)
    return te.create_prim_func([x, c]), [VECTOR], wanted


def powers() -> Case:
    x = te.placeholder((40,), name="x")
    c = te.compute((40,), lambda i: te.power(te.power(x[i], _zero(2)), _zero(0.5)), name="c")
    return te.create_prim_func([x, c]), [VECTOR], np.abs(VECTOR)


CASES: tuple[Callable[[], Case], ...] = (
    gather,
    gather_by_long_indices,
    quantised_matmul,
    dequantised,
    reshaped,
    negative_remainder,
    chosen_by_value,
    branched_on_a_value,
    nested_conditions,
    positions,
    powers,
)


@pytest.mark.parametrize("case", CASES)
def test_a_plain_program_computes_what_it_states(case: Callable[[], Case], golden: Golden) -> None:
    function, inputs, wanted = case()
    program = plain_program(function)
    assert faults(program, Phase.SCHEDULED) == ()
    made = compile_program(function, case.__name__)
    if case is not branched_on_a_value:  # the check does not see that the same value is read again
        assert faults(made.program, Phase.STRENGTH_REDUCED) == ()
    flat = [array.ravel() for array in inputs]
    got = run_program(made, flat, wanted.size)
    assert np.allclose(got, wanted.ravel(), rtol=0, atol=2e-6 * max(1, np.abs(wanted).max()))
    output = np.full(wanted.size, np.nan, np.float32)
    names = [buffer.name for buffer in program.parameters]
    arrays = dict(zip(names, [*(array.copy() for array in flat), output], strict=True))
    interpret(program, arrays, low=0, high=1)
    assert np.allclose(output, got, rtol=0, atol=2e-6 * max(1, np.abs(wanted).max()))
    golden(f"program-{case.__name__}.txt", program_text(made.program))


def test_an_index_of_any_value_stays_inside_the_table() -> None:
    function, (table, _), _ = gather()
    made = compile_program(function, "gather")
    indices = np.array([2**31 - 1, -(2**31), 0, 8, 9, -1], np.int32)
    got = run_program(made, [table.ravel(), indices], 6 * 13).reshape(6, 13)
    assert np.array_equal(got, TABLE[[8, 0, 0, 8, 8, 0]])


def mapped(value: Callable[[Node], Node], dtype: str = "float32") -> Node:
    x = te.placeholder((40,), name="x", dtype=dtype)
    return te.create_prim_func([x, te.compute((40,), lambda i: value(x[i]), name="c")])


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda: mapped(te.atan), "^odd: function tirx.atan is not lowered"),
        (lambda: mapped(lambda x: x, "float64"), "^odd: buffer x of float64 is not lowered"),
        (
            lambda: mapped(lambda x: tirx.Shuffle([x, x], [tirx.const(0)])),
            "^odd: Shuffle is not lowered by the visit of TVM programs",
        ),
    ],
)
def test_what_is_not_lowered_is_named_with_its_workload(
    function: Callable[[], Node], sentence: str
) -> None:
    with pytest.raises(UnsupportedProgram, match=sentence) as refusal:
        compile_program(function(), "odd")
    assert "\n" not in str(refusal.value)


def test_a_reduction_to_one_entry_is_not_sliced() -> None:
    x = te.placeholder((400,), name="x")
    k = te.reduce_axis((0, 400), name="k")
    function = te.create_prim_func([x, te.compute((1,), lambda _: te.sum(x[k], axis=k), name="c")])
    made = compile_program(function, "sum")
    values: Floats = np.ones(400, np.float32)
    assert made.range_extent == 1
    assert run_program(made, [values], 1)[0] == 400


def test_unrolling_to_too_many_stores_is_refused() -> None:
    x = te.placeholder((1 << 16,), name="x")
    function = te.create_prim_func([x, te.compute((1 << 16,), lambda i: x[i] + x[0], name="c")])
    schedule = s_tir.Schedule(function)
    schedule.unroll(schedule.get_loops(schedule.get_sblock("c"))[0])
    with pytest.raises(UnsupportedProgram, match=r"^wide: unrolling makes more than 20000 stores"):
        compile_program(schedule.mod["main"], "wide")


def test_too_much_scratch_memory_is_refused() -> None:
    x = te.placeholder((1 << 14,), name="x")
    shape = (1 << 14, 1 << 14)
    product = te.compute(shape, lambda i, j: x[i] * x[j], name="product")
    k = te.reduce_axis((0, 1 << 14), name="k")
    c = te.compute((1 << 14,), lambda i: te.sum(product[i, k], axis=k), name="c")
    with pytest.raises(UnsupportedProgram, match=r"^outer: the program keeps 1073741824 bytes"):
        compile_program(te.create_prim_func([x, c]), "outer")
