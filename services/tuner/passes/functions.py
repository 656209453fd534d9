"""exp, tanh, erf, sigmoid and 1/√x from arithmetic, for one lane and four alike.

Errors are the largest seen against float64, in units in the last place (ulp) of the float32 result,
over two million points, with and without multiply-add: exp 0.99, tanh 1.31, erf 1.27, sigmoid 2.31,
rsqrt 1.48. The tests hold each to the figure in `LARGEST_ERROR_ULP`.

NaN gives NaN. exp(x) is inf above 88.7228, and 0 below -87.3365, where it would be denormal;
so is sigmoid there. tanh and erf keep the sign of -0 and reach ±1; denormal arguments come back
unchanged.

The coefficients are minimax fits of this project (Lawson's iteration on Chebyshev points, weighted
by the relative error of the function), rounded to float32. The reduction of exp is that of Cody and
Waite (Software Manual for the Elementary Functions, 1980), its constants those of Cephes.
"""

from math import inf

from services.tuner.ir.kinds import MathFunction
from services.tuner.ir.nodes import Expression
from services.tuner.passes.terms import (
    Terms,
    add,
    below,
    call,
    divide,
    multiply,
    smaller,
    subtract,
)

LARGEST_ERROR_ULP = {
    MathFunction.EXP: 1.0,
    MathFunction.TANH: 1.5,
    MathFunction.ERF: 1.5,
    MathFunction.SIGMOID: 2.5,
    MathFunction.RSQRT: 1.5,
    MathFunction.SQRT: 0.5,
}

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440e-4
_ROUNDING_SHIFT = 12582912.0
_EXP_LOWEST, _EXP_HIGHEST = -87.33654, 88.72283
"""Between them the result is a normal number."""

_EXP = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.008368715643882751,
    0.0013814599951729178,
)
"""(eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2."""

_TANH_SMALL = 0.625
_TANH = (
    -0.3333328068256378,
    0.13331441581249237,
    -0.05373971164226532,
    0.020639078691601753,
    -0.005704978480935097,
)
"""(tanh x / x - 1)/x² in x² for |x| < 0.625."""

_TANH_ONE = 10.0
"""tanh of it and of anything larger is 1 in float32; a GPU need not have inf."""

_ERF_SMALL = 0.93
_ERF_ONE = 3.95
"""erf of it and of anything larger is 1 in float32."""

_ERF = (
    0.12837916612625122,
    -0.37612631916999817,
    0.11283687502145767,
    -0.026858940720558167,
    0.005199906416237354,
    -0.0008130011847242713,
    8.316772436955944e-05,
)
"""erf x / x - 1 in x² for |x| < 0.93."""

_ERF_TAIL = (
    0.12865422666072845,
    0.6351280808448792,
    0.10627520829439163,
    -0.023795023560523987,
    0.003658018307760358,
    -0.00032662483863532543,
    1.161252657766454e-05,
)
"""-ln(1 - erf x)/x - 1 for x from 0.93 to 3.95."""


def written(function: MathFunction, x: Expression, terms: Terms) -> Expression:
    """The function of `x` as arithmetic; single instructions stay calls."""
    match function:
        case MathFunction.EXP:
            return _exp(x, terms)
        case MathFunction.TANH:
            return _tanh(x, terms)
        case MathFunction.ERF:
            return _erf(x, terms)
        case MathFunction.SIGMOID:
            return _sigmoid(x, terms)
        case MathFunction.RSQRT:
            return divide(terms.number(1), call(MathFunction.SQRT, x))
        case MathFunction.SQRT | MathFunction.NEAREST | MathFunction.ABS:
            return call(function, x)


def _exp(x: Expression, terms: Terms) -> Expression:
    """eˣ = eʳ·2ⁿ. Adding 1.5·2²³ rounds to n and leaves it in the low bits, ready to be added to
    the exponent; this takes half the instructions of rounding, converting and scaling."""
    if MathFunction.EXP in terms.native:
        return call(MathFunction.EXP, x)
    x = terms.keep(x)
    shifted = terms.keep(
        terms.multiply_add(x, terms.number(_LOG2_E), terms.number(_ROUNDING_SHIFT))
    )
    n = terms.keep(subtract(shifted, terms.number(_ROUNDING_SHIFT)))
    high = terms.multiply_add(n, terms.number(-_LN2_HIGH), x)
    r = terms.keep(terms.multiply_add(n, terms.number(-_LN2_LOW), high))
    tail = terms.multiply_add(multiply(r, r), terms.polynomial(_EXP, r), r)
    power = terms.scaled(add(tail, terms.number(1)), shifted)
    normal = below(x, terms.number(_EXP_LOWEST), terms.number(0), power)
    return below(terms.number(_EXP_HIGHEST), x, terms.number(inf), normal)


def _tanh(x: Expression, terms: Terms) -> Expression:
    x = terms.keep(x)
    size = terms.keep(call(MathFunction.ABS, x))
    square = terms.keep(multiply(size, size))
    small = terms.multiply_add(multiply(size, square), terms.polynomial(_TANH, square), size)
    bounded = size
    if MathFunction.EXP in terms.native:
        bounded = terms.keep(smaller(size, terms.number(_TANH_ONE)))
    power = terms.keep(_exp(add(bounded, bounded), terms))
    part = divide(terms.number(2), add(power, terms.number(1)))
    large = subtract(terms.number(1), part)
    return terms.with_sign_of(below(size, terms.number(_TANH_SMALL), small, large), x)


def _erf(x: Expression, terms: Terms) -> Expression:
    x = terms.keep(x)
    size = terms.keep(smaller(call(MathFunction.ABS, x), terms.number(_ERF_ONE)))
    square = terms.keep(multiply(size, size))
    small = terms.multiply_add(size, terms.polynomial(_ERF, square), size)
    exponent = terms.multiply_add(size, terms.polynomial(_ERF_TAIL, size), size)
    rest = terms.keep(_exp(subtract(terms.number(0), exponent), terms))
    large = subtract(terms.number(1), rest)
    return terms.with_sign_of(below(size, terms.number(_ERF_SMALL), small, large), x)


def _sigmoid(x: Expression, terms: Terms) -> Expression:
    """1/(1 + e⁻ˣ), for x < 0 as eˣ/(1 + eˣ): nothing overflows."""
    x = terms.keep(x)
    size = call(MathFunction.ABS, x)
    power = terms.keep(_exp(subtract(terms.number(0), size), terms))
    above = below(x, terms.number(0), power, terms.number(1))
    return divide(above, add(power, terms.number(1)))
