"""The logarithm, and y·ln x in two numbers, from which a power is made.

x = m·2ⁿ with m from 2/3 to 4/3, and ln x = n·ln 2 + ln(1 + f) with f = m - 1, which is exact. The
coefficients are fitted as those of `math_functions`.
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

_LOG = (
    0.3333333432674408,
    -0.24999819695949554,
    0.1999959796667099,
    -0.1667957901954651,
    0.14304456114768982,
    -0.12195776402950287,
    0.10754235833883286,
    -0.1284506767988205,
    0.12007151544094086,
)
"""(ln(1 + f) - f + f²/2)/f³ for |f| ≤ 1/3."""

_NEAR_ONE = 0.3333333

_LN2_HIGH = 0.693359375
"""The first bits of ln 2: its product with an exponent is exact."""
_LN2_LOW = -2.12194440e-4
_TWO_THIRDS = 0x3F2AAAAB
_SMALLEST_NORMAL = 2.0**-126
_FRACTION_BITS = 23
_HIGH_HALF = -(1 << 12)
"""A mask of the sign, the exponent and the first 12 of 24 bits, whose products are exact."""
_SURE_OVERFLOW = 128.0


def logarithm(x: Expression, build: ExpressionBuilder) -> Expression:
    """ln x; -inf at 0, NaN below."""
    x = build.keep(x)
    n, f = _split(x, build)
    square = build.keep(f * f)
    cube = f * square * build.polynomial(_LOG, f)
    lower = build.multiply_add(square, build.number(-0.5), cube)
    lower = build.multiply_add(n, build.number(_LN2_LOW), lower)
    found = build.multiply_add(n, build.number(_LN2_HIGH), f + lower)
    at_edge = build.below(x, build.number(0), build.number(nan), x)
    zero = build.compared(CompareOp.EQ, x, build.number(0))
    edge = build.where(zero, build.number(-inf), at_edge)
    return build.where(_is_positive(x, build), found, edge)


def logarithm_past_one(x: Expression, build: ExpressionBuilder) -> Expression:
    """ln(1 + x). What 1 + x rounds away counts near 0 alone."""
    x = build.keep(x)
    square = build.keep(x * x)
    cube = x * square * build.polynomial(_LOG, x)
    near = x + build.multiply_add(square, build.number(-0.5), cube)
    far = logarithm(x + build.number(1), build)
    return build.below(call(MathFunction.ABS, x), build.number(_NEAR_ONE), near, far)


def scaled_logarithm(
    x: RegisterRead, y: RegisterRead, build: ExpressionBuilder
) -> tuple[RegisterRead, RegisterRead]:
    """y·ln|x| as the sum of two numbers, the second far smaller: a relative error of 2⁻²⁴ would
    become one of 88·2⁻²⁴ in the power.

    Sums and products of two numbers keep what they round away (Dekker, A floating-point technique
    for extending the available precision, 1971).
    """
    size = build.keep(call(MathFunction.ABS, x))
    n, f = _split(size, build)
    # ln(1 + f) = first + rest: of f²/2 the part that is exact is subtracted exactly.
    top, bottom = _halves(f, build)
    half = build.keep(top * top * build.number(0.5))
    first = build.keep(f - half)
    lost = f - first - half
    cross = (f + top) * bottom * build.number(-0.5)
    cube = f * (f * f) * build.polynomial(_LOG, f)
    rest = build.keep(lost + cross + cube)
    # ln x = n·ln 2 + first + rest.
    whole = build.keep(n * build.number(_LN2_HIGH))
    total = build.keep(whole + first)
    lost = first - (total - whole)
    rest = build.keep(rest + lost + n * build.number(_LN2_LOW))
    high = build.keep(total + rest)
    low = build.keep(rest - (high - total))
    # Times y.
    product = build.keep(y * high)
    (y_top, y_bottom), (top, bottom) = _halves(y, build), _halves(high, build)
    error = y_top * top - product
    error = error + y_top * bottom
    error = error + y_bottom * top
    error = error + y_bottom * bottom
    error = error + y * low
    end = build.below(build.number(1), size, build.number(inf), build.number(-inf))
    sum_ = build.keep(build.where(_is_positive(size, build), product, y * end))
    small = call(MathFunction.ABS, sum_)
    kept = build.below(small, build.number(_SURE_OVERFLOW), error, build.number(0))
    return sum_, build.keep(kept)


def _split(x: RegisterRead, build: ExpressionBuilder) -> tuple[RegisterRead, RegisterRead]:
    """n and f, for x > 0. A denormal number is scaled first."""
    tiny = build.compared(CompareOp.LT, x, build.number(_SMALLEST_NORMAL))
    normal = build.where(tiny, x * build.number(2.0**_FRACTION_BITS), x)
    bits = build.keep(normal.bitcast(DType.I32), DType.I32)
    exponent = build.keep((bits - build.whole(_TWO_THIRDS)) >> _FRACTION_BITS, DType.I32)
    m = (bits - (exponent << _FRACTION_BITS)).bitcast(DType.F32)
    scaled = build.where(tiny, build.number(_FRACTION_BITS), build.number(0))
    n = exponent.cast(DType.F32) - scaled
    return build.keep(n), build.keep(m - build.number(1))


def _halves(x: RegisterRead, build: ExpressionBuilder) -> tuple[RegisterRead, RegisterRead]:
    """x as the sum of two numbers of 12 bits."""
    masked = x.bitcast(DType.I32) & build.whole(_HIGH_HALF)
    top = build.keep(masked.bitcast(DType.F32))
    return top, build.keep(x - top)


def _is_positive(x: RegisterRead, build: ExpressionBuilder) -> Expression:
    """A mask: x is a number above 0, and not inf."""
    above = build.compared(CompareOp.LT, build.number(0), x)
    finite = build.compared(CompareOp.LT, x, build.number(inf))
    return above & finite
