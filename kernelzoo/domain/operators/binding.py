"""An operator's definition with numbers in the place of its extents.

What the numbers decide is left out: constants are folded, a condition that always holds goes, and
so does a stage that then copies its input, as the padded image of a convolution without padding.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import add, and_, floordiv, mod, mul, rshift, sub, truediv
from typing import Any

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Extent,
    Integer,
    Program,
    Read,
    Real,
    Scatter,
    Stage,
    number,
)

_ARITHMETIC: Mapping[BinaryOp, Callable[[Any, Any], Any]] = {
    BinaryOp.ADD: add,
    BinaryOp.SUB: sub,
    BinaryOp.MUL: mul,
    BinaryOp.DIV: truediv,
    BinaryOp.FLOOR_DIV: floordiv,
    BinaryOp.FLOOR_MOD: mod,
    BinaryOp.MIN: min,
    BinaryOp.MAX: max,
    BinaryOp.POW: pow,
    BinaryOp.SHIFT_RIGHT: rshift,
    BinaryOp.BIT_AND: and_,
}
"""These are computed before a program runs where both sides are extents, positions or constants."""
MAX_FOLDED_EXPONENT = 32
_DIVISIONS = (BinaryOp.DIV, BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)
"""Operations that have no value where the right operand is 0."""
_NOTHING = {(BinaryOp.ADD, 0), (BinaryOp.SUB, 0), (BinaryOp.MUL, 1), (BinaryOp.FLOOR_DIV, 1)}
"""Operations of an integer and this right operand that leave it as it is."""


def bound(program: Program, extents: Mapping[str, int]) -> Program:
    """`extents` by the names of `Extent`. Raises KeyError for a name without a number."""
    shapes = {each.name: each.shape for each in program.inputs}
    copied: dict[str, str] = {}
    kept = {program.output.name, *(update.stage for update in program.updates)}
    stages = []
    for stage in program.stages:
        made = _bound_stage(stage, extents, copied)
        source = _copied(made, shapes)
        if source and stage.name not in kept:
            copied[stage.name] = source
        else:
            stages.append(made)
    return replace(program, stages=tuple(stages))


def extent_of(expression: Expression, extents: Mapping[str, int]) -> int:
    """The number that an expression of extents is. A search asks for it thousands of times."""
    match expression:
        case Integer(value):
            return value
        case Extent(name):
            return extents[name]
        case Binary(op, left, right):
            return int(_ARITHMETIC[op](extent_of(left, extents), extent_of(right, extents)))
    raise TypeError(f"{expression} is no extent")


def _bound_stage(stage: Stage, extents: Mapping[str, int], copied: Mapping[str, str]) -> Stage:
    def axis(each: Axis) -> Axis:
        return Axis(each.name, Integer(extent_of(each.extent, extents)))

    return Stage(
        name=stage.name,
        axes=tuple(map(axis, stage.axes)),
        value=_bound(stage.value, extents, copied),
        reducer=stage.reducer,
        over=tuple(map(axis, stage.over)),
        dtype=stage.dtype,
    )


def _copied(stage: Stage, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The input of which a stage is a copy, or ''."""
    match stage.value:
        case Read(tensor, at) if at == stage.axes and stage.reducer is None:
            return tensor if shapes.get(tensor) == stage.shape else ""
    return ""


def _bound(
    expression: Expression, extents: Mapping[str, int], copied: Mapping[str, str]
) -> Expression:
    def inside(part: Expression) -> Expression:
        return _bound(part, extents, copied)

    match expression:
        case Integer() | Real():
            return expression
        case Extent(name):
            return Integer(extents[name])
        case Axis(name, extent):
            return Axis(name, Integer(extent_of(extent, extents)))
        case Read(tensor, at):
            return Read(copied.get(tensor, tensor), tuple(map(inside, at)))
        case Binary(op, left, right):
            return _folded(op, inside(left), inside(right))
        case Call(function, argument):
            return Call(function, inside(argument))
        case Cast(argument, DType.F32):
            whole = inside(argument)
            return Real(float(whole.value)) if isinstance(whole, Integer) else Cast(whole)
        case Cast(argument, dtype):
            return Cast(inside(argument), dtype)
        case Choice(conditions, then, otherwise):
            told = (Comparison(c.op, inside(c.left), inside(c.right)) for c in conditions)
            open_ones = tuple(each for each in told if not _always(each))
            return Choice(open_ones, inside(then), inside(otherwise)) if open_ones else inside(then)
        case Scatter(initial, update, at):
            return Scatter(inside(initial), inside(update), tuple(map(inside, at)))
    raise TypeError(f"{expression!r} is no tensor expression")


def _folded(op: BinaryOp, left: Expression, right: Expression) -> Expression:
    match left, right:
        case (Integer(a), Integer(b)) if _is_known(op, a, b):
            return Integer(_ARITHMETIC[op](a, b))
        case (Real(a), Real(b)) if (op not in _DIVISIONS or b) and (
            op is not BinaryOp.POW or (a > 0 and abs(b) < MAX_FOLDED_EXPONENT)
        ):
            return Real(_ARITHMETIC[op](a, b))
        case (_, Integer(b)) if (op, b) in _NOTHING:
            return left
    return Binary(op, left, right)


def _is_known(op: BinaryOp, left: int, right: int) -> bool:
    """Returns whether Python's integers, which have no end, give the same result as those of 32
    bits."""
    if op not in _ARITHMETIC or op is BinaryOp.POW or (op in _DIVISIONS and not right):
        return False
    if op is BinaryOp.SHIFT_RIGHT and right < 0:
        return False
    least, most = DType.I32.value_range
    return bool(least <= _ARITHMETIC[op](left, right) <= most)


def _always(comparison: Comparison) -> bool:
    """Returns whether a comparison holds at every place."""
    left, right = position_range(comparison.left), position_range(comparison.right)
    if left is None or right is None:
        return False
    match comparison.op:
        case CompareOp.LT:
            return left[1] < right[0]
        case CompareOp.LE:
            return left[1] <= right[0]
        case CompareOp.EQ:
            return left[0] == left[1] == right[0] == right[1]
        case CompareOp.NE:
            return left[1] < right[0] or right[1] < left[0]


def position_range(expression: Expression) -> tuple[int, int] | None:
    """The least and the largest value of a position, shifted or scaled; None for anything else."""
    match expression:
        case Integer(value):
            return value, value
        case Axis(_, extent):
            return 0, number(extent) - 1
        case Binary(BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL as op, left, Integer(value)):
            inner = position_range(left)
            if inner is None:
                return None
            low, high = sorted(_ARITHMETIC[op](end, value) for end in inner)
            return low, high
        case Binary(BinaryOp.FLOOR_MOD, _, Integer(value)) if value > 0:
            return 0, value - 1
    return None
