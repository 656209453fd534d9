"""Small graphs as an import makes them, and what they compute."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Axis, Expression, Input, Program, Read, Stage
from kernelzoo.domain.plan import PortDType
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.entries import entries
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.graph.formulas import axes_of
from services.tuner.graph.graph import Graph, GraphPort, Node, Value, View, faults

CONSTANTS, FEEDS = 7, 8


class Built:
    """A graph that grows; its methods answer the name of the value that they add."""

    def __init__(self) -> None:
        self.inputs: list[GraphPort] = []
        self.values: dict[str, Value] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self.nodes: list[Node] = []
        # One for each graph, so that its constants do not depend on the tests before.
        self._random = np.random.default_rng(CONSTANTS)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def _value(self, shape: Sequence[int], dtype: DType = DType.F32) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = Value(name, dtype, tuple(shape))
        return name

    def feed(self, *shape: int) -> str:
        name = self._value(shape)
        self.inputs.append(GraphPort(name, PortDType.FLOAT32, name))
        return name

    def constant(self, *shape: int, low: float = -0.5, high: float = 0.5) -> str:
        name = self._value(shape)
        self.constants[name] = self._random.uniform(low, high, shape).astype(np.float32)
        return name

    def view(self, of: str, *shape: int) -> str:
        return self._node(View(), (of,), shape)

    def workload(self, key: str, *inputs: str) -> str:
        workload = Workload.parse(key)
        return self._node(workload, inputs, workload.output.shape)

    def program(self, shape: Sequence[int], value: Any, *inputs: str) -> str:
        """`value` is given the axes, then a function for each input that reads it at places."""
        axes = axes_of(shape)
        given = tuple(Input(f"x{n}", DType.F32, self.shape(each)) for n, each in enumerate(inputs))

        def reader(number: int) -> Any:
            return lambda *at: Read(f"x{number}", at)

        made: Expression = value(axes, *(reader(n) for n in range(len(inputs))))
        return self._node(Program(given, (Stage("s0", axes, made),)), inputs, shape)

    def entrywise(self, function: Any, *inputs: str) -> str:
        """A function of the broadcast entries."""
        shape = np.broadcast_shapes(*(self.shape(each) for each in inputs))

        def at(name: str, axes: Sequence[Axis]) -> tuple[Expression, ...]:
            own = self.shape(name)
            inner = axes[len(axes) - len(own) :]
            return tuple(
                axes_of((1,))[0] * 0 if n == 1 else axis for n, axis in zip(own, inner, strict=True)
            )

        def value(axes: Sequence[Axis], *read: Any) -> Expression:
            made: Expression = function(
                *(r(*at(name, axes)) for r, name in zip(read, inputs, strict=True))
            )
            return made

        return self.program(shape, value, *inputs)

    def transpose(self, of: str, *order: int) -> str:
        shape = tuple(self.shape(of)[axis] for axis in order)
        return self.program(
            shape, lambda axes, x: x(*(axes[order.index(n)] for n in range(len(order)))), of
        )

    def _node(self, op: Any, inputs: Sequence[str], shape: Sequence[int]) -> str:
        name = self._value(shape)
        self.nodes.append(Node(op, tuple(inputs), name, f"/{name}"))
        return name

    def graph(self, *outputs: str) -> Graph:
        ports = tuple(
            GraphPort(f"out{n}", PortDType.FLOAT32, name) for n, name in enumerate(outputs)
        )
        graph = Graph(
            inputs=tuple(self.inputs),
            outputs=ports,
            values=self.values,
            constants=self.constants,
            nodes=tuple(self.nodes),
        )
        assert faults(graph) == ()
        return graph


def fed(graph: Graph) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(FEEDS)
    return {
        port.name: random.uniform(-1, 1, graph.values[port.value].shape).astype(np.float32)
        for port in graph.inputs
    }


def computed(graph: Graph, feeds: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs, node by node, by the definition of each workload."""
    held: dict[str, NDArray[Any]] = dict(graph.constants)
    held |= {port.value: feeds[port.name] for port in graph.inputs}
    for node in graph.nodes:
        value = graph.values[node.output]
        given = [held[name] for name in node.inputs]
        if isinstance(node.op, View):
            held[node.output] = given[0].reshape(value.shape)
            continue
        program = node.op.program if isinstance(node.op, Workload) else node.op
        held[node.output] = _entries(program, given).astype(NUMPY_DTYPES[value.dtype])
    return {port.name: held[port.value] for port in graph.outputs}


def _entries(program: Program, given: Sequence[NDArray[Any]]) -> NDArray[Any]:
    shape = program.output.shape

    def lookup(number: int, at: Any) -> Any:
        return given[number].reshape(-1)[at]

    return entries(program, np.arange(math.prod(shape)), lookup).reshape(shape)
