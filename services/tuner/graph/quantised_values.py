"""Tells expressions that make bytes of real numbers, and real numbers of bytes.

whole(min(max(round(x / s) + real(z), 0), 255)) + least         steps_of_bytes
real(y - z) * s                                                 real_bytes
"""

from dataclasses import dataclass

from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Expression,
    Function,
    Integer,
    Read,
    Real,
)

BYTE = (0, 255)
Number = Read | Real


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Bytes that are the steps of `scale` next to real numbers, from `zero` on; `least` is added to
    each."""

    real: Expression
    scale: Number
    zero: Expression
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RealBytes:
    """Integers less their zero point, times a scale, which is None where there is none."""

    held: Expression
    zero: Read | int
    scale: Number | None


def steps_of_bytes(value: Expression) -> Steps | None:
    """None where it is not what was done."""
    least = 0
    match value:
        case Binary(BinaryOp.ADD, inner, Integer(start)):
            value, least = inner, start
    match value:
        case Cast(Binary(BinaryOp.MIN, Binary(BinaryOp.MAX, moved, Real(low)), Real(high))):
            if (low, high) != BYTE:
                return None
        case _:
            return None
    zero: Expression = Cast(Integer(0))
    match moved:
        case Binary(BinaryOp.ADD, Call(Function.ROUND, rounded), zero):
            pass
        case Call(Function.ROUND, rounded):
            pass
        case _:
            return None
    match rounded:
        case Binary(BinaryOp.DIV, real, Real() | Read() as scale):
            return Steps(real=real, scale=scale, zero=zero, least=least)
    return Steps(real=rounded, scale=Real(1.0), zero=zero, least=least)


def real_bytes(value: Expression) -> RealBytes | None:
    """None for other expressions. What is no product has no scale."""
    scale: Number | None = None
    match value:
        case Binary(BinaryOp.MUL, inner, Real() | Read() as scale):
            value = inner
    match value:
        case Cast(Binary(BinaryOp.SUB, held, Integer(zero))):
            return RealBytes(held=held, zero=zero, scale=scale)
        case Cast(Binary(BinaryOp.SUB, held, Read() as point)):
            return RealBytes(held=held, zero=point, scale=scale)
        case Binary(BinaryOp.SUB, Cast(held), Real(number)) if number.is_integer():
            return RealBytes(held=held, zero=int(number), scale=scale)
        case Binary(BinaryOp.SUB, Cast(held), Cast(Read() as point)):
            return RealBytes(held=held, zero=point, scale=scale)
        case Cast(held):
            return RealBytes(held=held, zero=0, scale=scale)
    return None
