"""Tensor expressions: what a program computes, as frozen values of strings, numbers and tuples.

A program is a row of stages. A stage is a tensor: its axes, and the value of its entry at a place,
which may be a sum or the largest over further axes. Values read inputs and earlier stages at places
that are integer expressions of axes:

    largest[i: m] = max over k: n of a[i, k]
    power[i: m, j: n] = exp(a[i, j] - largest[i])

An operator is defined on named extents (`Extent`); `binding.bound` puts numbers in their place.
Two things are built of a program, by two pieces of code that share nothing but these classes: a
kernel (`services.tuner.operators`) and the right values of an output (`services.aggregator`).

`str` of a program is its canonical text: equal programs have equal texts, different ones different
ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class BinaryOp(StrEnum):
    """Floor division and the remainder, which has the sign of the divisor, are of integers."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    FLOOR_DIV = "//"
    FLOOR_MOD = "%"
    MIN = "min"
    MAX = "max"


class CompareOp(StrEnum):
    LT = "<"
    LE = "<="


class Function(StrEnum):
    """Functions of one real number."""

    EXP = "exp"
    ERF = "erf"
    TANH = "tanh"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    SIGMOID = "sigmoid"


class Reducer(StrEnum):
    SUM = "sum"
    MAX = "max"


class Expression:
    """An integer or a real number. A Python number among operands stands for itself."""

    __slots__ = ()

    def __add__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.ADD, self, operand(other))

    def __radd__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.ADD, operand(other), self)

    def __sub__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.SUB, self, operand(other))

    def __mul__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.MUL, self, operand(other))

    def __rmul__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.MUL, operand(other), self)

    def __truediv__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.DIV, self, operand(other))

    def __rtruediv__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.DIV, operand(other), self)

    def __floordiv__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.FLOOR_DIV, self, operand(other))

    def __mod__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.FLOOR_MOD, self, operand(other))

    def __lt__(self, other: "Operand") -> "Comparison":
        return Comparison(CompareOp.LT, self, operand(other))

    def __ge__(self, other: "Operand") -> "Comparison":
        return Comparison(CompareOp.LE, operand(other), self)


Operand = Expression | int | float


def operand(value: Operand) -> Expression:
    if isinstance(value, Expression):
        return value
    return Integer(value) if isinstance(value, int) else Real(value)


@dataclass(frozen=True, slots=True)
class Integer(Expression):
    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Real(Expression):
    value: float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Extent(Expression):
    """An extent or attribute of a workload, by the name that its key has for it."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Axis(Expression):
    """An axis of a stage; as an expression, the position along it, from 0 to `extent` - 1."""

    name: str
    extent: Expression

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Read(Expression):
    """The entry of an input or of an earlier stage at a place."""

    tensor: str
    at: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{_listed(self.at)}]"


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    op: BinaryOp
    left: Expression
    right: Expression

    def __str__(self) -> str:
        if self.op in (BinaryOp.MIN, BinaryOp.MAX):
            return f"{self.op}({self.left}, {self.right})"
        left, right = _bracketed(self.left, self.op), _bracketed(self.right, self.op, right=True)
        return f"{left} {self.op} {right}"


@dataclass(frozen=True, slots=True)
class Call(Expression):
    function: Function
    argument: Expression

    def __str__(self) -> str:
        return f"{self.function}({self.argument})"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """An integer as a real number."""

    argument: Expression

    def __str__(self) -> str:
        return f"real({self.argument})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of two integers."""

    op: CompareOp
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class Choice(Expression):
    """`then` where all conditions hold. Nothing of the other branch is read."""

    conditions: tuple[Comparison, ...]
    then: Expression
    otherwise: Expression

    def __str__(self) -> str:
        conditions = " and ".join(map(str, self.conditions))
        return f"({self.then} if {conditions} else {self.otherwise})"


@dataclass(frozen=True, slots=True)
class Stage:
    """A tensor and the value of its entry at a place along `axes`: `value`, or with a `reducer`
    that of all values along the axes `over`."""

    name: str
    axes: tuple[Axis, ...]
    value: Expression
    reducer: Reducer | None = None
    over: tuple[Axis, ...] = ()

    def __getitem__(self, at: Any) -> Read:
        return Read(self.name, at if isinstance(at, tuple) else (at,))

    def __str__(self) -> str:
        entry = f"{self.name}[{_ranges(self.axes)}]"
        if self.reducer is None:
            return f"{entry} = {self.value}"
        return f"{entry} = {self.reducer} over {_ranges(self.over)} of {self.value}"


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that a program is given, row-major; `dtype` is what its entries are stored as."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Program:
    """The last stage is the output. All extents are numbers."""

    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.inputs, *self.stages)))

    @property
    def output(self) -> Stage:
        return self.stages[-1]


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    yield expression
    match expression:
        case Read(_, at):
            inner = list(at)
        case Binary(_, left, right):
            inner = [left, right]
        case Call(_, argument) | Cast(argument):
            inner = [argument]
        case Choice(conditions, then, otherwise):
            inner = [side for each in conditions for side in (each.left, each.right)]
            inner += [then, otherwise]
        case _:
            inner = []
    for each in inner:
        yield from parts(each)


def read(tensor: str, *at: Operand) -> Read:
    return Read(tensor, tuple(map(operand, at)))


def largest(left: Operand, right: Operand) -> Expression:
    return Binary(BinaryOp.MAX, operand(left), operand(right))


def smallest(left: Operand, right: Operand) -> Expression:
    return Binary(BinaryOp.MIN, operand(left), operand(right))


def number(axis: Expression) -> int:
    """The value of an expression that `binding.bound` has made a number."""
    if not isinstance(axis, Integer):
        raise TypeError(f"{axis} is no number; bind the extents that it names")
    return axis.value


_STRENGTH = {
    **dict.fromkeys((BinaryOp.ADD, BinaryOp.SUB), 1),
    **dict.fromkeys((BinaryOp.MUL, BinaryOp.DIV, BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD), 2),
}


def _bracketed(part: Expression, op: BinaryOp, *, right: bool = False) -> str:
    """Operators of equal strength bind from the left, as they are computed."""
    if isinstance(part, Binary) and part.op in _STRENGTH:
        weaker = _STRENGTH[part.op] < _STRENGTH[op] + right
        return f"({part})" if weaker else str(part)
    return str(part)


def _ranges(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{axis.name}: {axis.extent}" for axis in axes)


def _listed(parts: tuple[Expression, ...]) -> str:
    return ", ".join(map(str, parts))
