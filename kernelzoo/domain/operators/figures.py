"""Reads off the text of a program what it takes: operations, terms, and how its integers are
used."""

from collections.abc import Iterator
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.binding import position_range
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
    Integer,
    Program,
    Read,
    Scatter,
    Stage,
    number,
    parts,
    terms,
    value_reads,
)
from kernelzoo.domain.operators.ordered import steps
from kernelzoo.domain.operators.recurrence import is_recurrent, step_count

_OF_BITS = (BinaryOp.SHIFT_RIGHT, BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR)
FEWEST_VALUES = 2
"""An integer that is no index has so many values at the least, as a truth has two."""


def flops(program: Program) -> int:
    """Operations of one call; a value that is only moved counts as one, as in named operators."""
    if program.is_ordered:
        return steps(program.output)
    return sum(
        prod(stage.shape) * terms(stage) * max(1, _operations(stage)) for stage in program.stages
    )


def _operations(stage: Stage) -> int:
    """For each term: those of real numbers, and that of the reducer."""
    return _computed(stage.value) + (stage.reducer is not None)


def _computed(value: Expression) -> int:
    """Operations on entries. Those of indices are addresses."""
    match value:
        case Binary(_, left, right):
            return 1 + _computed(left) + _computed(right)
        case Call(_, argument):
            return 1 + _computed(argument)
        case Cast(argument):
            return _computed(argument)
        case Choice(_, then, otherwise):
            return 1 + max(_computed(then), _computed(otherwise))
    return 0


def longest_reduction(program: Program) -> int:
    """Terms of an entry of the stage that has most."""
    return max(1 if stage.is_ordered else terms(stage) for stage in program.stages)


def work(program: Program) -> int:
    """Terms that one entry of the output takes, with those of all the entries that it is made of,
    when each stage is computed anew for each way in which another reads it.

    Places are counted axis by axis: along each of them as many as the index takes values, which is
    one where only the place in the output decides it. Stages that take values in order, and all
    steps of a recurrence, are computed whole, once.
    """
    if program.is_ordered:
        return steps(program.output)
    if is_recurrent(program):
        return sum(prod(stage.shape) * terms(stage) for stage in program.stages)
    shapes = {stage.name: stage.shape for stage in program.stages}
    times = dict.fromkeys(shapes, 0)
    places = {name: [1] * len(shape) for name, shape in shapes.items()}
    times[program.output.name] = 1
    total = 0
    for stage in reversed(program.stages):
        along = {axis.name: number(axis.extent) for axis in stage.over}
        along |= zip((axis.name for axis in stage.axes), places[stage.name], strict=True)
        total += times[stage.name] * prod(places[stage.name]) * terms(stage)
        for read in set(_reads(stage.value)):
            if read.tensor not in shapes:
                continue
            times[read.tensor] += times[stage.name]
            held = places[read.tensor]
            for axis, (at, extent) in enumerate(zip(read.at, shapes[read.tensor], strict=True)):
                used = {part.name for part in parts(at) if isinstance(part, Axis)}
                values = prod(along[name] for name in used)
                held[axis] = max(held[axis], min(values, extent))
    return total


def stage_bytes(program: Program) -> int:
    """The bytes of all stages before the output; of a recurrence those of one step."""
    size = DType.F32.size_bytes * sum(prod(stage.shape) for stage in program.stages[:-1])
    return size // step_count(program) if is_recurrent(program) else size


def limits(program: Program) -> dict[str, int]:
    """For each input of integers a bound that its entries are below in a call that makes sense: the
    smallest extent that it is a place of, or what it is compared with. Words, whose bits are read,
    have none. What may be spare is none of it, as then everything is computed."""
    reach, words, spare = _Reach(program), _words(program), _spares(program)
    return {
        each.name: 1 if each.name in spare else reach.limit(each.name)
        for each in program.inputs
        if DType(each.dtype).compute_dtype is DType.I32 and each.name not in words
    }


def _spares(program: Program) -> set[str]:
    """Inputs that say what is spare: of the output, or of an axis that a stage reduces, as in
    `x[k] if k + spare[0] < 128 else 0.0`."""
    found = {program.spare.tensor} if program.spare else set()
    for stage in program.stages:
        choices = (part for part in parts(stage.value) if isinstance(part, Choice))
        for condition in (each for choice in choices for each in choice.conditions):
            match condition:
                case Comparison(CompareOp.LT, Binary(BinaryOp.ADD, Axis() as axis, told), end):
                    one = told.left if isinstance(told, Binary) else told
                    if isinstance(one, Read) and one.at == (Integer(0),) and end == axis.extent:
                        found.add(one.tensor)
    return found & {each.name for each in program.inputs if each.shape == (1,)}


def _words(program: Program) -> set[str]:
    """Tensors of which single bits are read."""
    found = (part for stage in program.stages for part in parts(stage.value))
    return {
        part.left.tensor
        for part in found
        if isinstance(part, Binary) and part.op in _OF_BITS and isinstance(part.left, Read)
    }


class _Reach:
    """Finds which inputs of integers stand in which indices and comparisons, through stages as
    well."""

    def __init__(self, program: Program) -> None:
        self._shapes = {each.name: each.shape for each in program.inputs}
        self._shapes |= {stage.name: stage.shape for stage in program.stages}
        self._sources: dict[str, frozenset[str]] = {}
        self._indexed: dict[str, int] = {}
        self._compared: dict[str, int] = {}
        for each in program.inputs:
            integer = DType(each.dtype).compute_dtype is DType.I32
            self._sources[each.name] = frozenset((each.name,)) if integer else frozenset()
        self._sources |= {stage.name: frozenset() for stage in program.stages}
        for stage in program.stages:
            self._sources[stage.name] = (
                self._of(stage.value) if stage.dtype is DType.I32 else frozenset()
            )
            self._note(stage)

    def limit(self, name: str) -> int:
        found = self._indexed.get(name) or self._compared.get(name)
        return max(found or 0, FEWEST_VALUES) if name not in self._indexed else self._indexed[name]

    def _pieces(self, value: Expression) -> tuple[list[tuple[Read, Expression]], int]:
        """The reads of a choice among pieces of one table, each with the place of its row, and the
        rows of all: `low[r] if r < 4 else high[r - 4]` reads any of 4 rows and those of `high`."""
        match value:
            case Choice((Comparison(CompareOp.LT, row, Integer(end)),), Read() as read, behind):
                own = [(read, row)] if row in read.at else []
                own += [(read, at) for at in read.at if _shift(at, row)]
            case _:
                return [], 0
        match behind:
            case Read(tensor, at):
                for place, extent in zip(at, self._shapes[tensor], strict=True):
                    if _shift(place, row) == end:
                        return [*own, (behind, place)], end + extent
            case Choice((Comparison(CompareOp.LT, same, _),), _, _) if same == row:
                pieces, last = self._pieces(behind)
                return ([*own, *pieces], last) if pieces else ([], 0)
        return [], 0

    def _of(self, value: Expression) -> frozenset[str]:
        """The inputs that decide an integer, but for those that only say where others lie."""
        return frozenset().union(*(self._sources[read.tensor] for read in value_reads(value)))

    def _note(self, stage: Stage) -> None:
        rows = dict[tuple[Read, Expression], int]()
        for part in parts(stage.value):
            pieces, end = self._pieces(part)
            rows |= {piece: max(end, rows.get(piece, 0)) for piece in pieces}
        for read in _reads(stage.value):
            for place, extent in zip(read.at, self._shapes[read.tensor], strict=True):
                reached = rows.get((read, place), extent)
                for name in self._of(place):
                    self._indexed[name] = min(reached, self._indexed.get(name, reached))
        if isinstance(stage.value, Scatter):
            for place, extent in zip(stage.value.at, stage.shape, strict=True):
                for name in self._of(place):
                    self._indexed[name] = min(extent, self._indexed.get(name, extent))
        for comparison in _comparisons(stage.value):
            for one, other in (
                (comparison.left, comparison.right),
                (comparison.right, comparison.left),
            ):
                span = position_range(other)
                for name in self._of(one) if span else ():
                    reached = span[1] + 1 if span else 0
                    self._compared[name] = max(reached, self._compared.get(name, 0))


def _shift(place: Expression, row: Expression) -> int:
    """Counts the rows from a place to `row`; 0 for a place that is not before it."""
    match place:
        case Binary(BinaryOp.SUB, start, Integer(shift)) if start == row:
            return shift
    return 0


def _reads(value: Expression) -> Iterator[Read]:
    return (part for part in parts(value) if isinstance(part, Read))


def _comparisons(value: Expression) -> Iterator[Comparison]:
    for part in parts(value):
        if isinstance(part, Choice):
            yield from part.conditions
