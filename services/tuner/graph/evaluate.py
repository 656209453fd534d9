"""The values of a graph in NumPy: the oracle that plans and kernels are held to.

Programs are evaluated stage by stage over whole tensors; it is slow and needs much memory. Real
numbers are f32 as in kernels, but sums are taken in float64.
"""

from collections.abc import Callable, Mapping, Sequence
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
)
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import NUMPY_DTYPES, Graph, View

Array = NDArray[Any]

TERMS_AT_ONCE = 1 << 24
"""Values of a stage that are held at once: more are taken in slices of its first axis."""


def evaluate(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by the model's names, in the graph's dtypes, from inputs by the model's names."""
    values: dict[str, Array] = dict(graph.constants)
    for port in graph.inputs:
        value = graph.values[port.value]
        given = np.asarray(feeds[port.name])
        if given.shape != value.shape:
            raise ValueError(f"{port.name} has the shape {given.shape}, not {value.shape}")
        values[port.value] = clipped(given, value.dtype)
    left = {name: len(nodes) for name, nodes in graph.users.items()}
    kept = {port.value for port in graph.outputs}
    for node in graph.nodes:
        inputs = [values[name] for name in node.inputs]
        values[node.output] = _computed(node.op, inputs, graph.values[node.output].shape)
        for name in dict.fromkeys(node.inputs):
            left[name] -= 1
            if not left[name] and name not in kept:
                del values[name]
    return {port.name: values[port.value] for port in graph.outputs}


def clipped(given: Array, dtype: DType) -> Array:
    """What a page hands over, as the graph has it."""
    if dtype is DType.I32 and given.dtype in (np.int64, np.uint32, np.uint64):
        given = np.clip(given, *DType.I32.value_range)
    with np.errstate(over="ignore"):
        return np.asarray(given, NUMPY_DTYPES[dtype])


def run_program(program: Program, inputs: Sequence[Array]) -> Array:
    """The output of a program, given its inputs in order."""
    tensors = {each.name: value for each, value in zip(program.inputs, inputs, strict=True)}
    for stage in program.stages:
        tensors[stage.name] = _stage(stage, tensors)
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
    sums = product(workload, *(np.asarray(x, np.float64) for x in inputs[:2])).astype(np.float32)
    if not workload.epilogue:
        return sums
    last = bare.output
    unfinished = bare.stages[-2].name
    tensors = {each.name: x for each, x in zip(bare.inputs, inputs, strict=True)}
    return _stage(last, {**tensors, unfinished: sums})


def _matmul(_: Workload, a: Array, b: Array) -> Array:
    return np.asarray(a @ b)


def _matmul_nt(_: Workload, a: Array, b: Array) -> Array:
    return np.asarray(a @ b.swapaxes(-1, -2))


def _matmul_tn(_: Workload, a: Array, b: Array) -> Array:
    return np.asarray(a.T @ b)


def _conv2d(workload: Workload, a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("nyxcij,ijco->nyxo", _windows(workload, a), b, optimize=True))


def _depthwise(workload: Workload, a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("nyxcij,ijc->nyxc", _windows(workload, a), b, optimize=True))


def _windows(workload: Workload, image: Array) -> Array:
    """a[b, y, x, c, kh, kw]: what lies under each window."""
    given = workload.given
    pad, stride = given["pad"], given["stride"]
    image = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (given["kh"], given["kw"]), (1, 2))
    return windows[:, ::stride, ::stride]


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
    """Over all places at once, or over slices of the first axis where that would be too much."""
    shape = stage.shape
    terms = prod(number(axis.extent) for axis in stage.over)
    made = np.empty(shape, NUMPY_DTYPES[stage.dtype])
    if not shape:
        made[()] = _slice(stage, tensors, {})
        return made
    rows = max(1, TERMS_AT_ONCE * shape[0] // max(1, prod(shape) * terms))
    for start in range(0, shape[0], rows):
        places = np.arange(start, min(start + rows, shape[0]), dtype=np.int64)
        made[start : start + rows] = _slice(stage, tensors, {stage.axes[0].name: places})
    return made


def _slice(stage: Stage, tensors: Mapping[str, Array], first: Mapping[str, Array]) -> Array:
    """The entries at some places along the first axis and at all along the others."""
    axes = (*stage.axes, *stage.over)
    at: dict[str, Array] = {}
    extents = []
    for number_, axis in enumerate(axes):
        places = first.get(axis.name, np.arange(number(axis.extent), dtype=np.int64))
        extents.append(len(places))
        at[axis.name] = places.reshape([-1 if n == number_ else 1 for n in range(len(axes))])
    with np.errstate(all="ignore"):
        value = np.broadcast_to(_Values(tensors, at).of(stage.value), extents)
        if stage.reducer is None:
            return value
        over = tuple(range(len(stage.axes), len(axes)))
        return _reduced(value, stage.reducer, over)


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
    """Of the expressions of one stage, at places by the names of axes."""

    def __init__(self, tensors: Mapping[str, Array], at: Mapping[str, Array]) -> None:
        self._tensors = tensors
        self._at = at

    def of(self, expression: Expression) -> Array:
        match expression:
            case Integer(value):
                return np.array(value, np.int32)
            case Real(value):
                return np.array(value, np.float32)
            case Axis(name):
                return self._at[name]
            case Read(tensor, places):
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


def _whole(value: Array) -> Array:
    """Without a fraction, kept within i32; NaN becomes 0."""
    whole = np.nan_to_num(np.trunc(value.astype(np.float64)))
    return np.asarray(np.clip(whole, *DType.I32.value_range), np.int32)


_exact_erf: Callable[[Array], Array] = np.vectorize(erf, otypes=[np.float64])


def _erf(x: Array) -> Array:
    return np.asarray(_exact_erf(x), np.float32)


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
    Function.SIN: np.sin,
    Function.COS: np.cos,
    Function.FLOOR: np.floor,
    Function.CEIL: np.ceil,
    Function.ROUND: np.rint,
    Function.ABS: np.abs,
}

_BINARY: Mapping[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOOR_DIV: np.floor_divide,
    BinaryOp.FLOOR_MOD: np.mod,
    BinaryOp.MIN: np.minimum,
    BinaryOp.MAX: np.maximum,
    BinaryOp.POW: np.power,
}

_COMPARE: Mapping[CompareOp, Callable[[Array, Array], Array]] = {
    CompareOp.LT: np.less,
    CompareOp.LE: np.less_equal,
    CompareOp.EQ: np.equal,
    CompareOp.NE: np.not_equal,
}
