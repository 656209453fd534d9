"""Evaluates a graph in NumPy: the oracle that plans and kernels are held to."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.operators import NUMPY_DTYPES, Array
from kernelzoo.numerics.products import convolution, depthwise_convolution, matmul
from kernelzoo.numerics.stages import run_program, run_stage
from services.tuner.graph.graph import Graph, Node, View, integers_of_32


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
        entries = computed(node.op, inputs, made.shape)
        if seen is not None:
            entries = seen(node, np.asarray(entries))
        with np.errstate(over="ignore"):
            values[node.output] = np.asarray(entries, NUMPY_DTYPES[made.dtype])
            for name, held in zip(node.inputs, inputs, strict=True):
                if name in graph.states and held is not values[name]:
                    values[name][...] = held
        for name in dict.fromkeys(node.inputs):
            left[name] -= 1
            if not left[name] and name not in kept:
                del values[name]
    return {port.name: values[port.value] for port in graph.outputs}


def clipped(given: Array, dtype: DType) -> Array:
    """Turns what a page hands over into what the graph has."""
    if dtype is DType.I32 and given.dtype.kind in "biu":
        return integers_of_32(given)
    with np.errstate(over="ignore"):
        return np.asarray(given, NUMPY_DTYPES[dtype])


def _widened(entries: Array) -> Array:
    """Returns entries as kernels compute with them: those of f16 in f32, those of i8 in i32."""
    return entries.astype(_COMPUTED_WITH.get(entries.dtype, entries.dtype), copy=False)


_COMPUTED_WITH = {np.dtype(np.float16): np.float32, np.dtype(np.int8): np.int32}


def computed(op: Workload | Program | View, inputs: Sequence[Array], shape: Sequence[int]) -> Array:
    """The output of one node, of the `shape` of its value."""
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
    return run_stage(last, {**tensors, unfinished: sums})


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
