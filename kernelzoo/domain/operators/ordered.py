"""Stages that take their values one after another: scans, selections, and updates at places.

    running[i: 4, j: 900] = running_sum over t: 900 of x[i, t]         sums of all up to a place
    places[i: 4, r: 9]: i32 = largest over t: 900 of x[i, t]           places of the nine largest
    c[i: 5, j: 64] = sum over k: 40, l: 64 of scatter(x[i, j], u[k, l], at[k, l], l)

Each is the only stage of its program and reads whole entries, so that one loop nest computes it,
which does as many steps as there are entries and not one for each pair of them:

* A scan reads a tensor of its own shape, at its own axes but for one, where it reads along `over`.
* A selection reads rows of a matrix. Entry r is the place of the r-th entry of the row by size; of
  equal ones the first comes first. NaN is the largest of all, and zeros are equal.
* A scatter starts as a tensor of its shape or as a number. Updates, which are entries at the axes
  `over` or a number, are made in the order of these axes. A place is an axis of `over`, an entry of
  integers or a number. One that lies outside is passed, so that no index writes outside of the
  stage.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from kernelzoo.domain.operators.expressions import (
    RUNNING,
    SELECTIONS,
    Axis,
    Expression,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Scatter,
    Stage,
    number,
    terms,
)
from kernelzoo.errors import InvalidInput

PASSES = 16
"""Steps of a selection for each entry of a row: what sorting by digits takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan of x[outer, extent, inner] along its second axis."""

    reducer: Reducer
    outer: int
    extent: int
    inner: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """`count` places of each of `rows` of x[rows, extent]."""

    rows: int
    extent: int
    count: int
    largest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """`value` of a stage, whose entries are `shape`, along axes `over`. `reducer` LAST writes, any
    other puts each update to what is there."""

    reducer: Reducer
    value: Scatter
    axes: tuple[Axis, ...]
    over: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(number(axis.extent) for axis in self.axes)


Ordered = Scan | Selection | Updates


def ordered_of(stage: Stage) -> Ordered:
    """Raises InvalidInput for a stage that takes values in order and has none of the forms."""
    match stage.value:
        case Scatter():
            return _updates(stage, stage.value)
        case Read(_, at) if stage.reducer in SELECTIONS:
            return _selection(stage, at)
        case Read(_, at) if stage.reducer in RUNNING:
            return _scan(stage, at)
    raise InvalidInput(f"{stage.reducer} is of more than entries; compute them in another program")


def refuse_ordered(program: Program) -> None:
    """Raises InvalidInput for a program with a stage that takes values in order and is none of the
    forms above."""
    if not any(stage.is_ordered for stage in program.stages):
        return
    if len(program.stages) > 1 or program.updates:
        raise InvalidInput(
            "a stage that takes values in order is not alone; give it a program of its own"
        )
    ordered = ordered_of(program.output)
    value = program.output.value
    shapes = {each.name: each.shape for each in program.inputs}
    match ordered:
        case Scan():
            whole = shapes[_read(value).tensor] == program.output.shape
        case Selection(rows=rows, extent=extent):
            whole = shapes[_read(value).tensor] == (rows, extent)
        case Updates(value=Scatter(initial, update, at), axes=axes, over=over):
            read = [each for each in (initial, update, *at) if isinstance(each, Read)]
            whole = all(_is_inside(each, (*axes, *over), shapes[each.tensor]) for each in read)
            if isinstance(initial, Read):
                whole = whole and shapes[initial.tensor] == program.output.shape
    if not whole:
        raise InvalidInput("a stage that takes values in order reads a part of a tensor; cut it")


def steps(stage: Stage) -> int:
    """Steps that a stage takes which takes values in order."""
    match ordered_of(stage):
        case Selection(rows=rows, extent=extent):
            return PASSES * rows * extent
        case Updates():
            return prod(stage.shape) + terms(stage)
        case Scan():
            return prod(stage.shape)


def _scan(stage: Stage, at: tuple[Expression, ...]) -> Scan:
    (along,) = _one(stage.over)
    places = [n for n, place in enumerate(at) if place == along]
    if len(places) != 1 or len(at) != len(stage.axes) or stage.reducer is None:
        raise InvalidInput(
            f"{stage.reducer} reads along {along} at another number of places than 1"
        )
    (position,) = places
    others = (*at[:position], *at[position + 1 :])
    if others != (*stage.axes[:position], *stage.axes[position + 1 :]):
        raise InvalidInput(f"{stage.reducer} reads other places than its own, but along {along}")
    if stage.axes[position].extent != along.extent:
        raise InvalidInput(f"{stage.reducer} has another extent than {along}; give both the same")
    return Scan(
        reducer=RUNNING[stage.reducer],
        outer=prod(stage.shape[:position]),
        extent=stage.shape[position],
        inner=prod(stage.shape[position + 1 :]),
    )


def _selection(stage: Stage, at: tuple[Expression, ...]) -> Selection:
    (along,) = _one(stage.over)
    if len(stage.axes) != 2 or at != (stage.axes[0], along):
        raise InvalidInput(
            f"{stage.reducer} has no row and rank, or reads another row than its own"
        )
    rows, count = stage.shape
    if count > number(along.extent):
        raise InvalidInput(f"{stage.reducer} of {along.extent} has {count} entries; ask for fewer")
    return Selection(
        rows=rows,
        extent=number(along.extent),
        count=count,
        largest=stage.reducer is Reducer.LARGEST,
    )


def _updates(stage: Stage, value: Scatter) -> Updates:
    reducer = stage.reducer
    if reducer is None or reducer in (*RUNNING, *SELECTIONS):
        raise InvalidInput("scatter() is no value of such a stage; write `last over … of` it")
    match value.initial:
        case Real() | Integer():
            pass
        case Read(_, at) if at == stage.axes:
            pass
        case _:
            raise InvalidInput("scatter() starts as a number or a tensor of its own axes")
    for part in value.at:
        if part not in stage.over and not _is_entry(part, stage.over):
            raise InvalidInput(
                f"scatter() is written at {part}; take an axis or an entry of `over`"
            )
    if not _is_entry(value.update, stage.over):
        raise InvalidInput("scatter() is updated by more than entries; compute them before")
    return Updates(reducer=reducer, value=value, axes=stage.axes, over=stage.over)


def _is_entry(part: Expression, over: tuple[Axis, ...]) -> bool:
    """Returns whether an expression is a number, or reads at nothing but numbers and the axes along
    which updates are made."""
    match part:
        case Integer() | Real():
            return True
        case Read(_, at):
            return all(place in over or isinstance(place, Integer) for place in at)
    return False


def _is_inside(read: Read, axes: Iterable[Axis], shape: tuple[int, ...]) -> bool:
    extents = {axis.name: number(axis.extent) for axis in axes}
    for place, extent in zip(read.at, shape, strict=True):
        match place:
            case Integer(value) if not 0 <= value < extent:
                return False
            case Axis(name) if extents[name] > extent:
                return False
    return True


def _one(over: tuple[Axis, ...]) -> tuple[Axis, ...]:
    if len(over) != 1:
        raise InvalidInput("values are taken in order along one axis; join axes before")
    return over


def _read(value: Expression) -> Read:
    assert isinstance(value, Read)
    return value
