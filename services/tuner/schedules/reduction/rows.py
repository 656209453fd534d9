"""A program as passes over rows: each reduces a row to one value, and what follows knows it.

    total[m] = sum over n of a[m, n]                              a pass
    rest[m, n] = a[m, n] - total[m] * 0.125                       entries, which two others read
    square[m] = sum over n of rest[m, n] * rest[m, n]             a pass
    output[m, n] = rest[m, n] * rsqrt(square[m] * 0.125 + 1e-05)

Whatever the program calls them, its axes are the same in all expressions here: those of rows, and
the column last. Neighbouring axes that no tensor tells apart are one. What a single stage reads is
put into it. A part of an expression that needs passes and no column is a value of the row: kernels
compute it once for all columns. That includes what an entry is divided by, as a product with its
reciprocal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Expression,
    Function,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    parts,
    rebuilt,
)
from kernelzoo.domain.workload import KEY_DTYPES, Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner.schedules.base.epilogue import read_axes
from services.tuner.schedules.base.fused import substituted, without_unit_axes

Axes = tuple[Axis, ...]

REDUCED = "reduced"
"""The name of a pass that the program calls like its output."""

_CONSTANT: Mapping[BinaryOp, Callable[[float, float], float]] = {
    BinaryOp.ADD: lambda left, right: left + right,
    BinaryOp.SUB: lambda left, right: left - right,
    BinaryOp.MUL: lambda left, right: left * right,
    BinaryOp.DIV: lambda left, right: left / right,
    BinaryOp.POW: lambda left, right: left**right,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """`inputs` are tensors with the axes that each of them has. `stages` are passes, which are
    reductions over the column, and entries that several stages read, in order. `output` is the
    value of an entry, or of a row where `has_columns` is false."""

    axes: Axes
    column: Axis
    inputs: tuple[tuple[str, Axes], ...]
    stages: tuple[Stage, ...]
    output: Expression
    has_columns: bool

    @property
    def m(self) -> int:
        return prod(map(size_of, self.axes))

    @property
    def n(self) -> int:
        return size_of(self.column)

    @property
    def sliced(self) -> int:
        """Position of the axis that is cut into slices: the longest one."""
        return max(range(len(self.axes)), key=lambda place: size_of(self.axes[place]))

    @property
    def slices(self) -> int:
        """Counts the entries of the sliced axis."""
        return size_of(self.axes[self.sliced])

    @property
    def passes(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.reducer)

    @property
    def entries(self) -> dict[str, Expression]:
        """Values of entries that are stages, by name."""
        return {stage.name: stage.value for stage in self.stages if not stage.reducer}

    @property
    def multiplies(self) -> bool:
        """True if there are products to round, which the plain sum of a row has not."""
        return self.has_columns or any(not isinstance(each.value, Read) for each in self.passes)

    def may_drop_nan(self, stage: Stage) -> bool:
        """Returns whether a pass may take the largest of the numbers among its terms, since NaN
        among them reaches whoever reads it by a sum: Σ exp(x − largest), as softmax has it."""
        if stage.reducer is not Reducer.MAX:
            return False
        largest = Read(stage.name, stage.axes)
        power = Call(Function.EXP, Binary(BinaryOp.SUB, self._stated(stage.value), largest))
        sums = {
            Read(each.name, each.axes)
            for each in self.passes
            if each.reducer is Reducer.SUM and self._stated(each.value) == power
        }
        others = [
            {*parts(value)}
            for value in (*(self._stated(each.value) for each in self.passes), self.output)
            if value != power
        ]
        return bool(sums) and all(sums & read for read in others if largest in read)

    def _stated(self, value: Expression) -> Expression:
        """A value without reads of entries that are stages."""
        entries = self.entries

        def inside(part: Expression) -> Expression:
            if isinstance(part, Read) and part.tensor in entries:
                return inside(entries[part.tensor])
            return rebuilt(part, inside)

        return inside(value)

    def is_of_row(self, expression: Expression) -> bool:
        """Returns whether an expression reads the value of a pass, and nothing by column."""
        read = {part.tensor: part.at for part in parts(expression) if isinstance(part, Read)}
        passes = {stage.name for stage in self.passes}
        return not passes.isdisjoint(read) and not any(self.column in at for at in read.values())

    def values_of_row(self, *expressions: Expression) -> tuple[Expression, ...]:
        """The largest parts of expressions that are values of a row, each once."""
        found: dict[Expression, None] = {}

        def inside(part: Expression) -> Expression:
            if self.is_of_row(part):
                found[part] = None
                return part
            return rebuilt(part, inside)

        for expression in expressions:
            inside(expression)
        return tuple(found)


@lru_cache(maxsize=1024)
def rows_of(workload: Workload) -> Rows:
    """The rows of a workload. Raises UnsupportedProgram for a program that reduces no rows."""
    found = rows(workload.program)
    if found is None:
        raise UnsupportedProgram(f"{workload.key} does not reduce rows of what it reads")
    return found


@lru_cache(maxsize=1024)
def rows(program: Program) -> Rows | None:
    """None for a program that does anything else than to reduce the last axes of real tensors."""
    return _rows(program) or _rows(without_unit_axes(program))


def size_of(axis: Axis) -> int:
    return axis.extent.value if isinstance(axis.extent, Integer) else 0


def _rows(program: Program) -> Rows | None:
    if program.output.reducer:
        program = _with_pass_before_output(program)
    reductions = [stage for stage in program.stages if stage.reducer]
    real = all(each.dtype in KEY_DTYPES for each in program.inputs)
    if not reductions or not real or any(s.dtype is not DType.F32 for s in program.stages):
        return None
    row, over = _sizes(reductions[0].axes), _sizes(reductions[0].over)
    has_columns = _sizes(program.output.axes) == (*row, *over)
    if not has_columns and _sizes(program.output.axes) != row:
        return None
    if any((_sizes(s.axes), _sizes(s.over)) != (row, over) for s in reductions):
        return None
    try:
        single = _Restated(program, row, over, [(n,) for n in range(len(row) + len(over))])
        groups = _joined(single, len(row))
        return _found(_Restated(program, row, over, groups), has_columns=has_columns)
    except _OtherProgram:
        return None


def _with_pass_before_output(program: Program) -> Program:
    """The program with a copy of a pass as its output, where the output was a reduction."""
    *others, output = program.stages
    copy = Stage(output.name, output.axes, Read(REDUCED, output.axes))
    return replace(program, stages=(*others, replace(output, name=REDUCED), copy))


class _OtherProgram(Exception):
    """A part of the program is not stated over rows and columns."""


class _Restated:
    """Stages of a program over groups of the axes (row…, over…), which `groups` tells by their
    positions. Raises _OtherProgram."""

    def __init__(
        self,
        program: Program,
        row: tuple[int, ...],
        over: tuple[int, ...],
        groups: list[tuple[int, ...]],
    ) -> None:
        self._program, self._made = program, {stage.name: stage for stage in program.stages}
        self._plain = tuple(Axis(f"axis.{n}", Integer(s)) for n, s in enumerate((*row, *over)))
        self._of_row = len(row)
        self._extents = {axis.name: size_of(axis) for axis in self._plain}
        self._shapes = {each.name: each.shape for each in program.inputs}
        self._groups = tuple(
            (f"group.{n}", tuple(self._plain[place].name for place in group))
            for n, group in enumerate(groups)
        )
        count = sum(group[0] < len(row) for group in groups)
        sizes = [prod(self._extents[name] for name in names) for _, names in self._groups]
        names = [*(f"m{n}" for n in range(count)), *(f"n{n}" for n in range(len(groups) - count))]
        self.grouped = tuple(Axis(n, Integer(s)) for n, s in zip(names, sizes, strict=True))
        self.rows, self.column = self.grouped[:count], self.grouped[-1]
        self.inputs: dict[str, Axes] = {}
        self._shared = _shared(program, (*row, *over))
        kept = (s for s in program.stages if s.reducer or s.name in self._shared)
        self.stages = tuple(map(self._stage, kept))
        self.output = self._inside(self._at_home(program.output))

    def _stage(self, stage: Stage) -> Stage:
        value = self._inside(self._at_home(stage))
        if not stage.reducer:
            return Stage(stage.name, self.grouped, value)
        read = [part for part in parts(value) if isinstance(part, Read)]
        if not any({a for a in self.grouped if size_of(a) > 1} <= {*part.at} for part in read):
            raise _OtherProgram
        return Stage(stage.name, self.rows, value, stage.reducer, (self.column,))

    def _at_home(self, stage: Stage) -> Expression:
        """The value of a stage over the axes that all share."""
        names = (axis.name for axis in (*stage.axes, *stage.over))
        return substituted(stage.value, dict(zip(names, self._plain, strict=False)))

    def _inside(self, part: Expression) -> Expression:
        match part:
            case Axis():
                raise _OtherProgram
            case Read(tensor, at) if tensor in self._made:
                return self._of_stage(self._made[tensor], at)
            case Read(tensor, at):
                return self._of_input(tensor, at)
        return _simpler(rebuilt(part, self._inside))

    def _of_stage(self, stage: Stage, at: tuple[Expression, ...]) -> Expression:
        if stage.reducer:
            if at != self._plain[: self._of_row]:
                raise _OtherProgram
            return Read(stage.name, self.rows)
        if stage.name in self._shared and at == self._plain:
            return Read(stage.name, self.grouped)
        names = (axis.name for axis in stage.axes)
        return self._inside(substituted(stage.value, dict(zip(names, at, strict=True))))

    def _of_input(self, tensor: str, at: tuple[Expression, ...]) -> Expression:
        found = read_axes(at, self._shapes[tensor], self._groups, self._extents)
        if found is None:
            raise _OtherProgram
        # An axis of one entry is one of the tensor where the program writes it.
        written = {part.name for place in at for part in parts(place) if isinstance(part, Axis)}
        axes = tuple(
            axis
            for axis, (group, names) in zip(self.grouped, self._groups, strict=True)
            if group in found or (size_of(axis) == 1 and not written.isdisjoint(names))
        )
        if self.inputs.setdefault(tensor, axes) != axes:
            raise _OtherProgram
        return Read(tensor, axes)


def _sizes(axes: Axes) -> tuple[int, ...]:
    return tuple(map(size_of, axes))


def _shared(program: Program, whole: tuple[int, ...]) -> set[str]:
    """Stages of entries that several others read, not counting those that are put into one."""
    readers: dict[str, set[str]] = {stage.name: set() for stage in program.stages}
    found = set()
    for stage in reversed(program.stages):
        own = readers[stage.name]
        entries = not stage.reducer and _sizes(stage.axes) == whole
        if entries and len(own) > 1 and not isinstance(stage.value, Read):
            found.add(stage.name)
        root = stage.reducer or stage.name in found or stage is program.output
        for part in parts(stage.value):
            if isinstance(part, Read) and part.tensor in readers:
                readers[part.tensor] |= {stage.name} if root else own
    return found


def _joined(single: _Restated, rows: int) -> list[tuple[int, ...]]:
    """Groups of neighbouring axes that each tensor has all of, or none of. Axes of one entry go
    with any; all columns have to be one."""
    axes, tensors = single.grouped, list(single.inputs.values())

    def alike(one: int, other: int) -> bool:
        if (one < rows) is not (other < rows):
            return False
        if 1 in (size_of(axes[one]), size_of(axes[other])):
            return True
        return all((axes[one] in has) is (axes[other] in has) for has in tensors)

    groups: list[tuple[int, ...]] = []
    for place in range(len(axes)):
        if groups and all(alike(other, place) for other in groups[-1]):
            groups[-1] = (*groups[-1], place)
        else:
            groups.append((place,))
    if sum(group[0] >= rows for group in groups) != 1:
        raise _OtherProgram
    return groups


def _simpler(part: Expression) -> Expression:
    """The expression with its constants computed."""
    match part:
        case Cast(Integer(value), DType.F32):
            return Real(float(value))
        case Cast():
            raise _OtherProgram
        case Binary(BinaryOp.MUL, Integer(left), Integer(right)):
            return Integer(left * right)
        case Binary(BinaryOp.ADD, Integer(left), Integer(right)):
            return Integer(left + right)
        case Binary(op, Real(left), Real(right)) if op in _CONSTANT:
            return Real(_CONSTANT[op](left, right))
    return part


def _found(restated: _Restated, *, has_columns: bool) -> Rows:
    found = Rows(
        axes=restated.rows or (Axis("m0", Integer(1)),),
        column=restated.column,
        inputs=tuple(restated.inputs.items()),
        stages=restated.stages,
        output=restated.output,
        has_columns=has_columns,
    )

    def multiplied(part: Expression) -> Expression:
        match rebuilt(part, multiplied):
            case Binary(BinaryOp.DIV, left, right) if found.is_of_row(
                right
            ) and not found.is_of_row(left):
                return Binary(BinaryOp.MUL, left, Binary(BinaryOp.DIV, Real(1.0), right))
            case other:
                return other

    stages = tuple(replace(stage, value=multiplied(stage.value)) for stage in found.stages)
    return replace(found, stages=stages, output=multiplied(found.output))
