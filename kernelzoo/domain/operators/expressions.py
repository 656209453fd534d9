"""Tensor expressions: what a program computes, as frozen values of strings, numbers and tuples.

A program is a row of stages. A stage is a tensor: its axes, and the value of its entry at a place,
which may be a sum, a product, the largest or the smallest over further axes. Values read inputs and
earlier stages at places that are integer expressions of axes:

    largest[i: m] = max over k: n of a[i, k]
    power[i: m, j: n] = exp(a[i, j] - largest[i])

An operator is defined on named extents (`Extent`); `binding.bound` puts numbers in their place.
Two things are built of a program, by two pieces of code that share nothing but these classes: a
kernel (`services.tuner.operators`) and the right values of an output (`services.aggregator`).

An expression is an integer or a real number: positions and entries of i32 and i8 are integers,
entries of f32 and f16 real numbers. A truth is an integer stage of 0 and 1; `checking` refuses a
program that mixes the two without a `Cast`.

`str` of a program is its canonical text: equal programs have equal texts, different ones different
ones. `parsing.parsed` reads it again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import copysign, prod
from typing import Any

from kernelzoo.domain.dtype import DType


class BinaryOp(StrEnum):
    """Integers have 32 bits: sums, products and powers wrap around.

    DIV is of real numbers, and so is FMOD, a remainder with the sign of the dividend. FLOOR_DIV and
    FLOOR_MOD, whose sign is the divisor's, are of integers, and so is QUOTIENT, which loses its
    fraction. By 0 each of these three is 0, as in NumPy, and so is the quotient of the least
    integer by -1 that integer. An integer to a negative power loses its fraction: it is 1, -1 or 0,
    and 0 of the base 0. A shift is by its right operand modulo 32; one to the right keeps the sign.
    """

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    FLOOR_DIV = "//"
    FLOOR_MOD = "%"
    MIN = "min"
    MAX = "max"
    POW = "pow"
    FMOD = "fmod"
    QUOTIENT = "quotient"
    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"


class CompareOp(StrEnum):
    LT = "<"
    LE = "<="
    EQ = "=="
    NE = "!="


class Function(StrEnum):
    """Functions of one real number. ROUND takes the even one of two nearest integers. EXPM1 is
    eˣ - 1 and LOG1P is ln(1 + x), which keep small numbers as C's do."""

    EXP = "exp"
    ERF = "erf"
    TANH = "tanh"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    SIGMOID = "sigmoid"
    LOG = "log"
    EXPM1 = "expm1"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    ABS = "abs"


class Reducer(StrEnum):
    """A reducer makes one entry of the values along the axes `over` of a stage. Reducers in
    `ORDERED` take them one after another (`ordered`): running sums and products up to a place, the
    places of the largest or smallest values, and the last of updates."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    RUNNING_SUM = "running_sum"
    RUNNING_PROD = "running_prod"
    LARGEST = "largest"
    SMALLEST = "smallest"
    LAST = "last"


RUNNING = {Reducer.RUNNING_SUM: Reducer.SUM, Reducer.RUNNING_PROD: Reducer.PROD}
"""Maps each running reduction to what it makes of all values up to a place."""
SELECTIONS = (Reducer.LARGEST, Reducer.SMALLEST)
ORDERED = (*RUNNING, *SELECTIONS, Reducer.LAST)


class Expression:
    """An integer or a real number. A Python number among operands stands for itself."""

    __slots__ = ()

    def __add__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.ADD, self, operand(other))

    def __radd__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.ADD, operand(other), self)

    def __sub__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.SUB, self, operand(other))

    def __rsub__(self, other: "Operand") -> "Expression":
        return Binary(BinaryOp.SUB, operand(other), self)

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

    def __le__(self, other: "Operand") -> "Comparison":
        return Comparison(CompareOp.LE, self, operand(other))

    def __gt__(self, other: "Operand") -> "Comparison":
        return Comparison(CompareOp.LT, operand(other), self)

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
    """A number of f32. 0 and -0 are two, as quotients by them are."""

    value: float

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Real):
            return NotImplemented
        own, others = self.value, other.value
        return (own, copysign(1, own)) == (others, copysign(1, others))

    def __hash__(self) -> int:
        return hash(self.value)

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
        return f"{self.tensor}[{_listed(self.at) or '()'}]"


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    op: BinaryOp
    left: Expression
    right: Expression

    def __str__(self) -> str:
        if self.op not in _STRENGTH:
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
    """An integer as a real number, or with dtype I32 a real number without its fraction. One that
    is no i32 becomes the nearest, and NaN becomes 0."""

    argument: Expression
    dtype: DType = DType.F32

    def __str__(self) -> str:
        return f"{CASTS[self.dtype]}({self.argument})"


CASTS = {DType.F32: "real", DType.I32: "whole"}
"""Texts of programs call a cast to each dtype so."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares two integers, or two real numbers."""

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
class Scatter(Expression):
    """The whole value of a stage that starts as `initial`, an expression of its axes, and is then
    written at the places `at`, by each `update` along the axes `over` in their order: the last one
    counts, or the reducer puts each to what is there. A place outside of the stage is passed."""

    initial: Expression
    update: Expression
    at: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{SCATTER}({self.initial}, {self.update}, {_listed(self.at)})"


SCATTER = "scatter"


@dataclass(frozen=True, slots=True)
class Stage:
    """A tensor and the value of its entry at a place along `axes`: `value`, or with a `reducer`
    that of all values along the axes `over`. `dtype` is F32 or I32."""

    name: str
    axes: tuple[Axis, ...]
    value: Expression
    reducer: Reducer | None = None
    over: tuple[Axis, ...] = ()
    dtype: DType = DType.F32

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(number(axis.extent) for axis in self.axes)

    @property
    def is_ordered(self) -> bool:
        """True if values are taken one after another, in the order of the axes `over`."""
        return self.reducer in ORDERED or isinstance(self.value, Scatter)

    def __getitem__(self, at: Any) -> Read:
        return Read(self.name, at if isinstance(at, tuple) else (at,))

    def __str__(self) -> str:
        entry = f"{self.name}[{_ranges(self.axes)}]"
        entry += "" if self.dtype is DType.F32 else f": {self.dtype}"
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
class Update:
    """An input that is written, too: after a call it holds what a stage of its shape computes. All
    stages read what it held before. One of f16 holds that stage rounded; what other stages read of
    the stage a kernel may take as it was computed or as it is held."""

    tensor: str
    stage: str

    def __str__(self) -> str:
        return f"{self.tensor} := {self.stage}"


@dataclass(frozen=True, slots=True)
class Spare:
    """The input `tensor`, i32[1], says how many of the `parts` equal parts of the output, the last
    ones, nobody will read: a kernel may leave them as they are, or write anything there. Of several
    `blocks`, such as heads, each has so many parts."""

    tensor: str
    parts: int
    blocks: int = 1

    def __str__(self) -> str:
        blocks = f" in each of {self.blocks}" if self.blocks > 1 else ""
        return f"spare {self.tensor}: {self.parts}{blocks}"


@dataclass(frozen=True, slots=True)
class Program:
    """The last stage is the output. All extents are numbers. With `makes_f16` the output, whose
    entries are computed in f32 like all others, is stored as f16. Where something is `spare`, the
    program states what a call computes with none of it."""

    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    updates: tuple[Update, ...] = ()
    makes_f16: bool = False
    spare: Spare | None = None

    def __str__(self) -> str:
        stages = self.stages
        if self.makes_f16:
            stages = (*stages[:-1], replace(stages[-1], dtype=DType.F16))
        last = (self.spare,) if self.spare else ()
        return "\n".join(map(str, (*self.inputs, *stages, *self.updates, *last)))

    @property
    def output(self) -> Stage:
        return self.stages[-1]

    @property
    def output_dtype(self) -> DType:
        """The dtype in which entries of the output are stored."""
        return DType.F16 if self.makes_f16 else self.output.dtype

    @property
    def is_ordered(self) -> bool:
        """True if its only stage takes values in order."""
        return self.output.is_ordered

    @property
    def in_f32(self) -> "Program":
        """Returns the computation with tensors of f32 in the place of those of f16."""
        inputs = (
            replace(each, dtype=DType.F32) if each.dtype == DType.F16 else each
            for each in self.inputs
        )
        return replace(self, inputs=tuple(inputs), makes_f16=False)

    def normalised(self) -> "Program":
        """Renames inputs to x0, x1, …, stages s0, s1, … and in each stage axes i0, i1, …, so that
        equal computations have equal texts."""
        names = {each.name: f"x{n}" for n, each in enumerate(self.inputs)}
        names |= {each.name: f"s{n}" for n, each in enumerate(self.stages)}
        return replace(
            self,
            inputs=tuple(replace(each, name=names[each.name]) for each in self.inputs),
            stages=tuple(_renamed(stage, names) for stage in self.stages),
            updates=tuple(Update(names[u.tensor], names[u.stage]) for u in self.updates),
            spare=self.spare and replace(self.spare, tensor=names[self.spare.tensor]),
        )


def _renamed(stage: Stage, tensors: Mapping[str, str]) -> Stage:
    names = {axis.name: f"i{n}" for n, axis in enumerate((*stage.axes, *stage.over))}

    def renamed(part: Expression) -> Expression:
        match rebuilt(part, renamed):
            case Axis(name, extent):
                return Axis(names[name], extent)
            case Read(tensor, at):
                return Read(tensors[tensor], at)
            case other:
                return other

    return replace(
        stage,
        name=tensors[stage.name],
        axes=tuple(replace(axis, name=names[axis.name]) for axis in stage.axes),
        value=renamed(stage.value),
        over=tuple(replace(axis, name=names[axis.name]) for axis in stage.over),
    )


def rebuilt(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with each of its operands changed."""
    match expression:
        case Read(tensor, at):
            return Read(tensor, tuple(map(change, at)))
        case Binary(op, left, right):
            return Binary(op, change(left), change(right))
        case Call(function, argument):
            return Call(function, change(argument))
        case Cast(argument, dtype):
            return Cast(change(argument), dtype)
        case Choice(conditions, then, otherwise):
            told = (Comparison(c.op, change(c.left), change(c.right)) for c in conditions)
            return Choice(tuple(told), change(then), change(otherwise))
        case Scatter(initial, update, at):
            return Scatter(change(initial), change(update), tuple(map(change, at)))
    return expression


def terms(stage: Stage) -> int:
    """Values that one entry of a stage is reduced from; 1 where it is not."""
    return prod(number(axis.extent) for axis in stage.over)


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(_direct_parts(part))


def depth(expression: Expression) -> int:
    """Counts how many expressions lie within one another."""
    deepest, waiting = 0, [(expression, 0)]
    while waiting:
        part, level = waiting.pop()
        deepest = max(deepest, level)
        waiting += [(each, level + 1) for each in _direct_parts(part)]
    return deepest


def _direct_parts(expression: Expression) -> list[Expression]:
    match expression:
        case Read(_, at):
            return list(at)
        case Binary(_, left, right):
            return [left, right]
        case Call(_, argument) | Cast(argument):
            return [argument]
        case Choice(conditions, then, otherwise):
            sides = [side for each in conditions for side in (each.left, each.right)]
            return [*sides, then, otherwise]
        case Scatter(initial, update, at):
            return [initial, update, *at]
    return []


def value_reads(value: Expression) -> Iterator[Read]:
    """Reads whose entries the value is made of, not those that say where others lie or which of
    two is taken."""
    match value:
        case Read():
            yield value
        case Binary(_, left, right):
            yield from value_reads(left)
            yield from value_reads(right)
        case Call(_, argument) | Cast(argument):
            yield from value_reads(argument)
        case Choice(_, then, otherwise):
            yield from value_reads(then)
            yield from value_reads(otherwise)
        case Scatter(initial, update, _):
            yield from value_reads(initial)
            yield from value_reads(update)
        case Integer() | Real() | Axis():
            return


def read(tensor: str, *at: Operand) -> Read:
    return Read(tensor, tuple(map(operand, at)))


def equal(left: Operand, right: Operand) -> Comparison:
    return Comparison(CompareOp.EQ, operand(left), operand(right))


def differs(left: Operand, right: Operand) -> Comparison:
    return Comparison(CompareOp.NE, operand(left), operand(right))


def truth(*conditions: Comparison) -> Expression:
    """1 where all conditions hold, else 0: an entry of a truth tensor, which is of i32."""
    return Choice(conditions, Integer(1), Integer(0))


def power(base: Operand, exponent: Operand) -> Expression:
    return Binary(BinaryOp.POW, operand(base), operand(exponent))


def bits(word: Operand, start: Operand, count: int) -> Expression:
    """`count` bits of an integer from bit `start` on, as a number from 0."""
    shifted = Binary(BinaryOp.SHIFT_RIGHT, operand(word), operand(start))
    return Binary(BinaryOp.BIT_AND, shifted, Integer((1 << count) - 1))


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
