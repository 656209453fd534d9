"""A graph whose values lie as f16 in memory, for a GPU: half of the bytes that kernels move.

    hidden  f32[128, 384]   matmul:f32:m128k384n384      hidden'  f16[128, 384]  cast
                                                         made     f16[128, 384]  matmul:f16:…

Kernels compute in f32 and round what they store. Inputs and outputs of the model stay as they are:
a program reads or makes f32 there, and before or behind what an operator names there is a cast.
Numbers that no f16 holds, such as those that masks are made of, become the nearest that one holds.
What quantises computes on f32, and scales stay f32: a step of bytes is small, and words of them are
no numbers that f16 has.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.byte_layers import BYTE_LAYERS
from kernelzoo.domain.operators.expressions import (
    Expression,
    Input,
    Program,
    Read,
    Real,
    Stage,
    largest,
    parts,
    smallest,
)
from kernelzoo.domain.operators.integer_products import INTEGER_PRODUCTS
from kernelzoo.domain.operators.quantisation import QUANTISATIONS
from kernelzoo.domain.workload import ProgramWorkload, Role, Workload
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import axes_of
from services.tuner.graph.graph import Graph, Node, View

LARGEST = float(np.finfo(np.float16).max)
OF_F32 = frozenset(each.name for each in (*INTEGER_PRODUCTS, *QUANTISATIONS, *BYTE_LAYERS))
"""Operators that compute on f32."""
MOST_ENTRIES = 2
"""A range has two, a scale one."""


def storing_f16(graph: Graph, wide: frozenset[str] = frozenset()) -> Graph:
    """`graph` has been through the rules, and is not lowered yet. Values that are `wide` stay f32,
    and what reads or makes one of them computes on f32."""
    return _Storing(graph, wide).graph()


def nearest_f16(entries: NDArray[np.float32]) -> NDArray[np.float16]:
    return np.clip(entries, -LARGEST, LARGEST).astype(np.float16)


class _Storing:
    """Values keep their names; what an operator or a port wants otherwise is another value."""

    def __init__(self, graph: Graph, wide: frozenset[str]) -> None:
        self._graph = graph
        self._wide = {*wide, *_scales(graph)}
        self._edit = Edit(graph)
        self._made = {port.value for port in graph.outputs}
        self._casts: dict[str, str] = {}
        self._weights: dict[str, str] = {}

    def graph(self) -> Graph:
        edit = self._edit
        for name, entries in self._graph.constants.items():
            if edit.values[name].dtype is DType.F32 and name not in self._made:
                self._keep_as(name, DType.F16)
                edit.constants[name] = nearest_f16(np.asarray(entries, np.float32))
        for node in self._graph.nodes:
            self._add(node)
        return edit.finished()

    def _add(self, node: Node) -> None:
        match node.op:
            case View():
                self._add_view(node)
            case Program() if node.op.is_ordered:
                # Updates that are added one after another would be rounded after each.
                wanted = (DType(each.dtype) for each in node.op.inputs)
                inputs = tuple(map(self._as, node.inputs, wanted))
                self._edit.nodes.append(replace(node, inputs=inputs))
            case Program():
                self._edit.nodes.append(replace(node, op=self._program(node, node.op)))
            case ProgramWorkload(name=name):
                op = Workload.of_program(name, self._program(node, node.op.program))
                self._edit.nodes.append(replace(node, op=op))
            case Workload():
                is_wide = self._wide.intersection((*node.inputs, node.output))
                if is_wide or node.op.operator.name in OF_F32:
                    self._add_wide(node)
                else:
                    self._add_named(node, node.op)

    def _add_wide(self, node: Node) -> None:
        """It computes on f32 and makes f32; what is not wide itself is cast then."""
        inputs = tuple(map(self._as_f32, node.inputs))
        output = node.output
        is_whole = self._edit.values[output].dtype is not DType.F32
        stays = is_whole or output in self._wide or output in self._made
        if not stays:
            value = self._edit.values[output]
            output = self._edit.value(output, DType.F32, value.shape)
            self._keep_as(node.output, DType.F16)
        self._edit.nodes.append(replace(node, inputs=inputs, output=output))
        if not stays:
            self._cast(output, node.output, node.label)

    def _as_f32(self, name: str) -> str:
        """Weights have their entries of f32."""
        value = self._edit.values[name]
        if value.dtype is not DType.F16 or name not in self._graph.constants:
            return self._as(name, DType.F32) if value.dtype is DType.F16 else name
        if name not in self._weights:
            entries = np.asarray(self._graph.constants[name], np.float32)
            self._weights[name] = self._edit.constant(name, entries)
        return self._weights[name]

    def _add_view(self, node: Node) -> None:
        """It has the dtype of what it views, and views a cast of that where it is an output."""
        (source,) = node.inputs
        if node.output in self._made:
            source = self._as(source, self._edit.values[node.output].dtype)
        if node.inputs[0] in self._wide:
            self._wide.add(node.output)
        self._keep_as(node.output, self._edit.values[source].dtype)
        self._edit.nodes.append(replace(node, inputs=(source,)))

    def _program(self, node: Node, program: Program) -> Program:
        """It takes what its operands are, and makes f16 but for an output of the model."""
        inputs = tuple(
            Input(each.name, self._edit.values[name].dtype, each.shape)
            for each, name in zip(program.inputs, node.inputs, strict=True)
        )
        stays = node.output in self._made or node.output in self._wide
        if program.output_dtype is DType.F32 and not stays:
            program = _making_f16(program)
            self._keep_as(node.output, DType.F16)
        return replace(program, inputs=inputs)

    def _add_named(self, node: Node, workload: Workload) -> None:
        op = replace(workload, dtype=DType.F16)
        wanted = (each.dtype for each in op.tensors if each.role is not Role.OUTPUT)
        inputs = tuple(map(self._as, node.inputs, wanted))
        output = node.output
        if output in self._made:
            output = self._edit.value(output, DType.F16, op.output.shape)
        else:
            self._keep_as(output, DType.F16)
        self._edit.nodes.append(replace(node, op=op, inputs=inputs, output=output))
        if output != node.output:
            self._cast(output, node.output, node.label)

    def _keep_as(self, name: str, dtype: DType) -> None:
        self._edit.values[name] = replace(self._edit.values[name], dtype=dtype)

    def _as(self, name: str, dtype: DType) -> str:
        """The value in a dtype; a cast is added where it has another one."""
        value = self._edit.values[name]
        if value.dtype is dtype:
            return name
        if name not in self._casts:
            self._casts[name] = self._edit.value(name, dtype, value.shape)
            self._cast(name, self._casts[name], "")
        return self._casts[name]

    def _cast(self, source: str, output: str, label: str) -> None:
        given, made = self._edit.values[source], self._edit.values[output]
        axes = axes_of(made.shape)
        program = Program(
            inputs=(Input(source, given.dtype, given.shape),),
            stages=(Stage(output, axes, Read(source, axes)),),
            makes_f16=made.dtype is DType.F16,
        )
        self._edit.nodes.append(Node(program.normalised(), (source,), output, label))


def _scales(graph: Graph) -> set[str]:
    """The ranges and the scales that are computed, and what views of them view."""
    views = {node.output: node.inputs[0] for node in graph.nodes if isinstance(node.op, View)}
    todo = [
        name
        for node in graph.nodes
        if isinstance(node.op, Workload) and node.op.operator.name in OF_F32
        for name in (*node.inputs, node.output)
        if graph.values[name].dtype is DType.F32 and graph.values[name].elements <= MOST_ENTRIES
    ]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        found.add(name)
        todo += [views[name]] if name in views else []
    return found - set(graph.constants)


def _making_f16(program: Program) -> Program:
    """Keeps what a program makes within the numbers of f16 where its own are beyond them."""
    *before, output = program.stages
    if output.reducer is None and any(map(_is_beyond, parts(output.value))):
        output = replace(output, value=smallest(largest(output.value, -LARGEST), LARGEST))
    return replace(program, stages=(*before, output), makes_f16=True)


def _is_beyond(part: Expression) -> bool:
    return isinstance(part, Real) and abs(part.value) > LARGEST
