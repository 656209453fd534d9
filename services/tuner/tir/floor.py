"""Exact floor division of affine forms, where loop ranges prove that it is affine again."""

from collections.abc import Mapping

from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Range


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
    rest = index.plus(whole.times(-divisor))
    low, high = rest.bounds(ranges)
    if low < 0 or high >= divisor:
        raise UnsupportedProgram(
            f"an index divided by {divisor} is not affine; split its loop by {divisor}"
        )
    return whole, rest
