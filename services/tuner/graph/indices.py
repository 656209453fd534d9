"""Integers that choose rows: how an index of ONNX becomes a place within a tensor, and what an
input of integers can be given.

    row = max(min((ids[i] + 9 if ids[i] < 0 else ids[i]), 8), 0)    9 rows: ids from -9 to 8
    hot = (1 if ids[i] == j else 0)                                 j below 257: ids from 0 to 256
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.binding import position_range
from kernelzoo.domain.operators.expressions import (
    Binary,
    BinaryOp,
    Choice,
    Comparison,
    Expression,
    Integer,
    Program,
    Read,
    Scatter,
    largest,
    parts,
    smallest,
    value_reads,
)
from kernelzoo.domain.workload import ProgramWorkload, Workload
from services.tuner.graph.graph import Graph, Node, View

Range = tuple[int, int]
"""The least and the largest."""


def from_start(index: Expression, extent: int) -> Expression:
    """An index of which a negative one counts from the end."""
    return Choice((index < 0,), index + extent, index)


def row_at(index: Expression, extent: int) -> Expression:
    """Counts from the start as `from_start` does, and keeps the row within the tensor."""
    return largest(smallest(from_start(index, extent), extent - 1), 0)


@dataclass(slots=True)
class Uses:
    """An integer is used so. `rows`: those that choose a row of every tensor that it is an index
    of, as it is; others are taken for the nearest. `index`: the smallest extent that it is a place
    in, whatever is done to it before. `compared`: from the least to the largest value that it is
    compared with."""

    rows: Range | None = None
    index: int | None = None
    compared: Range | None = None

    def add(self, other: "Uses", *, same: bool) -> None:
        """`same`: the other integer is this one."""
        if other.index is not None:
            self.index = min(other.index, self.index or other.index)
        if other.compared is not None:
            low, high = self.compared or other.compared
            self.compared = min(low, other.compared[0]), max(high, other.compared[1])
        if same and other.rows is not None:
            low, high = self.rows or other.rows
            self.rows = max(low, other.rows[0]), min(high, other.rows[1])


def uses_of_integers(graph: Graph) -> dict[str, Uses]:
    """By the values of a graph that are integers."""
    found: dict[str, Uses] = {}
    for node in reversed(graph.nodes):
        for place, name in enumerate(node.inputs):
            if graph.values[name].dtype is not DType.I32 or name in graph.constants:
                continue
            uses = found.setdefault(name, Uses())
            behind = found.get(node.output, Uses())
            if isinstance(node.op, View):
                uses.add(behind, same=True)
                continue
            own = _OfProgram(graph, node, place)
            uses.add(own.uses, same=True)
            if own.extent and behind.index == own.extent:
                uses.add(Uses(rows=(-own.extent, own.extent - 1)), same=True)
            if own.is_carried:
                uses.add(behind, same=own.is_copied)
    return found


@dataclass(slots=True)
class _OfProgram:
    """Follows what the program of a node does with its operand number `place`."""

    graph: Graph
    node: Node
    place: int
    uses: Uses = field(default_factory=Uses)
    is_carried: bool = False
    """True if the output is an integer made of it."""
    is_copied: bool = False
    """True if the output has entries of it alone, as they are."""
    extent: int = 0
    """The output is an index of so many rows that counts from the start, as it is one that may
    count from the end; else 0."""
    _carriers: dict[str, bool] = field(default_factory=dict)
    """The tensors that are made of it, and whether they have its entries as they are."""
    _constants: dict[str, Range] = field(default_factory=dict)
    _shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        op = self.node.op
        assert not isinstance(op, View)
        program = op.program if isinstance(op, Workload) else op
        # The limit of a program is what makes sense when it is timed, compared integers included.
        if isinstance(op, Workload) and not isinstance(op, ProgramWorkload):
            limit = op.tensors[self.place].limit
        else:
            limit = 0
        if limit:
            self.uses.add(Uses(rows=(0, limit - 1), index=limit), same=True)
        self._read_inputs(program)
        for stage in program.stages:
            for part in parts(stage.value):
                self._note(part)
            if isinstance(stage.value, Scatter):
                for place, extent in zip(stage.value.at, stage.shape, strict=True):
                    self._note_place(place, extent)
            carried = any(read.tensor in self._carriers for read in value_reads(stage.value))
            if stage.dtype is DType.I32 and carried:
                self._carriers[stage.name] = self._copies(stage.value)
        output = program.output
        self.is_carried = output.name in self._carriers
        self.is_copied = self._carriers.get(output.name, False)
        match output.value:
            case Choice(_, Binary(_, _, Integer(extent)), Read() as read):
                copied = self._carriers.get(read.tensor, False)
                if copied and output.value == from_start(read, extent):
                    self.extent = extent

    def _read_inputs(self, program: Program) -> None:
        self._shapes = {each.name: each.shape for each in program.inputs}
        self._shapes |= {stage.name: stage.shape for stage in program.stages}
        self._carriers[program.inputs[self.place].name] = True
        for each, name in zip(program.inputs, self.node.inputs, strict=True):
            entries = self.graph.constants.get(name)
            if entries is not None and entries.size and each.dtype == DType.I32:
                self._constants[each.name] = int(entries.min()), int(entries.max())

    def _note(self, part: Expression) -> None:
        match part:
            case Read(tensor, at):
                for place, extent in zip(at, self._shapes[tensor], strict=True):
                    self._note_place(place, extent)
            case Choice(conditions):
                for condition in conditions:
                    self._note_comparison(condition)
            case Binary(BinaryOp.MAX, Binary(BinaryOp.MIN, Choice(_, _, Read() as read), last)):
                extent = last.value + 1 if isinstance(last, Integer) else 0
                if self._carriers.get(read.tensor) and part == row_at(read, extent):
                    self.uses.add(Uses(rows=(-extent, extent - 1)), same=True)

    def _note_place(self, place: Expression, extent: int) -> None:
        reads = [read for read in value_reads(place) if read.tensor in self._carriers]
        if not reads:
            return
        self.uses.add(Uses(index=extent), same=True)
        if place == reads[0] and self._carriers[reads[0].tensor]:
            self.uses.add(Uses(rows=(0, extent - 1)), same=True)

    def _note_comparison(self, comparison: Comparison) -> None:
        for one, other in (
            (comparison.left, comparison.right),
            (comparison.right, comparison.left),
        ):
            if any(read.tensor in self._carriers for read in value_reads(one)):
                span = self._span(other)
                if span is not None:
                    self.uses.add(Uses(compared=span), same=True)

    def _span(self, expression: Expression) -> Range | None:
        if isinstance(expression, Read):
            return self._constants.get(expression.tensor)
        return position_range(expression)

    def _copies(self, value: Expression) -> bool:
        return isinstance(value, Read) and self._carriers.get(value.tensor, False)


def allowed_rows(graph: Graph) -> Mapping[str, Range]:
    """By the names of inputs: the integers that choose rows of all tensors that they are an index
    of. Inputs that choose none, or are computed with before, are not there."""
    uses = uses_of_integers(graph)
    return {
        port.name: rows
        for port in graph.inputs
        if (rows := uses.get(port.value, Uses()).rows) is not None and rows[0] <= rows[1]
    }
