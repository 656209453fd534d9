"""ONNX's integers in those of 32 bits, which programs have.

A narrow one is held as its number and counts modulo its size. One of 64 bits is held as its low
half. An unsigned one of 32 or 64 bits is held as the integer of the same low 32 bits: sums,
products and bits are the same, and what tells its numbers from one another has a form of its own
here. `ranked` puts them in the order of integers.
"""

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Integer,
    Real,
    differs,
    equal,
    truth,
)
from services.tuner.graph.building import Formula, Operand, Site, integer_range
from services.tuner.graph.network import TensorType

LEAST, MOST = DType.I32.value_range
_SIZE = 1 << 32


def is_unsigned(type_: TensorType | None) -> bool:
    """Returns whether entries are of unsigned 32 or 64 bits; narrower ones are integers as they
    are."""
    return type_ is not None and type_.dtype.kind == "u" and type_.dtype.itemsize >= 4


def is_of_unsigned(site: Site) -> bool:
    """Returns whether entries of the first input are so."""
    return is_unsigned(site.types[0])


def wrapped(value: Expression, type_: TensorType) -> Expression:
    """The value modulo the size of a narrow type."""
    if type_.dtype.kind == "b" or type_.dtype.itemsize >= 4:
        return value
    least, most = integer_range(type_.dtype)
    if not least:
        return _and(value, most)
    return _and(value - least, most - least) + least


def ranked(x: Expression) -> Expression:
    """The integer that stands among all as an unsigned number stands among those; and back."""
    if isinstance(x, Integer):
        return Integer(x.value - LEAST if x.value < 0 else x.value + LEAST)
    return x + LEAST


def in_ranks(site: Site, x: Operand) -> Operand:
    """A tensor of the first input's type in the order of integers."""
    if not is_of_unsigned(site):
        return x
    formula = Formula(site)
    axes = formula.axes(x.shape)
    return formula.output(axes, ranked(formula.read(x, axes)), x.dtype)


def narrowed(site: Site, x: Operand) -> Operand:
    """A tensor modulo the size of the output's type."""
    formula = Formula(site)
    axes = formula.axes(x.shape)
    entry = formula.read(x, axes)
    value = wrapped(entry, site.output)
    return x if value is entry else formula.output(axes, value, x.dtype)


def below(left: Expression, right: Expression) -> Comparison:
    """Compares unsigned numbers."""
    return Comparison(CompareOp.LT, ranked(left), ranked(right))


def at_most(left: Expression, right: Expression) -> Comparison:
    return Comparison(CompareOp.LE, ranked(left), ranked(right))


def quotient(left: Expression, right: Expression) -> Expression:
    """The quotient without its fraction, which is 0 by 0."""
    return Binary(BinaryOp.QUOTIENT, left, right)


def remainder(left: Expression, right: Expression) -> Expression:
    """The remainder with the sign of the divisor, which is 0 by 0."""
    return left % right


def truncated_remainder(left: Expression, right: Expression) -> Expression:
    """The remainder with the sign of the dividend, which is 0 by 0."""
    rest = left - right * quotient(left, right)
    return rest if _is_nonzero(right) else Choice((equal(right, 0),), Integer(0), rest)


def unsigned_quotient(left: Expression, right: Expression) -> Expression:
    """Divides half of the dividend, which is no negative integer: its quotient taken twice is right
    or 1 too small (Warren, Hacker's Delight, section 9-3). By a divisor of 2³¹ or more, which is
    negative as an integer, the quotient is 0 or 1."""
    by_large = truth(at_most(right, left))
    if isinstance(right, Integer):
        if right.value == 1:
            return left
        if right.value <= 0:
            return by_large if right.value else Integer(0)
        return _twice_half(left, right)
    nothing = Choice((equal(right, 0),), Integer(0), _twice_half(left, right))
    return Choice((right < 0,), by_large, nothing)


def _twice_half(left: Expression, right: Expression) -> Expression:
    twice = quotient(_half(left), right) * 2
    return twice + truth(at_most(right, left - twice * right))


def unsigned_remainder(left: Expression, right: Expression) -> Expression:
    rest = left - unsigned_quotient(left, right) * right
    return rest if _is_nonzero(right) else Choice((equal(right, 0),), Integer(0), rest)


def real_of_unsigned(x: Expression) -> Expression:
    """Rounds once: half of a large number is rounded, whose last bit tells of the one that it
    lost."""
    odd_half = Binary(BinaryOp.BIT_OR, _half(x), _and(x, 1))
    return Choice((x < 0,), Cast(odd_half) * 2.0, Cast(x))


def unsigned_of_real(x: Expression) -> Expression:
    """Cuts the fraction off. A negative number wraps around, one beyond the last is the last."""
    middle = float(-LEAST)
    above = Cast(x - middle, DType.I32) + LEAST
    return Choice((Comparison(CompareOp.LE, Real(middle), x),), above, Cast(x, DType.I32))


def power(base: Expression, exponent: Expression, *, unsigned_exponent: bool) -> Expression:
    """The power modulo 2³². To the power of 2³¹ an odd number is 1 and an even one is 0."""
    if not unsigned_exponent or isinstance(exponent, Integer):
        return Binary(BinaryOp.POW, base, exponent)
    lower = Binary(BinaryOp.POW, base, _and(exponent, MOST))
    return lower * Choice((exponent < 0,), _and(base, 1), Integer(1))


def sign(x: Expression) -> Expression:
    return Choice((x < 0,), Integer(-1), Choice((x > 0,), Integer(1), Integer(0)))


def unsigned_sign(x: Expression) -> Expression:
    return truth(differs(x, 0))


def shifted(left: Expression, count: Expression, op: BinaryOp, type_: TensorType) -> Expression:
    """Shifts by `count`. Where that is negative, or not below the bits of the type, 0 is left, or
    copies of the sign of what has one and is shifted to the right."""
    most, signed = min(type_.dtype.itemsize * 8, 32), type_.dtype.kind == "i"
    to_the_right = op is BinaryOp.SHIFT_RIGHT
    nothing: Expression = Integer(0)
    if to_the_right and signed:
        nothing = Binary(op, left, Integer(31))
    if isinstance(count, Integer) and not 0 <= count.value < most:
        return nothing
    moved: Expression = Binary(op, left, count)
    if to_the_right and is_unsigned(type_):
        # What a shift to the right copies from the highest bit goes: all but 32 - count bits.
        moved = _and_not(moved, Binary(BinaryOp.SHIFT_LEFT, Integer(-2), 31 - count))
    if isinstance(count, Integer):
        return moved
    return Choice((count >= 0, count < most), moved, nothing)


def inverted(x: Expression) -> Expression:
    """Turns all bits over."""
    return -1 - x


def _half(x: Expression) -> Expression:
    """Half of an unsigned number, without its fraction."""
    return _and(Binary(BinaryOp.SHIFT_RIGHT, x, Integer(1)), MOST)


def _and(x: Expression, mask: int) -> Expression:
    return Binary(BinaryOp.BIT_AND, x, Integer(mask))


def _and_not(x: Expression, mask: Expression) -> Expression:
    return Binary(BinaryOp.BIT_AND, x, inverted(mask))


def _is_nonzero(x: Expression) -> bool:
    return isinstance(x, Integer) and x.value != 0
