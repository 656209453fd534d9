"""A graph that is made call by call."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.workload import Workload
from services.tuner.graph.graph import Node, Value
from services.tuner.language.quantise import Quantised


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A quantised matrix among a graph's constants: its words, its scales, and its zero points
    where its form has any."""

    tensors: tuple[str, ...]
    form: Form


@dataclass(slots=True)
class GraphBuilding:
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, NDArray[np.float32 | np.int32]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    def constant(self, name: str, entries: NDArray[np.float32 | np.int32]) -> str:
        dtype = DType.I32 if entries.dtype == np.int32 else DType.F32
        self.values[name] = Value(name, dtype, entries.shape)
        self.constants[name] = entries
        return name

    def matrix(self, name: str, matrix: Quantised) -> Matrix:
        tensors = [
            self.constant(name, matrix.words),
            self.constant(f"{name}.scales", matrix.scales),
        ]
        if matrix.zeros is not None:
            tensors.append(self.constant(f"{name}.zeros", matrix.zeros))
        return Matrix(tensors=tuple(tensors), form=matrix.form)

    def state(self, name: str, dtype: DType, shape: tuple[int, ...]) -> str:
        self.values[name] = Value(name, dtype, shape)
        self.states.append(name)
        return name

    def call(self, workload: Workload, inputs: Sequence[str], output: str) -> str:
        made = workload.output
        self.values[output] = Value(output, made.dtype, made.shape)
        self.nodes.append(Node(workload, tuple(inputs), output, output))
        return output

    def named(self, key: str, inputs: Sequence[str], output: str) -> str:
        return self.call(Workload.parse(key), inputs, output)

    def program(self, name: str, program: Program, inputs: Sequence[str], output: str) -> str:
        return self.call(Workload.of_program(name, program), inputs, output)
