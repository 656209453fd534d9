"""Plain extremes: the larger of a value and a number is taken by an instruction that may drop NaN.

    c[i] = maximum(0, a[i])
→
    c[i] = max(a[i], 0)

max of WebAssembly is pmax, which gives its left operand where either is NaN. It is one instruction
of x86, where a maximum that keeps a NaN on either side is three.
"""

from math import isnan

from msgspec.structs import replace

from services.tuner.ir.nodes import Binary, BinaryOp, Const, Expression, Program
from services.tuner.ir.rewrite import map_values, with_operands

_PLAIN = {BinaryOp.MINIMUM: BinaryOp.MIN, BinaryOp.MAXIMUM: BinaryOp.MAX}


def with_plain_extremes(program: Program) -> Program:
    body = map_values(program.body.body, _plain)
    return replace(program, body=replace(program.body, body=body))


def _plain(expression: Expression) -> Expression:
    match with_operands(expression, _plain):
        case Binary(op=op, left=value, right=Const(value=number) as limit) if (
            op in _PLAIN and not isnan(number)
        ):
            return Binary(op=_PLAIN[op], left=value, right=limit)
        case Binary(op=op, left=Const(value=number) as limit, right=value) if (
            op in _PLAIN and not isnan(number)
        ):
            return Binary(op=_PLAIN[op], left=value, right=limit)
        case rebuilt:
            return rebuilt
