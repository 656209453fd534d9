"""Sine and cosine.

With q = round(x / (π/2)) and r = x - q·π/2, the sine of x is that of r or its cosine, or the
opposite of one of them, as q mod 4 tells. Up to |x| = 2¹³, π/2 is subtracted in three parts, of
which the first two are so short that their products with q are exact (Cody and Waite); the error is
the figure of `math_functions`, or 2⁻³¹ near a zero. Beyond, q and r are computed in integers from
the bits of 2/π that count for the exponent of x (Payne and Hanek, Radian reduction for
trigonometric functions, 1983), behind a branch: vectors of small arguments never come there.
Coefficients are fitted as those of `math_functions`.
"""

from itertools import pairwise
from math import pi

from kernelzoo.domain.dtype import DType
from services.tuner.ir.build import call
from services.tuner.ir.nodes import (
    Binary,
    Bitcast,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expression,
    MathFunction,
    RegisterRead,
)
from services.tuner.passes.expression_builder import (
    ExpressionBuilder,
)

_HALF_PI = (1.5703125, 4.837512969970703e-4, 7.549789948768648e-8)
_NEAR_BITS = 13
_LARGEST_NEAR = float(1 << _NEAR_BITS)
_LARGEST = 3.4028234663852886e38

_SINE = (-0.16666655242443085, 0.008332155644893646, -0.0001951463200384751)
"""(sin r/r - 1)/r² in r² for |r| ≤ π/4."""
_COSINE = (0.04166664555668831, -0.0013887309469282627, 2.443241282890085e-05)
"""(cos r - 1 + r²/2)/r⁴ in r² for |r| ≤ π/4."""

_FRACTION_BITS = 23
_BIAS = 127
_WORD_BITS = 16
_HALF_BITS = 12
_LEAST_EXPONENT = _NEAR_BITS + _BIAS
"""The exponent of the smallest number beyond `_LARGEST_NEAR`, as its bits have it."""
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB
_TWO_OVER_PI_BITS = 224
_WINDOW = 4
"""Words of 2/π that a number is multiplied by."""
_SHIFTS = (4, 2, 1)
"""Words by which the window may move: those of the bits of an exponent above the lowest four."""


def _words() -> tuple[int, ...]:
    """2/π in words, from the bits on that a number of the least exponent needs: a whole number of
    24 bits times 2⁻¹⁰, whose product counts below 4."""
    lead = _FRACTION_BITS - _NEAR_BITS + 2
    bits = _TWO_OVER_PI_BITS + lead
    count = sum(_SHIFTS) + _WINDOW + 1
    return tuple(
        _TWO_OVER_PI >> (bits - _WORD_BITS * (place + 1)) & ((1 << _WORD_BITS) - 1)
        for place in range(count)
    )


def sine(x: Expression, build: ExpressionBuilder) -> Expression:
    return _quarter(x, 0, build)


def cosine(x: Expression, build: ExpressionBuilder) -> Expression:
    return _quarter(x, 1, build)


def _quarter(x: Expression, quarters: int, build: ExpressionBuilder) -> Expression:
    """sin(x + quarters·π/2)."""
    x = build.keep(x)
    # Not by adding 1.5·2²³, as exp does: WGSL may take that for nothing (section 15.7.5).
    q = build.keep(call(MathFunction.NEAREST, x * build.number(2 / pi)))
    r: Expression = x
    for part in _HALF_PI:
        r = build.multiply_add(q, build.number(-part), r)
    # Infinity minus infinity is NaN, as the sine of infinity is.
    r = build.keep(r)
    whole = build.keep(Cast(value=q, dtype=DType.I32), DType.I32)
    size = build.keep(call(MathFunction.ABS, x))
    beyond = build.compared(CompareOp.LT, build.number(_LARGEST_NEAR), size)
    finite = build.compared(CompareOp.LE, size, build.number(_LARGEST))
    far = build.keep(_and(beyond, finite), DType.I32)
    with build.where_any(far):
        turns, rest = _far(size, build)
        below = build.compared(CompareOp.LT, x, build.number(0))
        zero, nothing = build.number(0), build.whole(0)
        build.change(r, build.where(far, build.where(below, zero - rest, rest), r))
        signed_turns = build.where(below, nothing - turns, turns)
        build.change(whole, build.where(far, signed_turns, whole))
    square = build.keep(r * r)
    odd = build.multiply_add(r * square, build.polynomial(_SINE, square), r)
    half = build.multiply_add(square, build.number(-0.5), build.number(1))
    even = build.multiply_add(square * square, build.polynomial(_COSINE, square), half)
    turn = build.keep(whole + build.whole(quarters), DType.I32)
    # Bit 0 of the quarter: which of the two; bit 1: the sign.
    is_even = Compare(op=CompareOp.EQ, left=_and(turn, build.whole(1)), right=build.whole(0))
    value = build.where(is_even, odd, even)
    sign = build.whole(1) - _and(turn, build.whole(2))
    return value * Cast(value=sign, dtype=DType.F32)


def _far(size: RegisterRead, build: ExpressionBuilder) -> tuple[RegisterRead, RegisterRead]:
    """q mod 4 and r of a number beyond `_LARGEST_NEAR`."""
    bits = build.keep(Bitcast(value=size, dtype=DType.I32), DType.I32)
    fraction = _and(bits, build.whole((1 << _FRACTION_BITS) - 1))
    number = build.keep(fraction + build.whole(1 << _FRACTION_BITS), DType.I32)
    biased = _right(bits, _FRACTION_BITS)
    exponent = build.keep(biased - build.whole(_LEAST_EXPONENT), DType.I32)

    # 1. The words of 2/π from the one on that the exponent tells, and one more.
    words: list[Expression] = [build.whole(word) for word in _words()]
    for shift in _SHIFTS:
        bit = _and(exponent, build.whole(shift * _WORD_BITS))
        moved = build.keep(Compare(op=CompareOp.LT, left=build.whole(0), right=bit), DType.I32)
        words = [
            build.keep(build.where(moved, words[place + shift], words[place]), DType.I32)
            for place in range(len(words) - shift)
        ]

    # 2. Their bits from the one on that the exponent tells.
    lowest = _and(exponent, build.whole(_WORD_BITS - 1))
    one = Bitcast(value=_left(lowest + build.whole(_BIAS), _FRACTION_BITS), dtype=DType.F32)
    power = build.keep(Cast(value=one, dtype=DType.I32), DType.I32)
    raised = [build.keep(word * power, DType.I32) for word in words]
    mask = build.whole((1 << _WORD_BITS) - 1)
    window = [
        build.keep(_and(high, mask) + _and(_right(low, _WORD_BITS), mask), DType.I32)
        for high, low in pairwise(raised)
    ]

    # 3. Their product with the number, in words, the lowest first. What is 4 or more is dropped.
    upper = build.keep(_right(number, _HALF_BITS), DType.I32)
    lower = build.keep(_and(number, build.whole((1 << _HALF_BITS) - 1)), DType.I32)
    product: list[RegisterRead] = []
    carried: Expression = build.whole(0)
    for word in reversed(window):
        above = build.keep(upper * word, DType.I32)
        low_bits = _left(_and(above, build.whole(15)), _HALF_BITS)
        total = build.keep(lower * word + low_bits + carried, DType.I32)
        product.append(build.keep(_and(total, mask), DType.I32))
        carried = _right(total, _WORD_BITS) + _right(above, 4)

    # 4. Two bits are whole quarters; the fraction is taken from -1/2 on.
    top = product.pop()
    half = build.whole(1 << (_WORD_BITS - 3))
    turns = build.keep(_right(top + half, _WORD_BITS - 2), DType.I32)
    signed = top - _left(turns, _WORD_BITS - 2)
    share: Expression = build.number(0)
    for count, word in ((1, product[-2]), (0, product[-1])):
        scale = build.number(2.0 ** -(2 * _WORD_BITS - 2 + count * _WORD_BITS))
        share = share + Cast(value=word, dtype=DType.F32) * scale
    scale = build.number(2.0 ** -(_WORD_BITS - 2))
    share = share + Cast(value=signed, dtype=DType.F32) * scale
    return turns, build.keep(share * build.number(pi / 2))


def _and(left: Expression, right: Expression) -> Binary:
    return left & right


def _right(value: Expression, count: int) -> Binary:
    by = Const(value=count, dtype=DType.I32)
    return value >> by


def _left(value: Expression, count: int) -> Binary:
    by = Const(value=count, dtype=DType.I32)
    return value << by
