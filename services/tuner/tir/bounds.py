"""Comparisons of integers as bounds of affine forms."""

from collections.abc import Mapping

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import Bound, CompareOp


def integer_bounds(op: CompareOp, difference: Affine, *, holds: bool) -> tuple[Bound, ...] | None:
    """What keeps `difference op 0`, or the opposite of it; None where that is one of several."""
    opposite = difference.times(-1)
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


def fits(bound: Bound, ranges: Mapping[str, Range]) -> bool:
    """Whether both sides are numbers of 32 bits, whatever the variables are: a difference of two
    that were loaded need not be one."""
    smallest, largest = DType.I32.value_range
    low, high = bound.index.bounds(ranges)
    return smallest <= min(low, bound.limit) and max(high, bound.limit) <= largest
