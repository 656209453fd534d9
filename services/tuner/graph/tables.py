"""Constants that are larger than agents measure lie in pieces, of which programs choose.

    y[i0: 16, i1: 384] = table[ids[i0], i1]               table: 250037 rows

    y[i0: 16, i1: 384] = (low[ids[i0], i1] if ids[i0] < 125019 else high[ids[i0] - 125019, i1])

A piece is no larger than a buffer that every GPU binds. Who measures kernels and who checks them
hold tensors of a workload's bound at the most, however large the tables of models are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Choice,
    Expression,
    Integer,
    Program,
    Read,
    Real,
    Stage,
)
from kernelzoo.domain.workload import MAX_EXTENT, MAX_MEASURED_BYTES
from services.tuner.graph.building import MOST_OPERANDS
from services.tuner.graph.edit import Edit, Entries
from services.tuner.graph.formulas import node_of, reads, replaced, single_stage
from services.tuner.graph.graph import Graph, Node
from services.tuner.schedules.base.limits import BINDING_BYTES

PIECE_BYTES = BINDING_BYTES[0][0]


def is_large(entries: Entries) -> bool:
    """Returns whether no workload that agents measure takes them as one tensor."""
    return entries.nbytes > MAX_MEASURED_BYTES


def is_piece(rows: int, size_bytes: int) -> bool:
    """Returns whether so many rows, or columns, may be one piece. Products of matrices take no more
    than `MAX_EXTENT`, so that a table is in the same pieces for them, too."""
    return rows <= MAX_EXTENT and size_bytes <= PIECE_BYTES


def starts_of_pieces(rows: int, row_bytes: int) -> list[int]:
    """The first row of each piece, and the number of rows."""
    most = max(1, min(MAX_EXTENT, PIECE_BYTES // row_bytes))
    size = ceil(rows / ceil(rows / most))
    return [*range(0, rows, size), rows]


def large_constants_split(graph: Graph) -> Graph:
    """Programs that compute each entry by itself read large constants in pieces."""
    large = {name for name, entries in graph.constants.items() if is_large(entries)}
    if not large:
        return graph
    splitting = _Splitting(Edit(graph))
    for node in graph.nodes:
        splitting.add(node, large)
    return splitting.edit.finished()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a constant from `start` to before `end`."""

    name: str
    start: int
    end: int


class _Splitting:
    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self._pieces: dict[str, list[_Piece]] = {}

    def add(self, node: Node, large: set[str]) -> None:
        """The node, or programs in its place."""
        stage = single_stage(node, self.edit.values) if isinstance(node.op, Program) else None
        if stage is None or not large.intersection(node.inputs):
            self.edit.nodes.append(node)
            return
        value = stage.value
        for read in [read for read in dict.fromkeys(reads([stage])) if read.tensor in large]:
            entry = self._chosen(read, stage, node.label)
            value = replaced(value, read, entry)
        plain = replace(stage, value=value)
        self.edit.nodes.append(node_of([plain], self.edit.values, node.label))

    def _chosen(self, read: Read, stage: Stage, label: str) -> Expression:
        """The entry of a large constant. Where its pieces are more than a kernel binds, programs
        before read those that lie behind."""
        axis = _split_axis(self.edit.values[read.tensor].shape)
        pieces = self._pieces_of(read.tensor, axis)
        others = {each.tensor for each in reads([stage])} - {read.tensor}
        most = MOST_OPERANDS - len(others)
        if len(pieces) > most:
            most = max(1, most - 1)
        entry: Expression | None = None
        for first in reversed(range(0, len(pieces), most)):
            own = pieces[first : first + most]
            entry = _choice(read, axis, own, entry)
            if first:
                entry = self._programmed(read, axis, own, entry, stage, label)
        assert entry is not None
        return entry

    def _programmed(
        self, read: Read, axis: int, own: Sequence[_Piece], entry: Expression, stage: Stage,
        label: str,
    ) -> Expression:  # fmt: skip
        """The entry as a program of its own makes it; 0 for rows that lie before its pieces."""
        dtype = self.edit.values[read.tensor].dtype
        nothing: Expression = Integer(0) if dtype is DType.I32 else Real(0.0)
        name = self.edit.value(stage.name, dtype, stage.shape)
        value = Choice((read.at[axis] < own[0].start,), nothing, entry)
        made = Stage(name, stage.axes, value, dtype=dtype.compute_dtype)
        self.edit.nodes.append(node_of([made], self.edit.values, label))
        return Read(name, stage.axes)

    def _pieces_of(self, name: str, axis: int) -> list[_Piece]:
        if name not in self._pieces:
            entries = self.edit.constants[name]
            extent = entries.shape[axis]
            starts = starts_of_pieces(extent, entries.nbytes // extent)
            before = (slice(None),) * axis
            self._pieces[name] = [
                _Piece(self.edit.constant(name, entries[(*before, slice(start, end))]), start, end)
                for start, end in pairwise(starts)
            ]
        return self._pieces[name]


def _split_axis(shape: Sequence[int]) -> int:
    """The outermost axis, but for those of one entry: rows along it lie one after the other."""
    return next(axis for axis, extent in enumerate(shape) if extent > 1)


def _choice(
    read: Read, axis: int, pieces: Sequence[_Piece], otherwise: Expression | None
) -> Expression:
    """The entry of the piece that has its row, `otherwise` for rows behind them all."""
    entry = otherwise
    for piece in reversed(pieces):
        at = list(read.at)
        at[axis] = read.at[axis] - piece.start if piece.start else read.at[axis]
        own = Read(piece.name, tuple(at))
        entry = own if entry is None else Choice((read.at[axis] < piece.end,), own, entry)
    assert entry is not None
    return entry
