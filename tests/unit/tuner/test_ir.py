"""The loop IR by itself: affine forms, what is legal, and programs that are no matmul."""

from collections.abc import Callable
from math import erf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.codegen.wasm.module import lower
from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Compare,
    CompareOp,
    Expression,
    If,
    Load,
    LoopKind,
    MathFunction,
    Program,
    Register,
    RegisterRead,
    Scope,
    Select,
    Statement,
    Store,
)
from services.tuner.ir.text import program_text
from services.tuner.passes.pipeline import ALL_PASSES, PassOptions, PassSwitches, run_passes
from services.tuner.tir.integers import floor_divide, remainder
from tests.unit.tuner.execution import Floats, execute_program
from tests.unit.tuner.programs import ALL, X, Y, at, binary, load, loop, number, program

NAMES = st.sampled_from("ijk")
AFFINE = st.builds(
    Affine.of, st.integers(-50, 50), st.dictionaries(NAMES, st.integers(-9, 9), max_size=3)
)


def evaluate(index: Affine, values: dict[str, int]) -> int:
    return index.constant + sum(c * values[var] for var, c in index.terms)


@given(
    one=AFFINE,
    other=AFFINE,
    factor=st.integers(-5, 5),
    values=st.fixed_dictionaries({name: st.integers(-9, 9) for name in "ijk"}),
)
def test_affine_forms_add_scale_and_substitute_as_numbers_do(
    one: Affine, other: Affine, factor: int, values: dict[str, int]
) -> None:
    value = evaluate(one, values)
    assert evaluate(one + other, values) == value + evaluate(other, values)
    assert evaluate(one * factor, values) == value * factor
    moved = evaluate(one.substitute("i", other), values)
    assert moved == evaluate(one, {**values, "i": evaluate(other, values)})
    low, high = one.bounds({name: (min(0, v), max(0, v)) for name, v in values.items()})
    assert low <= value <= high


def test_operators_make_the_nodes_that_they_stand_for() -> None:
    a, b = (Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=64) for name in "ab")
    words = replace(a, name="words", dtype=DType.I32)
    row, k = ir.variable("row"), ir.variable("k")
    left, right = (
        Load(buffer=a, index=Affine.of(0, {"row": 8, "k": 1})),
        Load(buffer=b, index=k, lanes=4),
    )
    assert (a[row * 8 + k], b.vector(k)) == (left, right)
    assert left * 2.0 == Binary(op=BinaryOp.MUL, left=left, right=ir.number(2.0))
    assert right - 1.0 == Binary(op=BinaryOp.SUB, left=right, right=ir.numbers(1.0))
    word = words[3]
    assert word.index == Affine(constant=3)
    assert word >> row == Binary(op=BinaryOp.SHIFT_RIGHT, left=word, right=ir.value(row))
    assert 0 - word == Binary(op=BinaryOp.SUB, left=ir.whole(0), right=word)
    assert left.less(1.0) == Compare(op=CompareOp.LT, left=left, right=ir.number(1.0))
    assert words.store(0, 7) == Store(buffer=words, index=ir.ZERO, value=ir.whole(7))
    assert a.store(row, 7) == Store(buffer=a, index=row, value=ir.number(7))


def test_a_form_below_a_limit_is_a_condition_and_no_truth_value() -> None:
    row, count = ir.variable("row"), ir.variable("count")
    assert (row + 2).below(8) == Bound(index=Affine.of(2, {"row": 1}), limit=8)
    assert row.below(count) == Bound(index=Affine.of(0, {"row": 1, "count": -1}), limit=0)
    assert row.at_least(3) == Bound(index=Affine.of(0, {"row": -1}), limit=-2)
    assert 7 - row == Affine.of(7, {"row": -1})
    with pytest.raises(TypeError, match="put it into an If"):
        bool(row.below(8))


@given(index=AFFINE, divisor=st.integers(1, 12))
def test_floor_division_is_exact_or_refused(index: Affine, divisor: int) -> None:
    ranges = {"i": (0, 3), "j": (0, 2), "k": (0, 1)}
    try:
        whole = floor_divide(index, divisor, ranges)
        rest = remainder(index, divisor, ranges)
    except UnsupportedProgram:
        return
    for i in range(4):
        for j in range(3):
            values = {"i": i, "j": j, "k": 1}
            at_point = evaluate(index, values)
            assert evaluate(whole, values) == at_point // divisor
            assert evaluate(rest, values) == at_point % divisor


def arrays(seed: int = 3) -> dict[str, Floats]:
    random = np.random.default_rng(seed)
    return {
        "x": random.random(X.size, dtype=np.float32),
        "y": np.zeros(Y.size, dtype=np.float32),
    }


def interpreted(one: Program) -> dict[str, Floats]:
    memory = arrays()
    interpret(one, memory, low=0, high=one.body.extent)
    return memory


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("variable", [True, False])
@pytest.mark.parametrize("hoisted", [True, False])
def test_hand_written_programs_compute_the_same_interpreted_and_compiled(
    build: Callable[[], Program], variable: bool, hoisted: bool
) -> None:
    switches = PassSwitches(scalar_replacement=variable, strength_reduction=hoisted)
    stated = build()
    assert faults(stated, Phase.SCHEDULED) == ()
    wanted = interpreted(stated)
    optimised = run_passes(stated, switches, PassOptions(fma=False))
    got = execute_program(optimised, switches, arrays())
    for name, values in wanted.items():
        assert np.array_equal(interpreted(optimised)[name], values)
        assert np.array_equal(got[name], values), program_text(optimised)


STORE = Store(buffer=Y, index=at(r=1), value=number(1))
WIDE = Broadcast(value=number(1), lanes=4)
REGISTER = Register(name="q", lanes=1)


@pytest.mark.parametrize(
    ("block", "stage", "sentence"),
    [
        ((replace(STORE, index=at(q=1)),), Phase.SCHEDULED, "no loop binds"),
        ((replace(STORE, index=at(17, r=1)),), Phase.UNROLLED, "leaves its 20 elements"),
        ((replace(STORE, index=at(-1, r=1)),), Phase.UNROLLED, "leaves its 20 elements"),
        (
            (replace(STORE, value=replace(WIDE, lanes=3)),),
            Phase.SCHEDULED,
            "3 lanes in a scheduled",
        ),
        ((loop("v", 4, (STORE,), LoopKind.VECTOR),), Phase.UNROLLED, "vector loop v"),
        ((loop("r", 4, (STORE,)),), Phase.UNROLLED, "hides another"),
        ((loop("q", 4, (STORE,), LoopKind.RANGE),), Phase.UNROLLED, "not the outermost"),
        (
            (replace(STORE, value=RegisterRead(register=REGISTER)),),
            Phase.SCALAR_REPLACED,
            "before it is",
        ),
        ((Assign(register=REGISTER, value=number(1)),), Phase.UNROLLED, "is assigned in"),
        ((Assign(register=REGISTER, value=WIDE),), Phase.SCALAR_REPLACED, "another number"),
        ((STORE,), Phase.STRENGTH_REDUCED, "has no pointer"),
        (
            (If(bounds=(Bound(index=at(r=1), limit=9),), body=(STORE,)),),
            Phase.PARTITIONED,
            "is decided",
        ),
        (
            (replace(STORE, buffer=replace(Y, name="elsewhere")),),
            Phase.SCHEDULED,
            "does not exist",
        ),
    ],
)
def test_a_program_that_breaks_a_rule_of_its_stage_is_reported(
    block: tuple[Statement, ...], stage: Phase, sentence: str
) -> None:
    found = faults(program(5, block, X, Y), stage)
    assert any(sentence in fault for fault in found), found


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Call(function=MathFunction.TANH, argument=load(X, r=1)), "Call"),
        (Cast(value=load(X, r=1), dtype=DType.I8), "Cast"),
        (binary(BinaryOp.SHIFT_LEFT, load(X, r=1), load(X, r=1)), "Binary"),
        (binary(BinaryOp.POW, load(X, r=1), load(X, r=1)), "Binary"),
    ],
)
def test_an_expression_that_wasm_does_not_have_is_refused_by_name(
    value: Expression, name: str
) -> None:
    with pytest.raises(UnsupportedProgram, match=f"^{name}.* is not lowered by the wasm printer"):
        lower(
            program(5, (replace(STORE, value=value),), X, Y), PassSwitches(strength_reduction=False)
        )


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        (Barrier(), "Barrier is not lowered by the wasm printer"),
        (
            loop("g", 4, (STORE,), LoopKind.THREAD_INDEX),
            "Loop is not lowered by the wasm printer",
        ),
        (
            Allocate(
                buffer=Buffer(name="w", scope=Scope.WORKGROUP, dtype=DType.F32, size=4),
                body=(STORE,),
            ),
            "Allocate is not lowered by a target of one thread for workgroup buffers",
        ),
    ],
)
def test_a_statement_that_wasm_does_not_have_is_refused_by_name(
    statement: Statement, refusal: str
) -> None:
    with pytest.raises(UnsupportedProgram, match=f"^{refusal}"):
        lower(program(5, (statement,), X, Y), ALL_PASSES)


def test_the_interpreter_evaluates_every_function_and_comparison() -> None:
    x = load(X, r=1)
    for function, wanted in (
        (MathFunction.EXP, np.exp),
        (MathFunction.TANH, np.tanh),
        (MathFunction.RSQRT, lambda v: 1 / np.sqrt(v)),
        (MathFunction.ERF, np.vectorize(erf)),
    ):
        below = Compare(op=CompareOp.LE, left=x, right=number(0.5))
        value = Select(
            condition=below, then=Call(function=function, argument=x), otherwise=number(0)
        )
        got = interpreted(program(5, (replace(STORE, value=value),), X, Y))["y"][:5]
        given_ = arrays()["x"][:5]
        assert np.allclose(got, np.where(given_ <= 0.5, wanted(given_), 0), rtol=1e-6)


def test_the_interpreter_refuses_an_access_out_of_bounds() -> None:
    with pytest.raises(IndexError, match=r"y\[20\]"):
        interpreted(program(5, (replace(STORE, index=at(16, r=1)),), X, Y))
