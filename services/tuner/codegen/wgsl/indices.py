"""Affine forms as text. Variables are u32, and sums of them wrap, so that only results count."""

from collections.abc import Callable
from dataclasses import dataclass, field

from services.tuner.codegen.wgsl.names import Names
from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.kinds import BinaryOp, Element
from services.tuner.ir.nodes import Binary, Bound, Const, Expression, IndexValue

_INFIX = {
    BinaryOp.ADD: "+",
    BinaryOp.MUL: "*",
    BinaryOp.FLOOR_DIV: "/",
    BinaryOp.FLOOR_MOD: "%",
}
_DIVISIONS = (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """`ranges` are those of the variables in sight; they grow as the text does."""

    names: Names
    ranges: dict[str, Range] = field(default_factory=dict)

    def variable(self, var: str) -> str:
        return self.names.of("variable", var)

    def text(self, index: Affine, divisor: int = 1) -> str:
        """The index, or what it is in units of `divisor` elements where all of it divides."""
        parts = ""
        for var, factor in sorted(index.terms, key=_negative):
            size = abs(factor) // divisor
            name = self.variable(var)
            term = name if size == 1 else f"{name} * {size}u"
            if factor < 0:
                parts = f"{parts or '0u'} - {term}"
            else:
                parts = f"{parts} + {term}" if parts else term
        constant = index.constant // divisor
        if constant < 0:
            return f"{parts or '0u'} - {-constant}u"
        if constant or not parts:
            return f"{parts} + {constant}u" if parts else f"{constant}u"
        return parts

    def bound(self, bound: Bound) -> str:
        low, _ = bound.index.bounds(self.ranges)
        text = self.text(bound.index)
        if low >= 0 and bound.limit >= 0:
            return f"{text} < {bound.limit}u"
        return f"i32({text}) < {bound.limit}"

    def unsigned(self, value: Expression, signed: Callable[[Expression], str]) -> str:
        """An i32 value as u32; without a detour where it cannot be negative."""
        return self._natural(value) or f"u32({signed(value)})"

    def _natural(self, value: Expression) -> str:
        """'' where the value, or a part of it, may be negative."""
        match value:
            case Const(value=number, element=Element.I32, lanes=1) if number >= 0:
                return f"{int(number)}u"
            case IndexValue(index=index) if index.bounds(self.ranges)[0] >= 0:
                text = self.text(index)
                return text if not index.constant and len(index.terms) == 1 else f"({text})"
            case Binary(op=op, right=Const(value=0)) if op in _DIVISIONS:
                return ""
            case Binary(op=op, left=left, right=right) if op in _INFIX:
                one, other = self._natural(left), self._natural(right)
                return f"({one} {_INFIX[op]} {other})" if one and other else ""
            case Binary(op=BinaryOp.MIN | BinaryOp.MAX as op, left=left, right=right):
                one, other = self._natural(left), self._natural(right)
                return f"{op}({one}, {other})" if one and other else ""
        return ""


def _negative(term: tuple[str, int]) -> bool:
    return term[1] < 0
