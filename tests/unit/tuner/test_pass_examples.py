"""The example at the head of each pass: its IR before and after, and what both compute."""

from collections.abc import Callable

import numpy as np
import pytest

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Bound
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import (
    Allocate,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
    Call,
    Const,
    If,
    IndexValue,
    Let,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    MultiplyAdd,
    Program,
    Scope,
    Store,
)
from services.tuner.ir.text import program_text
from services.tuner.passes.address_strength_reduction import reduce_address_strength
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.fma_contraction import contract_fma
from services.tuner.passes.loop_invariant_code_motion import hoist_lets, hoist_vectors
from services.tuner.passes.loop_partition import partition_loops
from services.tuner.passes.loop_unswitching import unswitch_loops
from services.tuner.passes.math_functions import expand_calls
from services.tuner.passes.scalar_replacement import promote_to_registers
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads
from services.tuner.passes.unrolling import unroll
from services.tuner.passes.vectorise import slice_outer_loop, vectorise_inner_loops
from tests.snapshots import Golden
from tests.unit.tuner.programs import at, binary, load, loop, number, parameter

SIZE = 512
A, B, X, Y = (parameter(name, SIZE) for name in "abxy")
LOCAL = Buffer(name="c", scope=Scope.LOCAL, dtype=DType.F32, size=4)


def whole(*body: Loop | Store | Allocate) -> Program:
    """`body` in a range of one iteration."""
    return Program(parameters=(A, B, X, Y), body=loop("whole", 1, body, LoopKind.RANGE))


def nest(outer: tuple[str, int], inner: tuple[str, int], *body: Store | If) -> Loop:
    return loop(*outer, (loop(*inner, body),))


def constant(value: float, lanes: int = 1) -> Const:
    return Const(value=value, dtype=DType.F32, lanes=lanes)


def four(buffer: Buffer, **coefficients: int) -> Load:
    return Load(buffer=buffer, index=at(**coefficients), lanes=4)


def _multiply_add() -> Program:
    product = binary(BinaryOp.MUL, load(A, i=1), load(B, i=1))
    value = binary(BinaryOp.ADD, load(Y, i=1), product)
    return whole(loop("i", 4, (Store(buffer=Y, index=at(i=1), value=value),)))


def _row_access() -> Program:
    return whole(
        nest(("i", 8), ("k", 4), Store(buffer=Y, index=at(i=1), value=load(A, 2, i=16, k=1)))
    )


def _guarded() -> Program:
    store = Store(buffer=Y, index=at(i=4, k=1), value=number(1))
    guard = Bound(index=at(i=4, k=1), limit=10)
    return whole(nest(("i", 3), ("k", 4), If(bounds=(guard,), body=(store,))))


def _invariant_condition() -> Program:
    one, two = (Store(buffer=Y, index=at(j=4, k=1), value=number(n)) for n in (1, 2))
    bounds = (Bound(index=at(j=1), limit=2), Bound(index=at(k=1), limit=3))
    return whole(nest(("j", 4), ("k", 4), If(bounds=bounds, body=(one,), otherwise=(two,))))


def _copied_rows() -> Program:
    return whole(
        nest(("i", 10), ("j", 18), Store(buffer=Y, index=at(i=18, j=1), value=load(X, j=1)))
    )


def _transposition() -> Program:
    store = Store(buffer=Y, index=at(i=8, j=1), value=load(X, j=8, i=1))
    return whole(nest(("i", 8), ("j", 8), store))


def _unrolled_product() -> Program:
    product = binary(BinaryOp.MUL, load(A, k=1), load(B, k=4, j=1))
    store = Store(buffer=Y, index=at(j=1), value=binary(BinaryOp.ADD, load(Y, j=1), product))
    vector = loop("j", 4, (store,), LoopKind.VECTOR)
    return whole(loop("k", 2, (vector,), LoopKind.UNROLLED))


def _invariant_let() -> Program:
    half = IndexValue(index=at(j=1)) // Const(value=2, dtype=DType.I32)
    store = Store(buffer=Y, index=at(v=1, k=1), value=load(X, k=1))
    let = Let(var="v", value=half, low=0, high=3, body=(store,))
    return whole(loop("j", 8, (loop("k", 8, (let,)),)))


def _vector_constant() -> Program:
    value = binary(BinaryOp.MUL, four(X, k=4), constant(1.5, 4))
    return whole(loop("k", 8, (Store(buffer=Y, index=at(k=4), value=value),)))


def _accumulator() -> Program:
    product = MultiplyAdd(
        left=Broadcast(value=load(A, k=1), lanes=4), right=four(B, k=4), addend=four(LOCAL)
    )
    body: Block = (
        Store(buffer=LOCAL, index=at(), value=constant(0, 4)),
        loop("k", 8, (Store(buffer=LOCAL, index=at(), value=product),)),
        Store(buffer=Y, index=at(), value=four(LOCAL)),
    )
    return whole(Allocate(buffer=LOCAL, body=body))


def _exponential() -> Program:
    power = Call(function=MathFunction.EXP, argument=load(X, i=1))
    return whole(loop("i", 4, (Store(buffer=Y, index=at(i=1), value=power),)))


def _copied_entries() -> Program:
    return whole(
        nest(("i", 64), ("j", 8), Store(buffer=Y, index=at(i=8, j=1), value=load(X, i=8, j=1)))
    )


def _row_sums() -> Program:
    first = (Bound(index=at(k=1), limit=1), Bound(index=at(k=-1), limit=1))
    start = If(bounds=first, body=(Store(buffer=Y, index=at(i=1), value=number(0)),))
    total = binary(BinaryOp.ADD, load(Y, i=1), load(X, i=8, k=1))
    return whole(nest(("i", 64), ("k", 8), start, Store(buffer=Y, index=at(i=1), value=total)))


Pass = Callable[[Program], Program]

EXAMPLES: dict[str, tuple[Callable[[], Program], Pass]] = {
    "fma-contraction": (_multiply_add, contract_fma),
    "address-strength-reduction": (_row_access, reduce_address_strength),
    "loop-partition": (_guarded, partition_loops),
    "loop-unswitching": (_invariant_condition, unswitch_loops),
    "vectorise": (_copied_rows, lambda one: vectorise_inner_loops(slice_outer_loop(one, 256), 1)),
    "blocked-transpose": (_transposition, lambda one: transpose_in_blocks(one, 8)),
    "unrolling": (_unrolled_product, unroll),
    "hoist-lets": (_invariant_let, hoist_lets),
    "hoist-vectors": (_vector_constant, hoist_vectors),
    "scalar-replacement": (_accumulator, promote_to_registers),
    "math-functions": (_exponential, lambda one: expand_calls(one, fma=False)),
    "thread-binding": (
        _copied_entries,
        lambda one: bind_threads(one, ThreadBinding(count=64, vectors=1, vec4=True)),
    ),
    "local-accumulator": (
        _row_sums,
        lambda one: bind_threads(one, ThreadBinding(count=64, vectors=1, vec4=False)),
    ),
}


def _loops(one: Program) -> str:
    """The text without the parameters, which are the same in all."""
    return "".join(
        line for line in program_text(one).splitlines(keepends=True) if line[:6] != "param "
    )


def _result(one: Program) -> np.ndarray:
    memory = {
        buffer.name: np.linspace(-2, 2, buffer.size, dtype=np.float32) for buffer in (A, B, X, Y)
    }
    interpret(one, memory, low=0, high=one.body.extent)
    return memory["y"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_makes_the_ir_of_its_example_and_keeps_what_it_computes(
    name: str, golden: Golden
) -> None:
    stated, run = EXAMPLES[name]
    before = stated()
    after = run(before)
    golden(f"pass-{name}.txt", f"{_loops(before)}→\n{_loops(after)}")
    assert after != before
    assert np.allclose(_result(after), _result(before), rtol=1e-6, atol=1e-6)
