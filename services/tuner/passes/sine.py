"""Sine and cosine.

With q = round(x / (π/2)) and r = x - q·π/2, the sine of x is that of r or its cosine, or the
opposite of one of them, as q mod 4 tells. π/2 is subtracted in three parts, of which the first two
are so short that their products with q are exact up to |x| = 12 000 (Cody and Waite): below that
the error is the figure of `math_functions`, or 2⁻³¹ near a zero. Beyond, it grows with |x|; from
2²⁰ on, where neighbouring f32 are an eighth apart, x is taken as 0. Coefficients are fitted as
those of `math_functions`.
"""

from math import pi

from kernelzoo.domain.dtype import DType
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expression,
    MathFunction,
)
from services.tuner.passes.expression_builder import (
    ExpressionBuilder,
    add,
    call,
    multiply,
    subtract,
)

_HALF_PI = (1.5703125, 4.837512969970703e-4, 7.549789948768648e-8)
_LARGEST = float(1 << 20)

_SINE = (-0.16666655242443085, 0.008332155644893646, -0.0001951463200384751)
"""(sin r/r - 1)/r² in r² for |r| ≤ π/4."""
_COSINE = (0.04166664555668831, -0.0013887309469282627, 2.443241282890085e-05)
"""(cos r - 1 + r²/2)/r⁴ in r² for |r| ≤ π/4."""


def sine(x: Expression, build: ExpressionBuilder) -> Expression:
    return _quarter(x, 0, build)


def cosine(x: Expression, build: ExpressionBuilder) -> Expression:
    return _quarter(x, 1, build)


def _quarter(x: Expression, quarters: int, build: ExpressionBuilder) -> Expression:
    """sin(x + quarters·π/2)."""
    x = build.keep(x)
    # inf · 0 is NaN, as the sine of inf is.
    zero = multiply(x, build.number(0))
    x = build.keep(build.below(call(MathFunction.ABS, x), build.number(_LARGEST), x, zero))
    # Not by adding 1.5·2²³, as exp does: WGSL may take that for nothing (section 15.7.5).
    q = build.keep(call(MathFunction.NEAREST, multiply(x, build.number(2 / pi))))
    r: Expression = x
    for part in _HALF_PI:
        r = build.multiply_add(q, build.number(-part), r)
    r = build.keep(r)
    square = build.keep(multiply(r, r))
    odd = build.multiply_add(multiply(r, square), build.polynomial(_SINE, square), r)
    half = build.multiply_add(square, build.number(-0.5), build.number(1))
    even = build.multiply_add(multiply(square, square), build.polynomial(_COSINE, square), half)
    turn = build.keep(add(Cast(value=q, dtype=DType.I32), build.whole(quarters)), DType.I32)
    # Bit 0 of the quarter: which of the two; bit 1: the sign, as the sign bit of ±1.
    is_even = Compare(op=CompareOp.EQ, left=_and(turn, build.whole(1)), right=build.whole(0))
    size = build.where(is_even, odd, even)
    sign = subtract(build.whole(1), _and(turn, build.whole(2)))
    return multiply(size, Cast(value=sign, dtype=DType.F32))


def _and(left: Expression, right: Const) -> Expression:
    return Binary(op=BinaryOp.AND, left=left, right=right)
