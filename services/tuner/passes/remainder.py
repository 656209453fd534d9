"""The remainder of two real numbers, as C's fmod has it: exact, however large the quotient.

With x = a·2ᵖ and y = b·2ᵈ as whole numbers of 24 bits times powers of two, the remainder is that of
a·2ᵖ⁻ᵈ by b, times 2ᵈ. It is a long division: a digit of seven bits at a time, so that a remainder
times 2⁷ is an i32, and its quotient by b one that float32 errs by at most 1 in.
"""

from math import inf, nan

from kernelzoo.domain.dtype import DType
from services.tuner.ir.build import call
from services.tuner.ir.nodes import (
    CompareOp,
    Expression,
    MathFunction,
    RegisterRead,
)
from services.tuner.passes.expression_builder import (
    ExpressionBuilder,
)

_FRACTION_BITS = 23
_FRACTION = (1 << _FRACTION_BITS) - 1
_DIGIT_BITS = 7
_MOST_DIGITS = 37
"""So many of seven bits has the largest difference of two exponents, 253."""
_SEVENTH, _SEVENTH_BITS = 9363, 16
"""n · 9363 / 2¹⁶ without its fraction is n / 7 without its fraction, for n up to 253."""
_BIAS = 127


def remainder(x: Expression, y: Expression, build: ExpressionBuilder) -> Expression:
    """It has the sign of x, and is x where y is infinite, NaN where x is infinite or y is 0."""
    x, y = build.keep(x), build.keep(y)
    a, b = (build.keep(call(MathFunction.ABS, each)) for each in (x, y))
    (whole, exponent), (divisor, scale) = _parts(a, build), _parts(b, build)
    left = build.keep(exponent - scale, DType.I32)
    seventh = left * build.whole(_SEVENTH)
    digits = build.keep(seventh >> _SEVENTH_BITS, DType.I32)
    first = left - digits * build.whole(_DIGIT_BITS)
    rest = build.keep(_rest(whole, divisor, build), DType.I32)
    build.change(rest, _rest(rest * _power(first, build), divisor, build))
    with build.repeated(_MOST_DIGITS - 1):
        next_ = rest * build.whole(1 << _DIGIT_BITS)
        more = build.compared(CompareOp.LT, build.whole(0), digits)
        build.change(rest, build.where(more, _rest(next_, divisor, build), rest))
        build.change(digits, digits - build.whole(1))
    # A power of two that is no normal number is one of two factors that are.
    small = rest.cast(DType.F32) * build.number(2.0**-_FRACTION_BITS)
    size = build.keep(small * (scale << _FRACTION_BITS).bitcast(DType.F32))
    signed = build.below(x, build.number(0), size * build.number(-1), size)
    found = build.below(a, b, x, signed)
    finite = build.compared(CompareOp.LT, a, build.number(inf))
    divides = build.compared(CompareOp.LT, build.number(0), b)
    return build.where(finite & divides, found, build.number(nan))


def _parts(size: RegisterRead, build: ExpressionBuilder) -> tuple[RegisterRead, RegisterRead]:
    """A whole number of 24 bits and an exponent n of at least 1: size = whole · 2ⁿ⁻¹⁵⁰."""
    bits = build.keep(size.bitcast(DType.I32), DType.I32)
    exponent = build.keep(bits >> _FRACTION_BITS, DType.I32)
    fraction = build.keep(bits & build.whole(_FRACTION), DType.I32)
    normal = build.compared(CompareOp.LT, build.whole(0), exponent)
    whole = build.where(normal, fraction + build.whole(_FRACTION + 1), fraction)
    kept = build.where(normal, exponent, build.whole(1))
    return build.keep(whole, DType.I32), build.keep(kept, DType.I32)


def _rest(number: Expression, divisor: RegisterRead, build: ExpressionBuilder) -> Expression:
    number = build.keep(number, DType.I32)
    quotient = (number.cast(DType.F32) / divisor.cast(DType.F32)).cast(DType.I32)
    rest = build.keep(number - quotient * divisor, DType.I32)
    above = build.compared(CompareOp.LT, rest, build.whole(0))
    rest = build.keep(build.where(above, rest + divisor, rest), DType.I32)
    below = build.compared(CompareOp.LE, divisor, rest)
    return build.where(below, rest - divisor, rest)


def _power(exponent: Expression, build: ExpressionBuilder) -> Expression:
    """2ⁿ as a whole number."""
    return ((exponent + build.whole(_BIAS)) << _FRACTION_BITS).bitcast(DType.F32).cast(DType.I32)
