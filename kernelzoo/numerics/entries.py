"""The right values of an output at given positions, in float64, from lazily read inputs.

A program of tensor expressions (`kernelzoo.domain.operators.expressions`) is evaluated as it
stands, entry by entry: only what the asked entries need is ever computed, and a stage is evaluated
where it is read.

Positions are taken in groups, and terms of a sum in runs, so that an array holds at most
`TERMS_AT_ONCE` numbers, whatever the extents of a workload are. Arrays of places have a dimension
for the asked positions and one for each sum that they stand in, of size 1 where a place does not
depend on it, so that what a row has in common is computed once for the row.

A recurrence is computed whole, step by step: its last entries are made of all others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Protocol

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
from kernelzoo.domain.operators.ordered import Scan, Selection, Updates, ordered_of
from kernelzoo.domain.operators.recurrence import (
    StepProduct,
    entering_stage,
    is_recurrent,
    step_count,
    step_product,
)
from kernelzoo.numerics.operators import (
    BINARY,
    COMPARE,
    FUNCTIONS,
    REDUCERS,
    Array,
    Indices,
    order_keys,
    whole,
    wrapped,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Lookup = Callable[[int, Indices], Floats]
"""From the number of an input and flat indices to values, of the same shape."""

TERMS_AT_ONCE = 1 << 16
"""Entries of an input that are read and held at once: arrays of half a megabyte. Without this bound
64 entries of a pooling over 512 x 512 windows took 936 MB."""


MOST_KEPT = 1 << 18
"""Entries of a stage that is computed whole: 4 MB of values with their bounds."""


class Arithmetic(Protocol):
    """Computes values: numbers, or numbers with what is known of them. Positions along
    axes are arrays of int64 in every arithmetic."""

    def constant(self, value: float) -> Array: ...
    def loaded(self, values: Floats, *, integer: bool) -> Array: ...
    def positions(self, value: Array) -> Indices: ...
    def binary(self, op: BinaryOp, left: Array, right: Array) -> Array: ...
    def call(self, function: Function, argument: Array) -> Array: ...
    def cast(self, argument: Array, dtype: DType) -> Array: ...
    def holds(self, op: CompareOp, left: Array, right: Array) -> tuple[Mask, Mask | None]:
        """Returns where it holds, and where nobody can tell."""
        ...

    def either(self, holds: Mask, unsure: Mask | None, then: Array, otherwise: Array) -> Array: ...
    def reduced(self, reducer: Reducer, values: Array) -> Array:
        """Over the last dimension."""
        ...

    def combined(self, reducer: Reducer, one: Array, other: Array) -> Array: ...
    def running(self, reducer: Reducer, values: Array) -> Array:
        """At each place along the middle of three dimensions, of all values up to it."""
        ...

    def ordered(self, values: Array) -> Array:
        """Returns keys by which the values of rows are ordered, the lowest first."""
        ...

    def updated(self, reducer: Reducer, initial: Array, updates: Array, at: Indices) -> Array:
        """A flat tensor after its updates at flat places, in order."""
        ...

    def multiplied(self, left: Array, right: Floats, sizes: Floats) -> Array:
        """The product of matrices, which the last two dimensions are. Those on the right are exact
        numbers, and their `sizes`."""
        ...

    def held_as_f16(self, values: Array) -> Array:
        """Rounds values of a stage by which a state of f16 is updated."""
        ...


def entries(program: Program, positions: Indices, lookup: Lookup) -> Floats:
    """float64[positions]: right values at flat positions of the output.

    Raises IndexError for a program that reads outside of a tensor.
    """
    with np.errstate(divide="ignore"):
        return evaluated(program, positions, lookup, Exact()).astype(np.float64)


def evaluated(
    program: Program, positions: Indices, lookup: Lookup, arithmetic: Arithmetic
) -> Array:
    """Computes what `entries` does, in any arithmetic."""
    if program.is_ordered:
        whole_output = _Evaluation(program, lookup, arithmetic).in_order(program.output)
        return np.asarray(whole_output.reshape(-1)[positions])
    longest = max(terms(stage) for stage in program.stages)
    shape = program.output.shape
    if is_recurrent(program):
        made = _Recurrence(program, lookup, arithmetic).output()
        return np.asarray(made.reshape(-1)[positions])
    evaluation = _Evaluation(program, lookup, arithmetic)
    values = []
    for group in _runs(positions.size, max(1, TERMS_AT_ONCE // longest)):
        at = np.unravel_index(positions[group], shape) if shape else ()
        value = evaluation.entry(program.output, at)
        values.append(np.broadcast_to(value, group.shape))
    return np.concatenate(values)


class _Evaluation:
    """Evaluates a program. What a stage was last read as is remembered: softmax reads the largest
    of its row for every term of a sum. A stage of which half is asked for at once is computed
    whole, and once: attention reads all its scores for the largest, for the powers and for their
    sum."""

    def __init__(self, program: Program, lookup: Lookup, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self._stages = {stage.name: stage for stage in program.stages}
        self._inputs = {each.name: (n, each) for n, each in enumerate(program.inputs)}
        self._halved = {
            update.stage
            for update in program.updates
            if self._inputs[update.tensor][1].dtype == DType.F16
        }
        self._lookup = lookup
        self._latest: dict[str, tuple[bytes, Array]] = {}
        self._whole: dict[str, Array] = {}

    def in_order(self, stage: Stage) -> Array:
        """All entries of a stage that takes its values one after another."""
        match ordered_of(stage):
            case Scan(reducer=reducer, outer=outer, extent=extent, inner=inner):
                read = stage.value
                assert isinstance(read, Read)
                values = self._all_values(Read(read.tensor, stage.axes), stage.axes)
                return self._arithmetic.running(reducer, values.reshape(outer, extent, inner))
            case Selection(rows=rows, extent=extent, count=count, largest=largest):
                values = self._all_values(stage.value, (stage.axes[0], *stage.over))
                keys = self._arithmetic.ordered(values.reshape(rows, extent))
                order = np.argsort(~keys if largest else keys, axis=-1, kind="stable")
                return order[:, :count]
            case Updates(reducer=reducer, value=value, axes=axes, over=over, shape=shape):
                flat = np.zeros(1, dtype=np.int64)
                outside = np.zeros(1, dtype=bool)
                for part, extent in zip(value.at, shape, strict=True):
                    place = self._arithmetic.positions(self._all_values(part, over))
                    outside = outside | (place < 0) | (place >= extent)
                    flat = flat * extent + place
                kept = np.flatnonzero(np.broadcast_to(~outside, prod(map(_extent, over))))
                return self._arithmetic.updated(
                    reducer,
                    self._all_values(value.initial, axes),
                    self._all_values(value.update, over)[kept],
                    np.broadcast_to(flat, outside.shape)[kept],
                )

    def _all_values(self, value: Expression, axes: Sequence[Axis]) -> Array:
        """Flat, at all places along axes in their order."""
        extents = tuple(map(_extent, axes))
        places = np.unravel_index(np.arange(prod(extents)), extents)
        at = {axis.name: place for axis, place in zip(axes, places, strict=True)}
        return np.broadcast_to(self._value(value, at, _ALL), prod(extents))

    def entry(self, stage: Stage, at: Sequence[Array]) -> Array:
        """The entries of a stage at places along its axes, all of them within it."""
        if stage.name in self._whole or _asks_for_half(stage, at):
            return np.asarray(self._all_of(stage)[tuple(at)])
        last = min((_trailing_ones(place.shape) for place in at), default=0)
        places = [place.reshape(place.shape[: place.ndim - last]) for place in at]
        key = b"at" + b"".join(f"{place.shape}".encode() + place.tobytes() for place in places)
        known, value = self._latest.get(stage.name, (b"", _NONE))
        if known != key:
            value = self._computed(stage, places)
            self._latest[stage.name] = (key, value)
        return value.reshape(value.shape + (1,) * last)

    def _all_of(self, stage: Stage) -> Array:
        if stage.name not in self._whole:
            at = np.unravel_index(np.arange(prod(stage.shape)), stage.shape)
            found = np.broadcast_to(self._computed(stage, at), (prod(stage.shape),))
            self._whole[stage.name] = found.reshape(stage.shape)
        return self._whole[stage.name]

    def _computed(self, stage: Stage, at: Sequence[Array]) -> Array:
        found = self._as_stated(stage, at)
        return self._arithmetic.held_as_f16(found) if stage.name in self._halved else found

    def _as_stated(self, stage: Stage, at: Sequence[Array]) -> Array:
        """Each run of terms is a new last dimension, which is summed away."""
        names = [axis.name for axis in stage.axes]
        if stage.reducer is None:
            return np.asarray(self._value(stage.value, dict(zip(names, at, strict=True)), _ALL))
        outer = {name: place[..., np.newaxis] for name, place in zip(names, at, strict=True)}
        places = np.broadcast_shapes(*(place.shape for place in at))
        extents = tuple(number(axis.extent) for axis in stage.over)
        reducer, arithmetic = stage.reducer, self._arithmetic
        total: Array | None = None
        for run in _runs(terms(stage), max(1, TERMS_AT_ONCE // prod(places))):
            along = np.unravel_index(run, extents)
            inner = {axis.name: along[n] for n, axis in enumerate(stage.over)}
            values = np.broadcast_to(
                self._value(stage.value, outer | inner, _ALL), (*places, run.size)
            )
            some = arithmetic.reduced(reducer, values)
            total = some if total is None else arithmetic.combined(reducer, total, some)
        return np.asarray(total)

    def _value(self, expression: Expression, at: Mapping[str, Array], needed: Mask) -> Array:
        """At places by the names of axes; where it is not `needed` it may be any number."""
        arithmetic = self._arithmetic
        match expression:
            case Integer(value):
                return np.array([value])
            case Real(value):
                return arithmetic.constant(value)
            case Axis(name):
                return at[name]
            case Read(tensor, places):
                return self._read(tensor, [self._value(p, at, needed) for p in places], needed)
            case Binary(op, left, right):
                sides = (self._value(side, at, needed) for side in (left, right))
                return arithmetic.binary(op, *sides)
            case Call(function, argument):
                return arithmetic.call(function, self._value(argument, at, needed))
            case Cast(argument, dtype):
                return arithmetic.cast(self._value(argument, at, needed), dtype)
            case Choice(conditions, then, otherwise):
                holds, unsure = self._holds(conditions[0], at, needed)
                for condition in conditions[1:]:
                    also, also_unsure = self._holds(condition, at, needed)
                    holds = holds & also
                    unsure = _either(unsure, also_unsure)
                taken = self._value(then, at, needed & holds)
                other = self._value(otherwise, at, needed & ~holds)
                return arithmetic.either(holds, unsure, taken, other)
        raise TypeError(f"{expression} has no value; bind the extents that it names")

    def _holds(
        self, comparison: Comparison, at: Mapping[str, Array], needed: Mask
    ) -> tuple[Mask, Mask | None]:
        left, right = (self._value(x, at, needed) for x in (comparison.left, comparison.right))
        return self._arithmetic.holds(comparison.op, left, right)

    def _read(self, tensor: str, at: Sequence[Array], needed: Mask) -> Array:
        at = [self._arithmetic.positions(place) for place in at]
        if tensor in self._stages:
            stage = self._stages[tensor]
            return self.entry(stage, _inside(tensor, at, stage.shape, needed))
        input_number, told = self._inputs[tensor]
        flat = np.zeros(1, dtype=np.int64)
        for place, extent in zip(_inside(tensor, at, told.shape, needed), told.shape, strict=True):
            flat = flat * extent + place
        values = self._lookup(input_number, flat)
        return self._arithmetic.loaded(values, integer=told.dtype in _INTEGERS)


class _Recurrence(_Evaluation):
    """Evaluates a recurrence: all entries of a step, from those of the step before."""

    def __init__(self, program: Program, lookup: Lookup, arithmetic: Arithmetic) -> None:
        super().__init__(program, lookup, arithmetic)
        self._program = program
        self._step = 0
        self._now: dict[str, Array] = {}
        self._before: dict[str, Array] = {}
        self._products = {
            stage.name: (product, weights, np.abs(weights))
            for stage in program.stages
            if (product := step_product(program, stage)) is not None
            for weights in (self._weights(product),)
        }

    def output(self) -> Array:
        program, made = self._program, []
        for self._step in range(step_count(program)):
            for stage in program.stages:
                self._now[stage.name] = self._entries(stage)
            made.append(self._now[program.output.name])
            self._before = dict(self._now)
        return np.stack(made)

    def entry(self, stage: Stage, at: Sequence[Array]) -> Array:
        """At the step of the reader, or at the one before. Places that are not needed are 0."""
        first, *places = at
        held = self._now if int(first.max()) == self._step else self._before
        if stage.name not in held:
            return np.zeros(np.broadcast_shapes(*(place.shape for place in at)))
        return np.asarray(held[stage.name][tuple(places)])

    def _entries(self, stage: Stage) -> Array:
        """Computes the entries of the step, in the shape of the stage without its first axis."""
        if stage.name not in self._products:
            return self._entries_as_stated(stage)
        product, weights, sizes = self._products[stage.name]
        entering = self._entries_as_stated(entering_stage(stage, product))
        rows = entering.reshape(*weights.shape[:-2], -1, number(product.k.extent))
        return self._arithmetic.multiplied(rows, weights, sizes).reshape(stage.shape[1:])

    def _entries_as_stated(self, stage: Stage) -> Array:
        shape = stage.shape[1:]
        inner = np.unravel_index(np.arange(prod(shape)), shape) if shape else ()
        found = self._as_stated(stage, (np.array([self._step]), *inner))
        return np.asarray(np.broadcast_to(found, (prod(shape),)).reshape(shape))

    def _weights(self, product: StepProduct) -> Floats:
        """[batch, k, n]"""
        place, given = self._inputs[product.weights]
        values = self._lookup(place, np.arange(prod(given.shape)))
        batch = [number(axis.extent) for axis in product.batch]
        return values.reshape(*batch, number(product.k.extent), -1)


class Exact:
    """Numbers alone: float64 for real numbers, which is as good as exact, and int64."""

    def constant(self, value: float) -> Array:
        return np.array([value])

    def loaded(self, values: Floats, *, integer: bool) -> Array:
        return values.astype(np.int64) if integer else values

    def positions(self, value: Array) -> Indices:
        return value

    def binary(self, op: BinaryOp, left: Array, right: Array) -> Array:
        return wrapped(BINARY[op](left, right))

    def call(self, function: Function, argument: Array) -> Array:
        return FUNCTIONS[function](argument)

    def cast(self, argument: Array, dtype: DType) -> Array:
        return whole(argument) if dtype is DType.I32 else argument.astype(np.float64)

    def holds(self, op: CompareOp, left: Array, right: Array) -> tuple[Mask, Mask | None]:
        return np.asarray(COMPARE[op](left, right)), None

    def either(
        self,
        holds: Mask,
        unsure: Mask | None,  # noqa: ARG002 - exact numbers leave nothing unsure
        then: Array,
        otherwise: Array,
    ) -> Array:
        return np.where(holds, then, otherwise)

    def reduced(self, reducer: Reducer, values: Array) -> Array:
        return wrapped(REDUCERS[reducer].reduce(values, axis=-1))

    def combined(self, reducer: Reducer, one: Array, other: Array) -> Array:
        return wrapped(REDUCERS[reducer](one, other))

    def running(self, reducer: Reducer, values: Array) -> Array:
        return wrapped(REDUCERS[reducer].accumulate(values, axis=1))

    def ordered(self, values: Array) -> Array:
        return order_keys(values)

    def updated(self, reducer: Reducer, initial: Array, updates: Array, at: Indices) -> Array:
        made = initial.copy()
        if reducer is Reducer.LAST:
            made[at] = updates
        else:
            REDUCERS[reducer].at(made, at, updates)
        return wrapped(made)

    def multiplied(
        self,
        left: Array,
        right: Floats,
        sizes: Floats,  # noqa: ARG002 - exact numbers have no errors
    ) -> Array:
        return np.asarray(left @ right)

    def held_as_f16(self, values: Array) -> Array:
        return values


def _extent(axis: Axis) -> int:
    return number(axis.extent)


def _either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


_ALL: Mask = np.ones(1, dtype=bool)
_NONE: Array = np.empty(0)
_INTEGERS = (DType.I8, DType.I32)


def _runs(length: int, size: int) -> Iterator[Indices]:
    """0 to `length` in runs of at most `size`."""
    for start in range(0, length, size):
        yield np.arange(start, min(start + size, length))


def _asks_for_half(stage: Stage, at: Sequence[Array]) -> bool:
    entries = prod(stage.shape)
    asked = prod(np.broadcast_shapes(*(place.shape for place in at)))
    return bool(at) and entries <= MOST_KEPT and 2 * asked >= entries


def _trailing_ones(shape: tuple[int, ...]) -> int:
    """Counts the last dimensions that have size 1; one dimension is always left."""
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
