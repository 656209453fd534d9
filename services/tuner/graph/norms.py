"""Norms that a model spells out become named workloads.

    mean   = row_mean(a)                                  y = layer_norm(a, gamma, beta)
    rest   = a - mean
    square = row_mean(rest * rest)
    factor = sqrt(square + 1e-5)
    y      = rest / factor * gamma + beta

Without the mean it is an RMS norm.
"""

from dataclasses import dataclass, replace
from math import log10, prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Call,
    Expression,
    Function,
    Program,
    Read,
    Real,
    Stage,
    parts,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import node_of, replaced, single_stage, size
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import Form, flat, quotient, remainder
from services.tuner.graph.steps import Add, Multiply, steps_of

MAX_SIZE = 60
DEFAULT_EPSILON = 5
"""The exponent of the epsilon that a key does not name: 1e-5."""


def norms_named(graph: Graph) -> Graph:
    """Programs that end a norm of the last axis become its workload, and what follows it."""
    edit = Edit(graph)
    makers = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        found = _Search(graph, makers, node).found() if isinstance(node.op, Program) else None
        if found:
            found.enter(edit)
        else:
            edit.nodes.append(node)
    return edit.finished()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """`whole` is the part of the stage's expression that the norm computes."""

    node: Node
    stage: Stage
    source: str
    epsilon: int
    centred: bool
    whole: Expression
    gamma: str | None
    beta: str | None

    def enter(self, edit: Edit) -> None:
        columns = self.stage.shape[-1]
        shape = (prod(self.stage.shape) // columns, columns)
        workload = norm_workload("layer_norm" if self.centred else "rms_norm", shape, self.epsilon)
        operands = [edit.shaped(self.source, shape), self._row(edit, self.gamma, 1.0)]
        if self.centred:
            operands.append(self._row(edit, self.beta, 0.0))
        made = edit.value(self.node.output, DType.F32, shape)
        edit.nodes.append(Node(workload, tuple(operands), made, self.node.label))
        same = edit.shaped(made, self.stage.shape)
        rest = replaced(self.stage.value, self.whole, Read(same, self.stage.axes))
        edit.nodes.append(node_of([replace(self.stage, value=rest)], edit.values, self.node.label))

    def _row(self, edit: Edit, name: str | None, default: float) -> str:
        columns = self.stage.shape[-1]
        if name is not None:
            return edit.shaped(name, (columns,))
        return edit.constant(f"{self.node.output}.row", np.full(columns, default, np.float32))


def norm_workload(operator: str, shape: tuple[int, int], epsilon: int) -> Workload:
    """`epsilon` is the exponent: 12 for 1e-12. Raises InvalidInput for one that no key names."""
    m, n = shape
    eps = "" if epsilon == DEFAULT_EPSILON else f"eps{epsilon}"
    return Workload.parse(f"{operator}:f32:m{m}n{n}{eps}")


class _Search:
    """Backwards from the node that multiplies by gamma and adds beta."""

    def __init__(self, graph: Graph, makers: dict[str, Node], node: Node) -> None:
        self._graph = graph
        self._makers = makers
        self._node = node

    def found(self) -> _Norm | None:
        stage = single_stage(self._node, self._graph.values)
        if stage is None or len(stage.axes) < 2 or size(stage.value) > MAX_SIZE:
            return None
        for part in dict.fromkeys(parts(stage.value)):
            match part:
                case Binary(BinaryOp.DIV | BinaryOp.MUL as op, Read() as rest, Read() as factor):
                    norm = self._norm(stage, part, rest, factor, op)
                    if norm is None and op is BinaryOp.MUL:
                        norm = self._norm(stage, part, factor, rest, op)
                    if norm:
                        return norm
        return None

    def _norm(
        self, stage: Stage, part: Expression, rest: Read, factor: Read, op: BinaryOp
    ) -> _Norm | None:
        entry = flat(stage.axes, stage.shape)
        columns = stage.shape[-1]
        if self._place(rest) != entry or self._place(factor) != quotient(entry, columns):
            return None
        told = self._mean_square(factor, op, columns)
        if told is None or told[0] != self._root(rest.tensor):
            return None
        source = self._centred(rest.tensor, columns)
        gamma, beta, whole = None, None, part
        for step in steps_of(stage.value, part):
            match step:
                case Multiply(done, Read() as read) if gamma is None and beta is None:
                    gamma = self._row(read, entry, columns)
                    if gamma is None:
                        break
                case Add(done, Read() as read) if beta is None and source:
                    beta = self._row(read, entry, columns)
                    if beta is None:
                        break
                case _:
                    break
            whole = done
        norm = _Norm(
            node=self._node,
            stage=stage,
            source=source or rest.tensor,
            epsilon=told[1],
            centred=source is not None,
            whole=whole,
            gamma=gamma,
            beta=beta,
        )
        try:
            norm_workload("rms_norm", (1, columns), norm.epsilon)
        except InvalidInput:
            return None
        return norm

    def _place(self, read: Read) -> Form:
        return flat(read.at, self._graph.values[read.tensor].shape)

    def _row(self, read: Read, entry: Form, columns: int) -> str | None:
        value = self._graph.values[read.tensor]
        is_row = value.elements == columns and value.dtype is DType.F32
        return read.tensor if is_row and self._place(read) == remainder(entry, columns) else None

    def _root(self, name: str) -> str:
        """The value of which it is a view."""
        while name in self._makers and isinstance(self._makers[name].op, View):
            (name,) = self._makers[name].inputs
        return name

    def _maker(self, name: str) -> Node | None:
        return self._makers.get(self._root(name))

    def _stage(self, name: str) -> Stage | None:
        """Returns the stage that makes the entries of a value, if it is a program's only one."""
        node = self._maker(name)
        if node is None or not isinstance(node.op, Program):
            return None
        return single_stage(node, self._graph.values)

    def _is_in_place(self, read: Read, stage: Stage) -> bool:
        return self._place(read) == flat(stage.axes, stage.shape)

    def _row_mean_of(self, name: str, columns: int) -> str | None:
        """The value whose rows it is the means of."""
        node = self._maker(name)
        if node is None or not isinstance(node.op, Workload):
            return None
        of_rows = node.op.operator.name == "row_mean" and node.op.given["n"] == columns
        return self._root(node.inputs[0]) if of_rows else None

    def _mean_square(self, factor: Read, op: BinaryOp, columns: int) -> tuple[str, int] | None:
        """The value whose mean square the factor is the root of, and the exponent of epsilon."""
        stage = self._stage(factor.tensor)
        match stage.value if stage else None:
            case Call(Function.SQRT, inner) if op is BinaryOp.DIV:
                pass
            case Call(Function.RSQRT, inner) if op is BinaryOp.MUL:
                pass
            case Binary(BinaryOp.DIV, Real(1.0), Call(Function.SQRT, inner)) if op is BinaryOp.MUL:
                pass
            case _:
                return None
        match inner:
            case Binary(BinaryOp.ADD, Read() as mean, Real(epsilon)):
                pass
            case Binary(BinaryOp.ADD, Real(epsilon), Read() as mean):
                pass
            case _:
                return None
        if stage is None or not self._is_in_place(mean, stage):
            return None
        squares = self._row_mean_of(mean.tensor, columns)
        squared = self._stage(squares) if squares else None
        match squared.value if squared else None:
            case Binary(BinaryOp.MUL, Read() as left, right) if left == right and epsilon > 0:
                exponent = -log10(epsilon)
                in_place = squared is not None and self._is_in_place(left, squared)
                if in_place and abs(exponent - round(exponent)) < 1e-6:
                    return self._root(left.tensor), round(exponent)
        return None

    def _centred(self, rest: str, columns: int) -> str | None:
        """The value of which `rest` is what remains when the mean of the row is taken away."""
        stage = self._stage(rest)
        match stage.value if stage else None:
            case Binary(BinaryOp.SUB, Read() as source, Read() as mean) if stage is not None:
                of_rows = self._place(mean) == quotient(flat(stage.axes, stage.shape), columns)
                of_source = self._row_mean_of(mean.tensor, columns) == self._root(source.tensor)
                if of_rows and of_source and self._is_in_place(source, stage):
                    return source.tensor
        return None
