"""Places in tensors: index expressions as linear forms, so that transposes and views cancel.

    i1 * 768 + (i2 // 64) * 64 + i2 % 64    is    {i1: 768, i2: 1}

A form is a sum of atoms times numbers. An atom is an axis, a quotient or a remainder of a form that
does not split evenly, or anything else that a place may be, such as a clamped index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    CompareOp,
    Comparison,
    Expression,
    Integer,
    number,
    parts,
    rebuilt,
)


@dataclass(frozen=True, slots=True)
class Form:
    """The sum of each atom times its number, plus `constant`; no number is 0."""

    terms: Mapping[Expression, int]
    constant: int = 0

    def plus(self, other: "Form", factor: int = 1) -> "Form":
        terms = dict(self.terms)
        for atom, times in other.terms.items():
            terms[atom] = terms.get(atom, 0) + times * factor
        return _joined(terms, self.constant + other.constant * factor)

    @property
    def range(self) -> tuple[int, int] | None:
        """Least and largest value; None where an atom's is not known."""
        low = high = self.constant
        for atom, times in self.terms.items():
            ends = _range(atom)
            if ends is None:
                return None
            first, last = sorted(end * times for end in ends)
            low, high = low + first, high + last
        return low, high


def form_of(expression: Expression) -> Form:
    match expression:
        case Integer(value):
            return Form({}, value)
        case Axis(_, Integer(1)):
            return Form({})
        case Axis():
            return Form({expression: 1})
        case Binary(BinaryOp.ADD, left, right):
            return form_of(left).plus(form_of(right))
        case Binary(BinaryOp.SUB, left, right):
            return form_of(left).plus(form_of(right), -1)
        case Binary(BinaryOp.MUL, left, Integer(value)) | Binary(
            BinaryOp.MUL, Integer(value), left
        ):
            return Form({}).plus(form_of(left), value)
        case Binary(BinaryOp.FLOOR_DIV, left, Integer(value)):
            return _divided(form_of(left), value)[0]
        case Binary(BinaryOp.FLOOR_MOD, left, Integer(value)):
            return _divided(form_of(left), value)[1]
    return Form({rebuilt(expression, simplified): 1})


def expression_of(form: Form) -> Expression:
    """The largest number first, as a row-major address reads."""
    made: Expression | None = None
    for atom, times in sorted(form.terms.items(), key=lambda term: -term[1]):
        term = atom if times == 1 else Binary(BinaryOp.MUL, atom, Integer(times))
        made = term if made is None else Binary(BinaryOp.ADD, made, term)
    if made is None:
        return Integer(form.constant)
    if form.constant:
        return Binary(BinaryOp.ADD, made, Integer(form.constant))
    return made


def simplified(place: Expression) -> Expression:
    """Writes an integer as a linear form."""
    return expression_of(form_of(place))


def is_known(comparison: Comparison) -> bool | None:
    """Returns whether a comparison of places holds everywhere or nowhere; None where it depends on
    the place, or compares anything else, as NaN with itself."""
    sides = comparison.left, comparison.right
    if not all(isinstance(part, _OF_PLACES) for side in sides for part in parts(side)):
        return None
    ends = form_of(comparison.left).plus(form_of(comparison.right), -1).range
    if ends is None:
        return None
    low, high = ends
    match comparison.op:
        case CompareOp.LT:
            holds, fails = high < 0, low >= 0
        case CompareOp.LE:
            holds, fails = high <= 0, low > 0
        case CompareOp.EQ:
            holds, fails = low == high == 0, low > 0 or high < 0
        case CompareOp.NE:
            holds, fails = low > 0 or high < 0, low == high == 0
    return True if holds else False if fails else None


_OF_PLACES = (Axis, Binary, Integer)


def flat(at: Sequence[Expression], shape: Sequence[int]) -> Form:
    """The row-major number of the entry at a place."""
    form = Form({})
    for place, stride in zip(at, strides(shape), strict=True):
        form = form.plus(form_of(place), stride)
    return form


def unflat(form: Form, shape: Sequence[int]) -> tuple[Expression, ...]:
    """The place of the entry of that row-major number."""
    at = []
    for extent, stride in zip(shape, strides(shape), strict=True):
        if extent == 1:
            at.append(Form({}))
            continue
        quotient, form = _divided(form, stride)
        at.append(quotient)
    return tuple(map(expression_of, at))


def quotient(form: Form, divisor: int) -> Form:
    return _divided(form, divisor)[0]


def remainder(form: Form, divisor: int) -> Form:
    return _divided(form, divisor)[1]


def viewed(
    at: Sequence[Expression], shape: Sequence[int], source: Sequence[int]
) -> tuple[Expression, ...]:
    """The place in a tensor of shape `source` of what stands at `at` under another shape."""
    return unflat(flat(at, shape), source)


def plain_shape(form: Form, elements: int) -> tuple[int, ...] | None:
    """A shape of that many entries under which the place of a form needs no division."""
    shape: list[int] = []
    above = elements
    for stride in sorted({*form.terms.values(), 1}, reverse=True):
        if stride < 1 or above % stride:
            return None
        shape.append(above // stride)
        above = stride
    return tuple(shape) if all(map(is_plain, unflat(form, shape))) else None


def strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[number + 1 :]) for number in range(len(shape))]


def is_plain(expression: Expression) -> bool:
    """Returns whether a place needs neither division nor remainder."""
    match expression:
        case Binary(BinaryOp.FLOOR_DIV | BinaryOp.FLOOR_MOD):
            return False
        case Binary(_, left, right):
            return is_plain(left) and is_plain(right)
    return True


def _divided(form: Form, divisor: int) -> tuple[Form, Form]:
    """Quotient and remainder."""
    if divisor == 1:
        return form, Form({})
    whole: dict[Expression, int] = {}
    rest: dict[Expression, int] = {}
    for atom, times in form.terms.items():
        if times % divisor == 0:
            whole[atom] = times // divisor
        elif divisor % times == 0 and times > 0 and _least(atom) >= 0:
            # The atom splits: a = (a // m) * m + a % m, where m * times is the divisor.
            above, below = _split(atom, divisor // times)
            if above is not None:
                whole[above] = whole.get(above, 0) + 1
            if below is not None:
                rest[below] = rest.get(below, 0) + times
        else:
            rest[atom] = times
    whole_constant, rest_constant = divmod(form.constant, divisor)
    remainder = _joined(rest, rest_constant)
    ends = remainder.range
    if ends is not None and ends[0] >= 0 and ends[1] < divisor:
        return _joined(whole, whole_constant), remainder
    left, right = expression_of(remainder), Integer(divisor)
    above, below = Binary(BinaryOp.FLOOR_DIV, left, right), Binary(BinaryOp.FLOOR_MOD, left, right)
    return _joined(whole | {above: whole.get(above, 0) + 1}, whole_constant), Form({below: 1})


def _split(atom: Expression, divisor: int) -> tuple[Expression | None, Expression | None]:
    """Quotient and remainder of an atom that is not negative; None for one that is always 0."""
    ends = _range(atom)
    if ends is not None and ends[1] < divisor:
        return None, atom
    below: Expression = Binary(BinaryOp.FLOOR_MOD, atom, Integer(divisor))
    match atom:
        case Binary(BinaryOp.FLOOR_MOD, inner, Integer(value)) if value % divisor == 0:
            below = Binary(BinaryOp.FLOOR_MOD, inner, Integer(divisor))
    return _quotient(atom, divisor), below


def _quotient(atom: Expression, divisor: int) -> Expression | None:
    """Quotients of quotients become one, and remainders stand outside of quotients."""
    ends = _range(atom)
    if ends is not None and ends[0] >= 0 and ends[1] < divisor:
        return None
    match atom:
        case Binary(BinaryOp.FLOOR_DIV, inner, Integer(value)):
            return Binary(BinaryOp.FLOOR_DIV, inner, Integer(value * divisor))
        case Binary(BinaryOp.FLOOR_MOD, inner, Integer(value)) if value % divisor == 0:
            above = _quotient(inner, divisor)
            ends = _range(above) if above else None
            if above is None or (ends and ends[1] < value // divisor):
                return above
            return Binary(BinaryOp.FLOOR_MOD, above, Integer(value // divisor))
    return Binary(BinaryOp.FLOOR_DIV, atom, Integer(divisor))


def _joined(terms: Mapping[Expression, int], constant: int) -> Form:
    """Quotients and remainders of the same are put together again."""
    left = {atom: times for atom, times in terms.items() if times}
    for atom, times in list(left.items()):
        match atom:
            case Binary(BinaryOp.FLOOR_MOD, inner, Integer(divisor)):
                above = _quotient(inner, divisor)
            case _:
                continue
        if above and left.get(above) == times * divisor and left.get(atom) == times:
            del left[above], left[atom]
            return Form(left, constant).plus(form_of(inner), times)
    return Form(left, constant)


def _least(atom: Expression) -> int:
    ends = _range(atom)
    return -1 if ends is None else ends[0]


def _range(atom: Expression) -> tuple[int, int] | None:
    match atom:
        case Integer(value):
            return value, value
        case Axis(_, extent):
            return 0, number(extent) - 1
        case Binary(BinaryOp.FLOOR_DIV, inner, Integer(divisor)):
            ends = _range(inner)
            return None if ends is None else (ends[0] // divisor, ends[1] // divisor)
        case Binary(BinaryOp.FLOOR_MOD, inner, Integer(divisor)):
            ends = _range(inner)
            if ends is not None and ends[0] >= 0 and ends[1] < divisor:
                return ends
            return 0, divisor - 1
        case Binary(BinaryOp.ADD | BinaryOp.SUB | BinaryOp.MUL):
            form = form_of(atom)
            return None if atom in form.terms else form.range
        case Binary(BinaryOp.MAX | BinaryOp.MIN as op, left, right):
            one, two = _range(left), _range(right)
            if one is None or two is None:
                return None
            chosen = max if op is BinaryOp.MAX else min
            return chosen(one[0], two[0]), chosen(one[1], two[1])
    return None
