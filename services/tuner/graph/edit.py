"""A graph while a pass changes it: new values with fresh names, constants, views of values."""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.graph.graph import Graph, Node, Value, View

Entries = NDArray[np.float32 | np.float16 | np.int32 | np.int8]


class Edit:
    """Nodes are added in an order in which they can be carried out."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.values = dict(graph.values)
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []
        self.uses = _uses(graph)

    def finished(self) -> Graph:
        """Without what nothing needs any more."""
        made = replace(
            self._graph, values=self.values, constants=self.constants, nodes=tuple(self.nodes)
        )
        return pruned(made)

    def value(self, like: str, dtype: DType, shape: tuple[int, ...]) -> str:
        """A new value, called after another."""
        name = f"{like}'"
        while name in self.values:
            name += "'"
        self.values[name] = Value(name, dtype, shape)
        return name

    def constant(self, like: str, entries: Entries) -> str:
        dtype = next(dtype for dtype, known in NUMPY_DTYPES.items() if known == entries.dtype)
        name = self.value(like, dtype, entries.shape)
        self.constants[name] = np.ascontiguousarray(entries)
        return name

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The value under a shape; a view is added where it has another."""
        value = self.values[name]
        if value.shape == shape:
            return name
        if name in self.constants:
            return self.constant(name, self.constants[name].reshape(shape))
        made = self.value(name, value.dtype, shape)
        self.nodes.append(Node(View(), (name,), made))
        self.uses[name] += 1
        return made


def _uses(graph: Graph) -> Counter[str]:
    """Nodes and outputs that read a value."""
    return Counter(
        [
            *(port.value for port in graph.outputs),
            *(name for node in graph.nodes for name in dict.fromkeys(node.inputs)),
        ]
    )


def readers_of(graph: Graph) -> dict[str, set[str]]:
    """By each value the nodes that read it, by their outputs, through views too: a view reads
    nothing itself. An output of the model is read by its own port."""
    readers: dict[str, set[str]] = {name: set() for name in graph.values}
    for port in graph.outputs:
        readers[port.value].add(f"output {port.name}")
    for node in reversed(graph.nodes):
        is_view = isinstance(node.op, View)
        for name in node.inputs:
            readers[name] |= readers[node.output] if is_view else {node.output}
    return readers


def pruned(graph: Graph) -> Graph:
    """Without nodes, values and constants that no output needs."""
    needed = {port.value for port in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in needed:
            kept.append(node)
            needed.update(node.inputs)
    needed |= {port.value for port in graph.inputs}
    return replace(
        graph,
        nodes=tuple(reversed(kept)),
        values={name: value for name, value in graph.values.items() if name in needed},
        constants={name: entries for name, entries in graph.constants.items() if name in needed},
    )
