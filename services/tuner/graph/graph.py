"""A network between import and plan: named values, and the nodes that compute them.

Every shape is a number, every node has one output, and what a node computes is a workload, a
program of tensor expressions or a view. Functions on graphs are pure: they make a new graph.

    encoded  f32[384, 768]   matmul+bias:f32:m384k768n768:constant=b   (hidden, weight, bias)
    heads    f32[1, 384, 12, 64]   View   (encoded)
    spread   f32[1, 12, 384, 64]   Program "c[i, j, k, l] = x0[i, k, j, l]"   (heads)
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.plan import OpenPlace, PlanAxis, PlanBatch, PlanSum, PortDType
from kernelzoo.domain.workload import Role, Workload
from kernelzoo.numerics.operators import NUMPY_DTYPES

VALUE_DTYPES = tuple(dtype for dtype in NUMPY_DTYPES if dtype is not DType.I8)
"""Values that a network computes have these; constants may be bytes, too."""


def integers_of_32(entries: NDArray[Any]) -> NDArray[np.int32]:
    """Integers of any size as I32: the nearest, or the same 32 bits of what is unsigned."""
    signed = entries.dtype.kind == "i"
    held = np.int32 if signed or entries.dtype.itemsize < np.dtype(np.int32).itemsize else np.uint32
    info = np.iinfo(held)
    if entries.dtype.itemsize > info.bits // 8:
        entries = np.clip(entries, info.min, info.max)
    return np.asarray(entries, held).view(np.int32)


@dataclass(frozen=True, slots=True)
class GraphPort:
    """An input or output of the model by its own name, and the value that it is. `rows`: the least
    and the largest integer that an input takes which chooses rows of tensors (indices.py). `open`
    are its axes that have a range of extents (ranges.py)."""

    name: str
    dtype: PortDType
    value: str
    rows: tuple[int, int] | None = None
    open: tuple[OpenPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A dense row-major tensor, of f32, f16, i32 or i8."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class View:
    """A view has the entries of a value in their order, under another shape."""


Operation = Workload | Program | View


@dataclass(frozen=True, slots=True)
class Node:
    """`inputs` are in the order of the operation's tensors; `label` is the model's name for it."""

    op: Operation
    inputs: tuple[str, ...]
    output: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """`values` has every tensor by its name, `constants` the entries of those that never change,
    `states` are those that a run leaves to the next one; `nodes` stand in an order in which they
    can be carried out. `axes` have a range of extents, of which values have the largest
    (ranges.py); of a `batch` they have one entry (batches.py)."""

    inputs: tuple[GraphPort, ...]
    outputs: tuple[GraphPort, ...]
    values: Mapping[str, Value]
    constants: Mapping[str, NDArray[np.float32 | np.float16 | np.int32 | np.int8]]
    nodes: tuple[Node, ...]
    states: tuple[str, ...] = ()
    axes: tuple[PlanAxis, ...] = ()
    batch: PlanBatch | None = None
    sums: tuple[PlanSum, ...] = ()

    @property
    def users(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read a value, by its name. A value that is an output alone has none."""
        users: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                users[name].append(node)
        return {name: tuple(nodes) for name, nodes in users.items()}


def faults(graph: Graph) -> tuple[str, ...]:
    """Says what is wrong with a graph, a sentence each; nothing for one that can be carried out."""
    return (
        *_faults_of_values(graph),
        *_faults_of_ports(graph),
        *_faults_of_order(graph),
        *(f"{told(node)}: {fault}" for node in graph.nodes for fault in _faults_of(node, graph)),
    )


def told(node: Node) -> str:
    """A node as the beginning of a sentence."""
    kind = node.op.key if isinstance(node.op, Workload) else type(node.op).__name__.lower()
    return f"{kind} that makes {node.output!r}" + (f" ({node.label})" if node.label else "")


def _faults_of_values(graph: Graph) -> Iterator[str]:
    for name, value in graph.values.items():
        if name != value.name:
            yield f"value {value.name!r} stands under the name {name!r}"
        held = NUMPY_DTYPES if name in graph.constants else VALUE_DTYPES
        if value.dtype not in held:
            yield f"value {name!r} is {value.dtype}; values are {', '.join(held)}"
        if min(value.shape, default=1) < 1:
            yield f"value {name!r} has no entries: its shape is {list(value.shape)}"
    for name, entries in graph.constants.items():
        constant = graph.values.get(name)
        if constant is None:
            yield f"constant {name!r} is no value"
        elif (entries.shape, entries.dtype) != (constant.shape, NUMPY_DTYPES[constant.dtype]):
            yield (
                f"constant {name!r} has entries {entries.dtype}{list(entries.shape)}, "
                f"its value is {constant.dtype}{list(constant.shape)}"
            )


def _faults_of_ports(graph: Graph) -> Iterator[str]:
    for ports, kind in ((graph.inputs, "input"), (graph.outputs, "output")):
        for name, times in Counter(port.name for port in ports).items():
            if times > 1:
                yield f"{kind} {name!r} stands {times} times among the {kind}s"
        for port in ports:
            value = graph.values.get(port.value)
            if value is None:
                yield f"{kind} {port.name!r} is {port.value!r}, which is no value"
            elif value.dtype is not port.dtype.stored:
                yield f"{kind} {port.name!r} is {port.dtype}, its value {value.dtype}"


def _faults_of_order(graph: Graph) -> Iterator[str]:
    made = {port.value for port in graph.inputs} | set(graph.constants) | set(graph.states)
    for node in graph.nodes:
        for name in node.inputs:
            if name not in made:
                yield f"{told(node)} reads {name!r} before anything makes it"
        if node.output in made:
            yield f"{told(node)} makes a value that is made already"
        made.add(node.output)
    for port in graph.outputs:
        if port.value in graph.values and port.value not in made:
            yield f"output {port.name!r} is {port.value!r}, which nothing makes"


def _faults_of(node: Node, graph: Graph) -> Iterator[str]:
    missing = [name for name in (*node.inputs, node.output) if name not in graph.values]
    if missing:
        yield f"{', '.join(map(repr, missing))} is no value"
        return
    given = [graph.values[name] for name in node.inputs]
    made = graph.values[node.output]
    if isinstance(node.op, View):
        if len(given) != 1 or (given[0].elements, given[0].dtype) != (made.elements, made.dtype):
            yield "a view has one input with as many entries, of the same dtype"
        return
    *wanted, output = _tensors(node.op)
    if len(wanted) != len(given):
        yield f"it takes {len(wanted)} inputs and is given {len(given)}"
        return
    for value, (dtype, shape) in zip((*given, made), (*wanted, output), strict=True):
        if (value.dtype, value.shape) != (dtype, shape):
            yield (
                f"{value.name!r} is {value.dtype}{list(value.shape)}; "
                f"it takes {dtype}{list(shape)} there"
            )


def _tensors(op: Workload | Program) -> list[tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each tensor of an operation, the output last."""
    if isinstance(op, Workload):
        inputs = [each for each in op.tensors if each.role is not Role.OUTPUT]
        return [(each.dtype, each.shape) for each in (*inputs, op.output)]
    output = op.output_dtype, op.output.shape
    return [*((each.dtype, each.shape) for each in op.inputs), output]
