"""The right values of an output at given positions, in float64, from lazily read inputs.

A program of tensor expressions (`kernelzoo.domain.operators.expressions`) is evaluated as it
stands, entry by entry: only what the asked entries need is ever computed, and a stage is evaluated
where it is read. This shares no code with the compiler, so that a fault of one is not a fault of
the other.

Positions are taken in groups, and terms of a sum in runs, so that an array holds at most
`TERMS_AT_ONCE` numbers, whatever the extents of a workload are. Arrays of places have a dimension
for the asked positions and one for each sum that they stand in, of size 1 where a place does not
depend on it, so that what a row has in common is computed once for the row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import erf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Function,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    number,
    terms,
)

Array = NDArray[Any]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Lookup = Callable[[int, Indices], Floats]
"""From the number of an input and flat indices to values, of the same shape."""

TERMS_AT_ONCE = 1 << 16
"""Entries of an input that are read and held at once: arrays of half a megabyte. Without this bound
64 entries of a pooling over 512 x 512 windows took 936 MB."""


def entries(program: Program, positions: Indices, lookup: Lookup) -> Floats:
    """float64[positions]: right values at flat positions of the output.

    Raises IndexError for a program that reads outside of a tensor.
    """
    longest = max(terms(stage) for stage in program.stages)
    shape = program.output.shape
    values = []
    for group in _runs(positions.size, max(1, TERMS_AT_ONCE // longest)):
        at = np.unravel_index(positions[group], shape) if shape else ()
        value = _Evaluation(program, lookup).entry(program.output, at)
        values.append(np.broadcast_to(value, group.shape))
    return np.concatenate(values).astype(np.float64)


class _Evaluation:
    """Of one group of positions. What a stage was last read as is remembered: softmax reads the
    largest of its row for every term of a sum."""

    def __init__(self, program: Program, lookup: Lookup) -> None:
        self._stages = {stage.name: stage for stage in program.stages}
        self._inputs = {each.name: (n, each) for n, each in enumerate(program.inputs)}
        self._lookup = lookup
        self._latest: dict[str, tuple[bytes, Array]] = {}

    def entry(self, stage: Stage, at: Sequence[Array]) -> Array:
        """The entries of a stage at places along its axes, all of them within it."""
        last = min((_trailing_ones(place.shape) for place in at), default=0)
        places = [place.reshape(place.shape[: place.ndim - last]) for place in at]
        key = b"at" + b"".join(f"{place.shape}".encode() + place.tobytes() for place in places)
        known, value = self._latest.get(stage.name, (b"", _NONE))
        if known != key:
            value = self._computed(stage, places)
            self._latest[stage.name] = (key, value)
        return value.reshape(value.shape + (1,) * last)

    def _computed(self, stage: Stage, at: Sequence[Array]) -> Array:
        """Each run of terms is a new last dimension, which is summed away."""
        names = [axis.name for axis in stage.axes]
        if stage.reducer is None:
            return np.asarray(self._value(stage.value, dict(zip(names, at, strict=True)), _ALL))
        outer = {name: place[..., np.newaxis] for name, place in zip(names, at, strict=True)}
        places = np.broadcast_shapes(*(place.shape for place in at))
        extents = tuple(number(axis.extent) for axis in stage.over)
        reduce = _REDUCERS[stage.reducer]
        total: Array | None = None
        for run in _runs(terms(stage), max(1, TERMS_AT_ONCE // prod(places))):
            along = np.unravel_index(run, extents)
            inner = {axis.name: along[n] for n, axis in enumerate(stage.over)}
            values = np.broadcast_to(
                self._value(stage.value, outer | inner, _ALL), (*places, run.size)
            )
            some = reduce.reduce(values, axis=-1)
            total = some if total is None else reduce(total, some)
        return np.asarray(total)

    def _value(self, expression: Expression, at: Mapping[str, Array], needed: Mask) -> Array:
        """At places by the names of axes; where it is not `needed` it may be any number."""
        match expression:
            case Integer(value):
                return np.array([value])
            case Real(value):
                return np.array([value])
            case Axis(name):
                return at[name]
            case Read(tensor, places):
                return self._read(tensor, [self._value(p, at, needed) for p in places], needed)
            case Binary(op, left, right):
                sides = (self._value(side, at, needed) for side in (left, right))
                return np.asarray(_BINARY[op](*sides))
            case Call(function, argument):
                return _FUNCTIONS[function](self._value(argument, at, needed))
            case Cast(argument, DType.F32):
                return self._value(argument, at, needed).astype(np.float64)
            case Cast(argument, DType.I32):
                return _whole(self._value(argument, at, needed))
            case Choice(conditions, then, otherwise):
                holds = self._holds(conditions[0], at, needed)
                for condition in conditions[1:]:
                    holds = holds & self._holds(condition, at, needed)
                taken = self._value(then, at, needed & holds)
                return np.where(holds, taken, self._value(otherwise, at, needed & ~holds))
        raise TypeError(f"{expression} has no value; bind the extents that it names")

    def _holds(self, comparison: Comparison, at: Mapping[str, Array], needed: Mask) -> Mask:
        left, right = (self._value(x, at, needed) for x in (comparison.left, comparison.right))
        return np.asarray(_COMPARE[comparison.op](left, right))

    def _read(self, tensor: str, at: Sequence[Array], needed: Mask) -> Array:
        if tensor in self._stages:
            stage = self._stages[tensor]
            return self.entry(stage, _inside(tensor, at, stage.shape, needed))
        input_number, told = self._inputs[tensor]
        flat = np.zeros(1, dtype=np.int64)
        for place, extent in zip(_inside(tensor, at, told.shape, needed), told.shape, strict=True):
            flat = flat * extent + place
        values = self._lookup(input_number, flat)
        return values.astype(np.int64) if told.dtype in _INTEGERS else values


_ALL: Mask = np.ones(1, dtype=bool)
_NONE: Array = np.empty(0)
_INTEGERS = (DType.I8, DType.I32)


def _runs(length: int, size: int) -> Iterator[Indices]:
    """0 to `length` in runs of at most `size`."""
    for start in range(0, length, size):
        yield np.arange(start, min(start + size, length))


def _trailing_ones(shape: tuple[int, ...]) -> int:
    """How many of the last dimensions have size 1; one dimension is always left."""
    count = 0
    while count < len(shape) - 1 and shape[-1 - count] == 1:
        count += 1
    return count


def _inside(
    tensor: str, at: Sequence[Array], shape: tuple[int, ...], needed: Mask
) -> list[Indices]:
    """The places that are needed, and 0 for the others. Raises IndexError for one outside."""
    places = []
    for axis, (place, extent) in enumerate(zip(at, shape, strict=True)):
        safe = place if needed is _ALL else np.where(needed, place, 0)
        if safe.min() < 0 or safe.max() >= extent:
            raise IndexError(f"{tensor} is read outside of its axis {axis}, which has {extent}")
        places.append(safe)
    return places


def _whole(x: Array) -> Array:
    """What is no i32 becomes the nearest, and NaN becomes 0, as in WebAssembly."""
    smallest, largest = DType.I32.value_range
    whole = np.clip(np.trunc(np.nan_to_num(x, nan=0.0)), smallest, largest)
    return np.asarray(whole, dtype=np.int64)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


_FUNCTIONS: dict[Function, Callable[[Array], Array]] = {
    Function.EXP: np.exp,
    Function.ERF: np.vectorize(erf, otypes=[np.float64]),
    Function.TANH: np.tanh,
    Function.SQRT: np.sqrt,
    Function.RSQRT: lambda x: np.asarray(1 / np.sqrt(x)),
    Function.SIGMOID: _sigmoid,
    Function.LOG: np.log,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.ABS: np.abs,
}
_BINARY: dict[BinaryOp, np.ufunc] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.POW: np.float_power,
}
_COMPARE: dict[CompareOp, np.ufunc] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
_REDUCERS: dict[Reducer, np.ufunc] = {
    Reducer.SUM: np.add,
    Reducer.MAX: np.maximum,
    Reducer.MIN: np.minimum,
    Reducer.PROD: np.multiply,
}
