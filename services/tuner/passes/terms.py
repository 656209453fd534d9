"""Writes arithmetic as expressions of one number of lanes, with shared parts in registers."""

from services.tuner.ir.kinds import BinaryOp, CompareOp, Element, MathFunction
from services.tuner.ir.nodes import (
    Assign,
    Binary,
    Bitcast,
    Call,
    Compare,
    Const,
    Expression,
    MultiplyAdd,
    Read,
    Register,
    Select,
)


class Terms:
    """Owns the registers that it makes; `assigned` are their values, in order.

    `fma` lets a product and a sum round once; `native` functions may be called.
    """

    def __init__(
        self,
        prefix: str,
        lanes: int,
        *,
        fma: bool,
        native: frozenset[MathFunction] = frozenset(),
    ) -> None:
        self.native = native
        self.assigned: list[Assign] = []
        self._prefix = prefix
        self._lanes = lanes
        self._fma = fma

    def keep(self, value: Expression, element: Element = Element.F32) -> Read:
        """A value that is used more than once."""
        name = f"{self._prefix}.{len(self.assigned)}"
        register = Register(name=name, lanes=self._lanes, element=element)
        self.assigned.append(Assign(register=register, value=value))
        return Read(register=register)

    def number(self, value: float) -> Const:
        return Const(value=value, element=Element.F32, lanes=self._lanes)

    def whole(self, value: int) -> Const:
        return Const(value=value, element=Element.I32, lanes=self._lanes)

    def multiply_add(self, left: Expression, right: Expression, addend: Expression) -> Expression:
        if self._fma:
            return MultiplyAdd(left=left, right=right, addend=addend)
        return add(multiply(left, right), addend)

    def polynomial(self, coefficients: tuple[float, ...], x: Expression) -> Expression:
        """Horner's scheme; the constant coefficient comes first."""
        *lower, highest = coefficients
        value: Expression = self.number(highest)
        for coefficient in reversed(lower):
            value = self.multiply_add(value, x, self.number(coefficient))
        return value

    def scaled(self, value: Expression, exponent: Expression) -> Expression:
        """value·2ⁿ, where the low nine bits of `exponent` are n and the result is normal."""
        count = Const(value=23, element=Element.I32)
        bits = Bitcast(value=exponent, element=Element.I32)
        raised = Binary(op=BinaryOp.SHIFT_LEFT, left=bits, right=count)
        whole = add(Bitcast(value=value, element=Element.I32), raised)
        return Bitcast(value=whole, element=Element.F32)

    def with_sign_of(self, magnitude: Expression, signed: Expression) -> Expression:
        """`magnitude`, which is not negative, with the sign of another value, -0 included."""
        bits = Bitcast(value=signed, element=Element.I32)
        sign = Binary(op=BinaryOp.AND, left=bits, right=self.whole(-(1 << 31)))
        whole = Bitcast(value=magnitude, element=Element.I32)
        return Bitcast(value=Binary(op=BinaryOp.OR, left=whole, right=sign), element=Element.F32)


def add(left: Expression, right: Expression) -> Binary:
    return Binary(op=BinaryOp.ADD, left=left, right=right)


def subtract(left: Expression, right: Expression) -> Binary:
    return Binary(op=BinaryOp.SUB, left=left, right=right)


def multiply(left: Expression, right: Expression) -> Binary:
    return Binary(op=BinaryOp.MUL, left=left, right=right)


def divide(left: Expression, right: Expression) -> Binary:
    return Binary(op=BinaryOp.DIV, left=left, right=right)


def smaller(left: Expression, right: Expression) -> Binary:
    return Binary(op=BinaryOp.MIN, left=left, right=right)


def call(function: MathFunction, argument: Expression) -> Call:
    return Call(function=function, argument=argument)


def below(left: Expression, right: Expression, then: Expression, otherwise: Expression) -> Select:
    """`then` where left < right, else `otherwise`, also where either is no number."""
    condition = Compare(op=CompareOp.LT, left=left, right=right)
    return Select(condition=condition, then=then, otherwise=otherwise)
