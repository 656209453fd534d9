"""Reads what an expression does to one entry, step by step: add, multiply, apply a function of a
number.

    max(0.5 * c[i, j] + bias[j], 0)      multiplies c[i, j] by 0.5, adds bias[j], applies relu

A function is recognised by its values at many numbers, however it is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators import EPILOGUES, EpilogueKind, expressions
from kernelzoo.domain.operators.elementwise import UNARY
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Call,
    Choice,
    CompareOp,
    Expression,
    Read,
    Real,
    parts,
)
from services.tuner.graph.formulas import replaced, size

HOLE = Read("", ())
"""Stands for what the steps before have computed."""
Row = NDArray[np.float32]
"""One number, or one for each column."""


@dataclass(frozen=True, slots=True)
class EntryStep:
    """`whole` is the part of the expression that is done after it."""

    whole: Expression


@dataclass(frozen=True, slots=True)
class Add(EntryStep):
    operand: Read | float


@dataclass(frozen=True, slots=True)
class Multiply(EntryStep):
    operand: Read | float


@dataclass(frozen=True, slots=True)
class Divide(EntryStep):
    operand: Read


@dataclass(frozen=True, slots=True)
class Subtract(EntryStep):
    operand: Read


@dataclass(frozen=True, slots=True)
class Apply(EntryStep):
    """A function of one number that an epilogue has, by the epilogue's name."""

    function: str


def steps_of(value: Expression, start: Expression) -> list[EntryStep]:
    """The steps from a part of the expression on, as many as can be told."""
    found: list[EntryStep] = []
    done: Expression = start
    while step := _next(value, done):
        found.append(step)
        done = step.whole
    return found


def operand_of(step: EntryStep) -> Read | float | None:
    """Returns what a step adds, subtracts, multiplies or divides by; None of a function."""
    return step.operand if isinstance(step, Add | Subtract | Multiply | Divide) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """The first `steps` of a list multiply an entry by `scale` and then add `shift`."""

    scale: Row
    shift: Row
    steps: int


def affine_of(steps: Sequence[EntryStep], row: Callable[[EntryStep], Row | None]) -> Affine:
    """The steps up to the first whose `row` is None, which is what they add or multiply by."""
    scale, shift = np.ones(1, np.float32), np.zeros(1, np.float32)
    for place, step in enumerate(steps):
        operand = row(step)
        if operand is None:
            return Affine(scale=scale, shift=shift, steps=place)
        match step:
            case Add():
                shift = shift + operand
            case Subtract():
                shift = shift - operand
            case Multiply():
                scale, shift = scale * operand, shift * operand
            case Divide():
                scale, shift = scale / operand, shift / operand
    return Affine(scale=scale, shift=shift, steps=len(steps))


def _next(value: Expression, done: Expression) -> EntryStep | None:
    """The largest of functions that lie in one another: relu6 begins as relu does."""
    found = (_step(whole, done) for whole in _dominators(value, done))
    steps = [step for step in found if step]
    functions = [step for step in steps if isinstance(step, Apply)]
    return (functions or steps or [None])[-1 if functions else 0]


def _dominators(value: Expression, done: Expression) -> Iterator[Expression]:
    """Parts of the expression through which all of `done` goes, the smallest first."""
    holding = {part for part in parts(value) if part != done and done in set(parts(part))}
    for part in sorted(holding, key=size):
        if done not in set(parts(replaced(value, part, HOLE))):
            yield part


def _step(whole: Expression, done: Expression) -> EntryStep | None:
    match whole:
        case Binary(BinaryOp.ADD, left, right) if done in (left, right):
            other = right if left == done else left
            if isinstance(other, Read | Real) and other != done:
                return Add(whole, _operand(other))
        case Binary(BinaryOp.MUL, left, right) if done in (left, right):
            other = right if left == done else left
            if isinstance(other, Read | Real) and other != done:
                return Multiply(whole, _operand(other))
        case Binary(BinaryOp.SUB, left, Real(value)) if left == done:
            return Add(whole, -value)
        case Binary(BinaryOp.DIV, left, Real(value)) if left == done and value:
            return Multiply(whole, 1.0 / value)
        case Binary(BinaryOp.SUB, left, Read() as other) if left == done != other:
            return Subtract(whole, other)
        case Binary(BinaryOp.DIV, left, Read() as other) if left == done != other:
            return Divide(whole, other)
    name = function_named(replaced(whole, done, HOLE))
    return Apply(whole, name) if name else None


def _operand(other: Read | Real) -> Read | float:
    return other.value if isinstance(other, Real) else other


# Functions of one number.

_SIZES = (1e-30, 1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 5.99, 6.01, 12.0, 30.0, 80.0, 1e3, 1e6, 1e20)
_NUMBERS = np.concatenate(
    [
        np.linspace(-8.0, 8.0, 65),
        np.outer([-1.0, 1.0], [*_SIZES, np.inf]).ravel(),
        [np.nan],
    ]
)
_TOLERANCE = 2e-6
"""Constants of f32, such as √2, may be written with few digits."""
_CANCELLED = 1e-15
"""A sum of the size of a number may leave so much of it in float64, as 1 + erf x does below 0."""


def function_named(function: Expression) -> str | None:
    """The unary epilogue that an expression of `HOLE` is; None if it is another function.

    What differs near 0 alone is another one: log(max(x, 1e-10)) is no log(relu(x)).
    """
    inner = set(parts(function))
    if any(isinstance(part, Read) and part != HOLE for part in inner):
        return None
    try:
        found = values_at(function, _NUMBERS)
    except TypeError:
        return None
    for name, wanted in _known().items():
        if _are_alike(_NUMBERS, found, wanted):
            near = _near_constants(inner)
            named = values_at(UNARY[name][1](HOLE), near)
            return name if _are_alike(near, values_at(function, near), named) else None
    return None


def _near_constants(inner: set[Expression]) -> NDArray[np.float64]:
    """Numbers around those of an expression, where it may have another branch."""
    sizes = [abs(part.value) for part in inner if isinstance(part, Real)]
    around = np.outer([0.5, 0.999, 1.0, 1.001, 2.0], sizes).ravel()
    return np.concatenate([around, -around])


def _are_alike(
    numbers: NDArray[np.float64], found: NDArray[np.float64], wanted: NDArray[np.float64]
) -> bool:
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= _TOLERANCE * np.abs(wanted) + _CANCELLED * np.abs(numbers)
    return bool(np.all(close | (found == wanted) | (np.isnan(found) & np.isnan(wanted))))


@lru_cache(maxsize=1)
def _known() -> Mapping[str, NDArray[np.float64]]:
    unary = (name for name, kind in EPILOGUES.items() if kind is EpilogueKind.UNARY)
    return {name: values_at(UNARY[name][1](HOLE), _NUMBERS) for name in unary}


_BINARY: Mapping[BinaryOp, Callable[[Any, Any], Any]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.POW: np.power,
    BinaryOp.FMOD: np.fmod,
}
_COMPARED: Mapping[CompareOp, Callable[[Any, Any], Any]] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
_FUNCTIONS: Mapping[expressions.Function, Callable[[Any], Any]] = {
    expressions.Function.EXP: np.exp,
    expressions.Function.ERF: np.vectorize(erf, otypes=[np.float64]),
    expressions.Function.TANH: np.tanh,
    expressions.Function.SQRT: np.sqrt,
    expressions.Function.RSQRT: lambda x: 1.0 / np.sqrt(x),
    expressions.Function.SIGMOID: lambda x: 1.0 / (1.0 + np.exp(-x)),
    expressions.Function.LOG: np.log,
    expressions.Function.EXPM1: np.expm1,
    expressions.Function.LOG1P: np.log1p,
    expressions.Function.SIN: np.sin,
    expressions.Function.COS: np.cos,
    expressions.Function.FLOOR: np.floor,
    expressions.Function.CEIL: np.ceil,
    expressions.Function.ROUND: np.rint,
    expressions.Function.ABS: np.abs,
}


def values_at(function: Expression, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values of an expression of `HOLE`. Raises TypeError for one of integers."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(_value(function, numbers), numbers.shape)


def _value(part: Expression, hole: NDArray[np.float64]) -> Any:
    match part:
        case Real(value):
            return np.float64(value)
        case Read() if part == HOLE:
            return hole
        case Binary(op, left, right) if op in _BINARY:
            return _BINARY[op](_value(left, hole), _value(right, hole))
        case Call(function, argument):
            return _FUNCTIONS[function](_value(argument, hole))
        case Choice(conditions, then, otherwise):
            holds = np.ones(hole.shape, bool)
            for each in conditions:
                compared = _COMPARED[each.op](_value(each.left, hole), _value(each.right, hole))
                holds = holds & compared
            return np.where(holds, _value(then, hole), _value(otherwise, hole))
    raise TypeError(f"{part} is no real number")
