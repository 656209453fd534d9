"""A program as one reduction with what is done before and after it, if it is one.

    padded[y, x] = (a[y - 1, x - 1] if …)          before: stages that the reduction reads
    sum[y, o] = sum over r, c of padded[y + r, c] * b[r, c, o]
    c[o, y] = max(sum[y, o] + bias[o], 0.0)        after: one value for each entry of the output

The reduction is restated over the axes of the output, so that nothing is left to move behind it:
above it becomes sum[o, y].
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

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
    Input,
    Integer,
    Program,
    Read,
    Stage,
    number,
    parts,
    rebuilt,
)
from services.tuner import ir

Places = Mapping[str, Expression]
"""Maps the name of an axis to what stands in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """`after` is the value of the output at the axes of the reduction, of which it reads the entry
    there; None where the reduction is the output."""

    inputs: tuple[Input, ...]
    before: tuple[Stage, ...]
    reduction: Stage
    after: Expression | None
    output: str

    @property
    def program(self) -> Program:
        stages = (*self.before, self.reduction)
        if self.after is not None:
            last = Stage(self.output, self.reduction.axes, self.after, dtype=self.reduction.dtype)
            stages = (*stages, last)
        return Program(inputs=self.inputs, stages=stages)

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs and of what stages before the reduction make, by name."""
        shapes = {each.name: each.shape for each in self.inputs}
        return shapes | {stage.name: stage.shape for stage in self.before}

    @property
    def extents(self) -> dict[str, int]:
        return _extents(self.reduction)

    def split(self, name: str, inner: int) -> "Fused":
        """Splits an axis of the output in two, of which the inner one has `inner` entries and its
        name. The entries of the output stay where they are."""
        axes: list[Axis] = []
        for axis in self.reduction.axes:
            if axis.name == name:
                outer = Axis(f"{name}.outer", Integer(number(axis.extent) // inner))
                narrow = Axis(name, Integer(inner))
                axes += [outer, narrow]
                place = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, outer, Integer(inner)), narrow)
            else:
                axes.append(axis)
        return self._restated(tuple(axes), {name: place})

    def with_unit_axes(self, *names: str) -> "Fused":
        """The program with further axes of one entry before all others."""
        units = tuple(Axis(name, Integer(1)) for name in names)
        return self._restated((*units, *self.reduction.axes), {})

    def _restated(self, axes: tuple[Axis, ...], places: Places) -> "Fused":
        own = Read(self.reduction.name, self.reduction.axes)
        value = substituted(self.reduction.value, places)

        def moved(part: Expression) -> Expression:
            if part == own:
                return Read(own.tensor, axes)
            return places.get(part.name, part) if isinstance(part, Axis) else rebuilt(part, moved)

        return replace(
            self,
            reduction=replace(self.reduction, axes=axes, value=value),
            after=None if self.after is None else moved(self.after),
        )


def fused(program: Program) -> Fused | None:
    """None for a program with another number of reductions than one, and for one in which the
    output reads several entries of it."""
    reductions = [stage for stage in program.stages if stage.reducer]
    if len(reductions) != 1:
        return None
    (reduction,) = reductions
    at = program.stages.index(reduction)
    before, behind = program.stages[:at], program.stages[at + 1 :]
    if not behind:
        return Fused(
            inputs=program.inputs,
            before=before,
            reduction=reduction,
            after=None,
            output=reduction.name,
        )
    value = inlined(behind[-1].value, behind[:-1])
    read = {part.tensor for part in parts(value) if isinstance(part, Read)}
    if read & {stage.name for stage in before} or any(s.dtype != reduction.dtype for s in behind):
        return None
    return _moved(program, before, reduction, value)


def _moved(
    program: Program, before: tuple[Stage, ...], reduction: Stage, value: Expression
) -> Fused | None:
    """The program with its reduction over the axes of the output; None where they differ in size
    or it is read more than once."""
    name, output = reduction.name, program.output
    own = {part for part in parts(value) if isinstance(part, Read) and part.tensor == name}
    if len(own) != 1 or prod(output.shape) != prod(reduction.shape):
        return None
    (place,) = own
    axes = output.axes
    taken = {axis.name for axis in axes}
    over = tuple(
        replace(axis, name=f"{axis.name}.{name}") if axis.name in taken else axis
        for axis in reduction.over
    )
    spatial = zip((axis.name for axis in reduction.axes), place.at, strict=True)
    reduced = zip((axis.name for axis in reduction.over), over, strict=True)

    def after(part: Expression) -> Expression:
        return Read(name, axes) if part == place else rebuilt(part, after)

    restated = replace(
        reduction,
        axes=axes,
        value=substituted(reduction.value, {**dict(spatial), **dict(reduced)}),
        over=over,
    )
    return Fused(
        inputs=program.inputs,
        before=before,
        reduction=restated,
        after=after(value),
        output=output.name,
    )


def inlined(value: Expression, stages: Iterable[Stage]) -> Expression:
    """A value with those of stages in the place of what it reads of them."""
    made = {stage.name: stage for stage in stages}

    def inside(part: Expression) -> Expression:
        match rebuilt(part, inside):
            case Read(tensor, at) if tensor in made:
                stage = made[tensor]
                places = dict(zip((axis.name for axis in stage.axes), at, strict=True))
                return inside(substituted(stage.value, places))
            case other:
                return other

    return inside(value)


def without_unit_axes(program: Program) -> Program:
    """Without axes of one entry, which tensors keep as the index 0. The output has fewer axes, and
    its entries in the same order."""
    kept: dict[str, list[int]] = {}
    stages = []
    for stage in program.stages:
        units: Places = {
            axis.name: Integer(0) for axis in (*stage.axes, *stage.over) if number(axis.extent) == 1
        }
        kept[stage.name] = [n for n, axis in enumerate(stage.axes) if axis.name not in units]
        over = tuple(axis for axis in stage.over if axis.name not in units)
        stages.append(
            replace(
                stage,
                axes=tuple(axis for axis in stage.axes if axis.name not in units),
                value=_narrowed(substituted(stage.value, units), kept),
                reducer=stage.reducer if over else None,
                over=over,
            )
        )
    return Program(inputs=program.inputs, stages=tuple(stages))


def _narrowed(expression: Expression, kept: Mapping[str, list[int]]) -> Expression:
    def inside(part: Expression) -> Expression:
        match rebuilt(part, inside):
            case Read(tensor, at) if tensor in kept:
                return Read(tensor, tuple(at[n] for n in kept[tensor]))
            case other:
                return other

    return inside(expression)


def substituted(expression: Expression, places: Places) -> Expression:
    """Sums and products with 0 that this makes are left out of places."""
    if not places:
        return expression

    def inside(part: Expression) -> Expression:
        if isinstance(part, Axis):
            return places.get(part.name, part)
        return _simpler(rebuilt(part, inside))

    return inside(expression)


def _simpler(part: Expression) -> Expression:
    match part:
        case Binary(BinaryOp.ADD, left, Integer(0)) | Binary(BinaryOp.SUB, left, Integer(0)):
            return left
        case Binary(BinaryOp.ADD, Integer(0), right):
            return right
        case Binary(BinaryOp.MUL, Integer(0), _) | Binary(BinaryOp.MUL, _, Integer(0)):
            return Integer(0)
    return part


def _extents(stage: Stage) -> dict[str, int]:
    return {axis.name: number(axis.extent) for axis in (*stage.axes, *stage.over)}


# Extents of what is read, where axes are rounded up to whole tiles.


def enlarged(whole: Fused, sizes: Mapping[str, int]) -> Program:
    """The program on axes of the reduction with these sizes, and on tensors that have all entries
    which it then reads. What lies outside of a true tensor does not exist."""
    reduction = _resized(whole.reduction, sizes)
    needed = _Needed(whole.tensors)
    ranges = {name: (0, size - 1) for name, size in _extents(reduction).items()}
    stages = [reduction]
    if whole.after is not None:
        stages.append(Stage(whole.output, reduction.axes, whole.after, dtype=reduction.dtype))
        needed.add(whole.after, ranges)
    needed.add(reduction.value, ranges)
    for stage in reversed(whole.before):
        names = (axis.name for axis in stage.axes)
        made = _resized(stage, dict(zip(names, needed.shape(stage.name), strict=True)))
        needed.add(made.value, {name: (0, size - 1) for name, size in _extents(made).items()})
        stages.insert(0, made)
    inputs = (replace(each, shape=needed.shape(each.name)) for each in whole.inputs)
    return Program(inputs=tuple(inputs), stages=tuple(stages))


def _resized(stage: Stage, sizes: Mapping[str, int]) -> Stage:
    axes = (Axis(a.name, Integer(sizes.get(a.name, number(a.extent)))) for a in stage.axes)
    return replace(stage, axes=tuple(axes))


class _Needed:
    """Counts the entries of each tensor, along each of its axes, that the stages added so far
    read."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._true = shapes
        self._ends: dict[str, list[int]] = {}

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The part of a tensor that is read; its own shape where nothing is."""
        return tuple(self._ends.get(tensor, self._true[tensor]))

    def add(self, expression: Expression, ranges: ir.Ranges) -> None:
        match expression:
            case Read(tensor, at):
                for place in at:
                    self.add(place, ranges)
                if tensor in self._true:
                    self._add(tensor, at, ranges)
            case Binary(_, left, right):
                self.add(left, ranges)
                self.add(right, ranges)
            case Call(_, argument) | Cast(argument):
                self.add(argument, ranges)
            case Choice(conditions, then, otherwise):
                for each in conditions:
                    self.add(each.left, ranges)
                    self.add(each.right, ranges)
                self.add(then, _narrowed_ranges(ranges, conditions))
                self.add(otherwise, ranges)

    def _add(self, tensor: str, at: tuple[Expression, ...], ranges: ir.Ranges) -> None:
        ends = self._ends.setdefault(tensor, [1] * len(at))
        for axis, (place, true) in enumerate(zip(at, self._true[tensor], strict=True)):
            found = range_of(place, ranges)
            ends[axis] = max(ends[axis], true if found is None else found[1] + 1)


def _narrowed_ranges(ranges: ir.Ranges, conditions: Iterable[Comparison]) -> ir.Ranges:
    """The ranges of axes in which conditions on single axes hold."""
    found = dict(ranges)
    for each in conditions:
        strict = each.op is CompareOp.LT
        if each.op not in (CompareOp.LT, CompareOp.LE):
            continue
        left, right = range_of(each.left, ranges), range_of(each.right, ranges)
        if isinstance(each.left, Axis) and right is not None:
            low, high = found[each.left.name]
            found[each.left.name] = low, min(high, right[1] - strict)
        if isinstance(each.right, Axis) and left is not None:
            low, high = found[each.right.name]
            found[each.right.name] = max(low, left[0] + strict), high
    return found


def range_of(place: Expression, ranges: ir.Ranges) -> ir.Range | None:
    """The least and the largest value of an index; None where it is not made of axes alone."""
    match place:
        case Integer(value):
            return value, value
        case Axis(name):
            return ranges[name]
        case Binary(op, left, right):
            one, other = range_of(left, ranges), range_of(right, ranges)
            return None if one is None or other is None else _joined(op, one, other)
    return None


def _joined(op: BinaryOp, left: ir.Range, right: ir.Range) -> ir.Range | None:
    match op:
        case BinaryOp.ADD:
            return left[0] + right[0], left[1] + right[1]
        case BinaryOp.SUB:
            return left[0] - right[1], left[1] - right[0]
        case BinaryOp.MUL:
            ends = [one * other for one in left for other in right]
            return min(ends), max(ends)
        case BinaryOp.MIN:
            return min(left[0], right[0]), min(left[1], right[1])
        case BinaryOp.MAX:
            return max(left[0], right[0]), max(left[1], right[1])
        case BinaryOp.FLOOR_DIV if right[0] == right[1] > 0:
            return left[0] // right[0], left[1] // right[0]
        case BinaryOp.FLOOR_MOD if right[0] == right[1] > 0:
            return 0, right[0] - 1
    return None
