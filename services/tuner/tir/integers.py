"""Integer arithmetic on affine forms: floor division, comparisons, and how far results reach.

Nothing here knows TVM. A quotient or remainder is an affine form again where the ranges of loop
variables prove it; elsewhere the caller computes it as a value and needs its range.
"""

from collections.abc import Mapping
from itertools import product
from operator import floordiv, mul

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Bound, Range
from services.tuner.ir.nodes import BinaryOp, CompareOp


def floor_divide(index: Affine, divisor: int, ranges: Mapping[str, Range]) -> Affine:
    """⌊index / divisor⌋. Raises UnsupportedProgram where the remainder may leave 0 … divisor-1."""
    return _divide(index, divisor, ranges)[0]


def remainder(index: Affine, divisor: int, ranges: Mapping[str, Range]) -> Affine:
    """index mod divisor, never negative. Raises as `floor_divide` does."""
    return _divide(index, divisor, ranges)[1]


def _divide(index: Affine, divisor: int, ranges: Mapping[str, Range]) -> tuple[Affine, Affine]:
    whole = Affine(
        constant=index.constant // divisor,
        terms=tuple((var, c // divisor) for var, c in index.terms if c % divisor == 0),
    )
    rest = index + whole * -divisor
    low, high = rest.bounds(ranges)
    if low < 0 or high >= divisor:
        raise UnsupportedProgram(
            f"an index divided by {divisor} is not affine; split its loop by {divisor}"
        )
    return whole, rest


def combined(op: BinaryOp, left: Range, right: Range) -> Range:
    """The least and the largest result, given those of the operands.

    Raises UnsupportedProgram for a divisor that may not be positive.
    """
    match op:
        case BinaryOp.MIN:
            return min(left[0], right[0]), min(left[1], right[1])
        case BinaryOp.MAX:
            return max(left[0], right[0]), max(left[1], right[1])
        case BinaryOp.MUL:
            corners = [mul(*pair) for pair in product(left, right)]
            return min(corners), max(corners)
        case BinaryOp.FLOOR_DIV if right[0] > 0:
            corners = [floordiv(*pair) for pair in product(left, right)]
            return min(corners), max(corners)
        case BinaryOp.FLOOR_MOD if right[0] > 0:
            return 0, right[1] - 1
    raise UnsupportedProgram(
        f"an index is {op} of values from {left[0]} to {left[1]} and {right[0]} to {right[1]}; "
        "restate it with a positive divisor"
    )


def integer_bounds(op: CompareOp, difference: Affine, *, holds: bool) -> tuple[Bound, ...] | None:
    """Returns the bounds that keep `difference op 0`, or the opposite of it; None where that is one
    of several."""
    opposite = difference * -1
    match op, holds:
        case (CompareOp.LT, True):
            return (below(difference, 0),)
        case (CompareOp.LT, False):
            return (below(opposite, 1),)
        case (CompareOp.LE, True):
            return (below(difference, 1),)
        case (CompareOp.LE, False):
            return (below(opposite, 0),)
        case (CompareOp.EQ, True) | (CompareOp.NE, False):
            return (below(difference, 1), below(opposite, 1))
    return None


def below(index: Affine, limit: int) -> Bound:
    """The constant stands on the side of the limit."""
    return Bound(index=Affine(constant=0, terms=index.terms), limit=limit - index.constant)


def is_i32(index: Affine, ranges: Mapping[str, Range]) -> bool:
    """Returns whether the form is a number of 32 bits, whatever the variables are."""
    smallest, largest = DType.I32.value_range
    low, high = index.bounds(ranges)
    return smallest <= low and high <= largest


def fits(bound: Bound, ranges: Mapping[str, Range]) -> bool:
    """Returns whether both sides are numbers of 32 bits, whatever the variables are: a difference
    of two that were loaded need not be one."""
    smallest, largest = DType.I32.value_range
    low, high = bound.index.bounds(ranges)
    return smallest <= min(low, bound.limit) and max(high, bound.limit) <= largest
