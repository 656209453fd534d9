"""Values of the domain's tensor expressions in the loop IR, for nests that are written by hand."""

from collections.abc import Callable

from kernelzoo.domain.operators import expressions as domain
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.build import number
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Call,
    Compare,
    CompareOp,
    Expression,
    MathFunction,
    Select,
)

_BINARY = {
    domain.BinaryOp.ADD: BinaryOp.ADD,
    domain.BinaryOp.SUB: BinaryOp.SUB,
    domain.BinaryOp.MUL: BinaryOp.MUL,
    domain.BinaryOp.DIV: BinaryOp.DIV,
    domain.BinaryOp.MIN: BinaryOp.MINIMUM,
    domain.BinaryOp.MAX: BinaryOp.MAXIMUM,
    domain.BinaryOp.POW: BinaryOp.POW,
    domain.BinaryOp.FMOD: BinaryOp.FMOD,
}
_NAMES = {domain.Function.ROUND: MathFunction.NEAREST.value}
_FUNCTIONS = {each: MathFunction(_NAMES.get(each, each.value)) for each in domain.Function}
_COMPARE = {
    domain.CompareOp.LT: CompareOp.LT,
    domain.CompareOp.LE: CompareOp.LE,
    domain.CompareOp.EQ: CompareOp.EQ,
    domain.CompareOp.NE: CompareOp.NE,
}

Found = Callable[[domain.Expression], Expression | domain.Expression | None]


def value_of(wanted: domain.Expression, found: Found) -> Expression:
    """A real number. `found` tells what an operand is, or which expression stands for it; None
    where it is what its own operands make. Both sides of a choice are computed.

    Raises UnsupportedProgram for an operation on integers.
    """

    def inside_choice(
        condition: domain.Comparison, then: domain.Expression, otherwise: domain.Expression
    ) -> Expression:
        op = condition.op
        if condition.left == condition.right and op is domain.CompareOp.NE:
            # Only NaN differs from itself, and is not at most itself.
            op, then, otherwise = domain.CompareOp.LE, otherwise, then
        holds = Compare(op=_COMPARE[op], left=inside(condition.left), right=inside(condition.right))
        return Select(condition=holds, then=inside(then), otherwise=inside(otherwise))

    def inside(part: domain.Expression) -> Expression:
        known = found(part)
        if isinstance(known, domain.Expression):
            return inside(known)
        if known is not None:
            return known
        match part:
            case domain.Real(value):
                return number(value)
            case domain.Binary(op, left, right) if op in _BINARY:
                return Binary(op=_BINARY[op], left=inside(left), right=inside(right))
            case domain.Call(function, argument):
                return Call(function=_FUNCTIONS[function], argument=inside(argument))
            case domain.Choice((condition, *others), then, otherwise):
                rest = domain.Choice(tuple(others), then, otherwise) if others else then
                return inside_choice(condition, rest, otherwise)
        raise UnsupportedProgram(f"{part} is no operation on real numbers")

    return inside(wanted)
