"""Small loop programs that have nothing to do with matmul."""

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.nodes import (
    Allocate,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Call,
    Const,
    Expression,
    If,
    Load,
    Loop,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Store,
)


def parameter(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.PARAMETER, dtype=DType.F32, size=size)


def at(constant: int = 0, **coefficients: int) -> Affine:
    return Affine.of(constant, coefficients)


def load(buffer: Buffer, constant: int = 0, **coefficients: int) -> Load:
    return Load(buffer=buffer, index=at(constant, **coefficients))


def number(value: float) -> Const:
    return Const(value=value, dtype=DType.F32)


def binary(op: BinaryOp, left: Expression, right: Expression) -> Binary:
    return Binary(op=op, left=left, right=right)


def loop(var: str, extent: int, body: Block, kind: LoopKind = LoopKind.SERIAL) -> Loop:
    return Loop(var=var, extent=extent, kind=kind, body=body)


def program(extent: int, body: Block, *parameters: Buffer) -> Program:
    """`body` in a range loop over `r`."""
    return Program(parameters=parameters, body=loop("r", extent, body, LoopKind.RANGE))


X = parameter("x", 40)
Y = parameter("y", 20)
ACCUMULATOR = Buffer(name="t", scope=Scope.LOCAL, dtype=DType.F32, size=4)

_ROOT = Call(function=MathFunction.SQRT, argument=load(X, v=1, r=4))


def strided() -> Program:
    """y[4r+v] = x[8r+2v] / 3: a vector loop over memory that is not consecutive."""
    value = binary(BinaryOp.DIV, load(X, v=2, r=8), number(3))
    store = Store(buffer=Y, index=at(v=1, r=4), value=value)
    return program(5, (loop("v", 4, (store,), LoopKind.VECTOR),), X, Y)


def elementwise() -> Program:
    """y[4r+v] = max(√x[4r+v], x[r]) - 0.25, four lanes at once."""
    value = binary(BinaryOp.MAX, _ROOT, load(X, r=1))
    store = Store(buffer=Y, index=at(v=1, r=4), value=binary(BinaryOp.SUB, value, number(0.25)))
    return program(5, (loop("v", 4, (store,), LoopKind.VECTOR),), X, Y)


def triangle() -> Program:
    """y[4r+i] = x[r] where r + i < 5, else -1: a condition that stays."""
    inside = Store(buffer=Y, index=at(i=1, r=4), value=load(X, r=1))
    outside = Store(buffer=Y, index=at(i=1, r=4), value=number(-1))
    bound = Bound(index=at(i=1, r=1), limit=5)
    return program(
        5, (loop("i", 4, (If(bounds=(bound,), body=(inside,), otherwise=(outside,)),)),), X, Y
    )


def indexed_local() -> Program:
    """y[4r+i] = x[r+3-i] through a local buffer that a serial loop indexes: it stays memory."""
    fill = Store(buffer=ACCUMULATOR, index=at(i=1), value=load(X, r=1, i=1))
    drain = Store(buffer=Y, index=at(j=1, r=4), value=load(ACCUMULATOR, 3, j=-1))
    body = (loop("i", 4, (fill,)), loop("j", 4, (drain,)))
    return program(5, (Allocate(buffer=ACCUMULATOR, body=body),), X, Y)


def overwritten() -> Program:
    """x[r] is read twice, x[r+1] written in between, both read again: nothing stale is used."""
    first = Store(buffer=Y, index=at(r=1), value=binary(BinaryOp.ADD, load(X, r=1), load(X, r=1)))
    change = Store(buffer=X, index=at(1, r=1), value=load(X, 20, r=1))
    again = Store(
        buffer=Y, index=at(10, r=1), value=binary(BinaryOp.MIN, load(X, 1, r=1), load(X, r=1))
    )
    return program(5, (first, change, again), X, Y)


ALL = (strided, elementwise, triangle, indexed_local, overwritten)
