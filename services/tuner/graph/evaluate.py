"""The values of a graph in NumPy: the oracle that plans and kernels are held to.

Programs are evaluated stage by stage over whole tensors, or over slices of them. Real numbers are
f32 as in kernels, but sums are taken in float64, those of products as `products` says.
"""

from collections.abc import Callable, Mapping, Sequence
from math import erf
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
)
from kernelzoo.domain.operators.recurrence import is_recurrent, step_count
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import NUMPY_DTYPES, Graph, Node, View, integers_of_32
from services.tuner.graph.in_order import in_order
from services.tuner.graph.products import (
    ENTRIES_AT_ONCE,
    contraction,
    convolution,
    depthwise_convolution,
    entries_at_once,
    factors,
    matmul,
)

Array = NDArray[Any]


def evaluate(
    graph: Graph,
    feeds: Mapping[str, Array],
    states: Mapping[str, Array] | None = None,
    seen: Callable[[Node, Array], Array] | None = None,
) -> dict[str, Array]:
    """Outputs by the model's names, in the graph's dtypes, from inputs by the model's names.
    `states`, by the graph's names, are written in place, as are inputs that are states. `seen` is
    given what each node computes, and gives what others read of it."""
    values: dict[str, Array] = {**graph.constants, **(states or {})}
    for port in graph.inputs:
        value = graph.values[port.value]
        given = np.asarray(feeds[port.name])
        if given.shape != value.shape:
            raise ValueError(f"{port.name} has the shape {given.shape}, not {value.shape}")
        values[port.value] = clipped(given, value.dtype)
    left = {name: len(nodes) for name, nodes in graph.users.items()}
    kept = {*graph.states, *(port.value for port in graph.outputs)}
    for node in graph.nodes:
        made = graph.values[node.output]
        inputs = [_widened(values[name]) for name in node.inputs]
        computed = _computed(node.op, inputs, made.shape)
        if seen is not None:
            computed = seen(node, np.asarray(computed))
        with np.errstate(over="ignore"):
            values[node.output] = np.asarray(computed, NUMPY_DTYPES[made.dtype])
            for name, held in zip(node.inputs, inputs, strict=True):
                if name in graph.states and held is not values[name]:
                    values[name][...] = held
        for name in dict.fromkeys(node.inputs):
            left[name] -= 1
            if not left[name] and name not in kept:
                del values[name]
    return {port.name: values[port.value] for port in graph.outputs}


def clipped(given: Array, dtype: DType) -> Array:
    """What a page hands over, as the graph has it."""
    if dtype is DType.I32 and given.dtype.kind in "biu":
        return integers_of_32(given)
    with np.errstate(over="ignore"):
        return np.asarray(given, NUMPY_DTYPES[dtype])


def _widened(entries: Array) -> Array:
    """As kernels compute with them: those of f16 in f32."""
    return entries.astype(np.float32) if entries.dtype == np.float16 else entries


def run_program(program: Program, inputs: Sequence[Array]) -> Array:
    """The output of a program, given its inputs in order. Those that it updates are written."""
    tensors = {each.name: value for each, value in zip(program.inputs, inputs, strict=True)}
    if is_recurrent(program):
        return _last_of_recurrence(program, tensors)
    for stage in program.stages:
        tensors[stage.name] = _stage(stage, tensors)
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


def _computed(
    op: Workload | Program | View, inputs: Sequence[Array], shape: Sequence[int]
) -> Array:
    match op:
        case View():
            return inputs[0].reshape(shape)
        case Program():
            return run_program(op, inputs)
        case Workload():
            return _workload(op, inputs)


def _workload(workload: Workload, inputs: Sequence[Array]) -> Array:
    """Products and convolutions are left to NumPy's own; everything else is its program."""
    product = _PRODUCTS.get(workload.operator.name)
    if product is None:
        return run_program(workload.program, inputs)
    bare = workload.program
    sums = product(workload, *inputs[:2]).astype(np.float32)
    if not workload.epilogue:
        return sums
    last = bare.output
    unfinished = bare.stages[-2].name
    tensors = {each.name: x for each, x in zip(bare.inputs, inputs, strict=True)}
    return _stage(last, {**tensors, unfinished: sums})


def _matmul(_: Workload, a: Array, b: Array) -> Array:
    return matmul(a, b)


def _matmul_nt(_: Workload, a: Array, b: Array) -> Array:
    return matmul(a, b.swapaxes(-1, -2))


def _matmul_tn(_: Workload, a: Array, b: Array) -> Array:
    return matmul(a.T, b)


def _conv2d(workload: Workload, a: Array, b: Array) -> Array:
    return convolution(a, b, stride=workload.given["stride"], pad=workload.given["pad"])


def _depthwise(workload: Workload, a: Array, b: Array) -> Array:
    return depthwise_convolution(a, b, stride=workload.given["stride"], pad=workload.given["pad"])


_PRODUCTS: Mapping[str, Callable[[Workload, Array, Array], Array]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "matmul_nt": _matmul_nt,
    "batch_matmul_nt": _matmul_nt,
    "matmul_tn": _matmul_tn,
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise,
}


def _stage(stage: Stage, tensors: Mapping[str, Array]) -> Array:
    """Over all places at once, or over slices of an axis where that would be too much."""
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
                return np.asarray(_BINARY[op](self.of(left), self.of(right)))
            case Call(function, argument):
                return np.asarray(FUNCTIONS[function](self.of(argument)))
            case Cast(argument, DType.F32):
                return self.of(argument).astype(np.float32)
            case Cast(argument, DType.I32):
                return _whole(self.of(argument))
            case Choice(conditions, then, otherwise):
                holds = self._holds(conditions[0])
                for condition in conditions[1:]:
                    holds = holds & self._holds(condition)
                return np.where(holds, self.of(then), self.of(otherwise))
        raise TypeError(f"{expression} has no value; bind the extents that it names")

    def _holds(self, comparison: Comparison) -> Array:
        return np.asarray(
            _COMPARE[comparison.op](self.of(comparison.left), self.of(comparison.right))
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


def _whole(value: Array) -> Array:
    """Without a fraction, kept within i32; NaN becomes 0."""
    whole = np.nan_to_num(np.trunc(value.astype(np.float64)))
    return np.asarray(np.clip(whole, *DType.I32.value_range), np.int32)


_STEPS = 512
"""Entries of erf's table, for each 1. Cubic interpolation between them errs by less than 1e-12."""
_LAST = 6.0
"""erf is 1 from here on, in float64 too."""
_NODES = np.arange(_LAST * _STEPS + 2) / _STEPS
_ERF = np.array([erf(x) for x in _NODES])
_SLOPE = 2 / np.sqrt(np.pi) * np.exp(-(_NODES**2)) / _STEPS


def _erf(x: Array) -> Array:
    size = np.minimum(np.abs(np.asarray(x, np.float64)), _LAST) * _STEPS
    node = np.nan_to_num(size).astype(np.int32)
    t = size - node
    rise = _ERF[node + 1] - _ERF[node]
    before, after = _SLOPE[node], _SLOPE[node + 1]
    cubic = before + t * ((3 * rise - 2 * before - after) + t * (before + after - 2 * rise))
    return np.asarray(np.copysign(_ERF[node] + t * cubic, x), np.float32)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


FUNCTIONS: Mapping[Function, Callable[[Array], Array]] = {
    Function.EXP: np.exp,
    Function.ERF: _erf,
    Function.TANH: np.tanh,
    Function.SQRT: np.sqrt,
    Function.RSQRT: lambda x: 1 / np.sqrt(x),
    Function.SIGMOID: _sigmoid,
    Function.LOG: np.log,
    Function.EXPM1: np.expm1,
    Function.LOG1P: np.log1p,
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.ABS: np.abs,
}


def _quotient(x: Array, y: Array) -> Array:
    """Floor division, and 1 more where it is below the quotient and that is negative."""
    floor = x // y
    return np.where((floor < 0) & (x - floor * y != 0), floor + 1, floor)


def _power(x: Array, y: Array) -> Array:
    """NumPy's, but that an integer to a negative power loses its fraction."""
    if x.dtype.kind == "f":
        return np.power(x, y)
    sign = np.where(np.bitwise_and(y, 1) == 1, x, 1)
    return np.where(y < 0, np.where(np.abs(x) == 1, sign, 0), np.power(x, np.maximum(y, 0)))


_BINARY: Mapping[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.POW: _power,
    BinaryOp.FMOD: np.fmod,
    BinaryOp.QUOTIENT: _quotient,
    BinaryOp.SHIFT_LEFT: lambda x, y: np.left_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.SHIFT_RIGHT: lambda x, y: np.right_shift(x, np.bitwise_and(y, 31)),
    BinaryOp.BIT_AND: np.bitwise_and,
    BinaryOp.BIT_OR: np.bitwise_or,
    BinaryOp.BIT_XOR: np.bitwise_xor,
}

_COMPARE: Mapping[CompareOp, Callable[[Array, Array], Array]] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
