"""Evaluates programs stage by stage, over whole tensors or over slices of them.

Real numbers are f32 as in kernels, but sums are taken in float64, those of products as `products`
says.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Comparison,
    Expression,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    number,
)
from kernelzoo.domain.operators.recurrence import is_recurrent, step_count
from kernelzoo.numerics.in_order import in_order
from kernelzoo.numerics.operators import BINARY, COMPARE, FUNCTIONS, NUMPY_DTYPES, Array, whole
from kernelzoo.numerics.products import ENTRIES_AT_ONCE, contraction, entries_at_once, factors


def run_program(program: Program, inputs: Sequence[Array]) -> Array:
    """The output of a program, given its inputs in order. Those that it updates are written."""
    tensors = {each.name: value for each, value in zip(program.inputs, inputs, strict=True)}
    if is_recurrent(program):
        return _last_of_recurrence(program, tensors)
    for stage in program.stages:
        tensors[stage.name] = run_stage(stage, tensors)
    for update in program.updates:
        tensors[update.tensor][...] = tensors[update.stage]
    return tensors[program.output.name]


def _last_of_recurrence(program: Program, tensors: dict[str, Array]) -> Array:
    """The output of a recurrence, whose stages are made one step after another."""
    sides = {stage.name: factors(stage) for stage in program.stages}
    for stage in program.stages:
        tensors[stage.name] = np.zeros(stage.shape, NUMPY_DTYPES[stage.dtype])
    for step in range(step_count(program)):
        for stage in program.stages:
            place = {stage.axes[0].name: range(step, step + 1)}
            made = _slice(stage, sides[stage.name], tensors, place)
            tensors[stage.name][step : step + 1] = made
    return tensors[program.output.name]


def run_stage(stage: Stage, tensors: Mapping[str, Array]) -> Array:
    """Computes a stage over all places at once, or over slices where that would be too much."""
    if stage.is_ordered:
        return in_order(stage, tensors)
    shape, sides = stage.shape, factors(stage)
    made = np.empty(shape, NUMPY_DTYPES[stage.dtype])
    slices = -(-entries_at_once(stage, sides) // ENTRIES_AT_ONCE)
    cut = next((n for n, extent in enumerate(shape) if extent >= slices), None)
    if cut is None:
        cut = max(range(len(shape)), key=shape.__getitem__, default=None)
    if cut is None or slices == 1:
        made[...] = _slice(stage, sides, tensors, {})
        return made
    rows = max(1, shape[cut] // slices)
    for start in range(0, shape[cut], rows):
        places = range(start, min(start + rows, shape[cut]))
        at = (slice(None),) * cut + (slice(places.start, places.stop),)
        made[at] = _slice(stage, sides, tensors, {stage.axes[cut].name: places})
    return made


def _slice(
    stage: Stage,
    sides: tuple[Expression, Expression] | None,
    tensors: Mapping[str, Array],
    cut: Mapping[str, range],
) -> Array:
    """The entries at some places along an axis that is cut and at all along the others; `sides` are
    the factors of a contraction."""
    axes = (*stage.axes, *stage.over)
    places = {axis.name: cut.get(axis.name, range(number(axis.extent))) for axis in axes}
    values, shape = _Values(tensors, places), [len(each) for each in places.values()]
    with np.errstate(all="ignore"):
        if sides is not None:
            left, right = (_in_every_dimension(values.of(side), len(shape)) for side in sides)
            sums = contraction(left, right, len(stage.axes))
            return np.broadcast_to(sums, shape[: len(stage.axes)])
        value = np.broadcast_to(values.of(stage.value), shape)
        if stage.reducer is None:
            return value
        over = tuple(range(len(stage.axes), len(axes)))
        return _reduced(value, stage.reducer, over)


def _in_every_dimension(value: Array, rank: int) -> Array:
    """A number that depends on nothing has no dimension."""
    return value.reshape((1,) * (rank - value.ndim) + value.shape)


def _reduced(value: Array, reducer: Reducer, over: tuple[int, ...]) -> Array:
    wide = np.float64 if value.dtype == np.float32 else np.int64
    match reducer:
        case Reducer.SUM:
            result = value.sum(axis=over, dtype=wide)
        case Reducer.PROD:
            result = value.prod(axis=over, dtype=wide)
        case Reducer.MAX:
            result = value.max(axis=over)
        case Reducer.MIN:
            result = value.min(axis=over)
    return np.asarray(result)


class _Values:
    """Evaluates the expressions of one stage, at places along each of its axes, in their order."""

    def __init__(self, tensors: Mapping[str, Array], places: Mapping[str, range]) -> None:
        self._tensors = tensors
        self._places = places

    def of(self, expression: Expression) -> Array:
        match expression:
            case Integer(value):
                return np.array(value, np.int32)
            case Real(value):
                return np.array(value, np.float32)
            case Axis(name):
                along = [-1 if each == name else 1 for each in self._places]
                return np.array(self._places[name], np.int32).reshape(along)
            case Read(tensor, places):
                part = self._part(self._tensors[tensor], places)
                if part is not None:
                    return part
                return self._read(self._tensors[tensor], [self.of(place) for place in places])
            case Binary(op, left, right):
                return np.asarray(BINARY[op](self.of(left), self.of(right)))
            case Call(function, argument):
                return np.asarray(FUNCTIONS[function](self.of(argument)))
            case Cast(argument, DType.F32):
                return self.of(argument).astype(np.float32)
            case Cast(argument, DType.I32):
                return whole(self.of(argument)).astype(np.int32)
            case Choice(conditions, then, otherwise):
                holds = self._holds(conditions[0])
                for condition in conditions[1:]:
                    holds = holds & self._holds(condition)
                return np.where(holds, self.of(then), self.of(otherwise))
        raise TypeError(f"{expression} has no value; bind the extents that it names")

    def _holds(self, comparison: Comparison) -> Array:
        return np.asarray(
            COMPARE[comparison.op](self.of(comparison.left), self.of(comparison.right))
        )

    def _part(self, tensor: Array, places: Sequence[Expression]) -> Array | None:
        """A view of what is read within the tensor at places that are sums of axes times numbers,
        as windows are; None where other places are read."""
        if not places:
            return None
        tensor = np.ascontiguousarray(tensor)
        first, steps = 0, dict.fromkeys(self._places, 0)
        for place, extent, stride in zip(places, tensor.shape, tensor.strides, strict=True):
            form = _linear(place)
            if form is None:
                return None
            constant, factors_of = form
            low = high = constant
            for name, factor in factors_of.items():
                ends = (factor * self._places[name].start, factor * (self._places[name].stop - 1))
                low, high = low + min(ends), high + max(ends)
                constant += factor * self._places[name].start
                steps[name] += factor * stride
            if low < 0 or high >= extent:
                return None
            first += constant * stride
        if not any(steps.values()) or min(steps.values()) < 0:
            return None
        shape = [len(at) if steps[name] else 1 for name, at in self._places.items()]
        view = tensor.reshape(-1)[first // tensor.itemsize :]
        return np.lib.stride_tricks.as_strided(view, shape, list(steps.values()), writeable=False)

    @staticmethod
    def _read(tensor: Array, places: Sequence[Array]) -> Array:
        """Places outside of the tensor are those of the branch that a choice does not take."""
        if not places:
            return tensor
        inside = (
            np.clip(place, 0, extent - 1)
            for place, extent in zip(places, tensor.shape, strict=True)
        )
        return np.asarray(tensor[tuple(inside)])


def _linear(place: Expression) -> tuple[int, dict[str, int]] | None:
    """A sum of axes times numbers, with its constant; None for any other expression."""
    match place:
        case Integer(value):
            return value, {}
        case Axis(name):
            return 0, {name: 1}
        case Binary(BinaryOp.MUL, inner, Integer(factor)) | Binary(
            BinaryOp.MUL, Integer(factor), inner
        ):
            form = _linear(inner)
            if form is None:
                return None
            return factor * form[0], {name: factor * n for name, n in form[1].items()}
        case Binary(BinaryOp.ADD | BinaryOp.SUB as op, left, right):
            one, two = _linear(left), _linear(right)
            if one is None or two is None:
                return None
            sign = 1 if op is BinaryOp.ADD else -1
            names = {**one[1], **two[1]}
            total = {n: one[1].get(n, 0) + sign * two[1].get(n, 0) for n in names}
            return one[0] + sign * two[0], total
    return None
