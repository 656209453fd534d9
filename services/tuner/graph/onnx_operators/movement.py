"""Operators that move entries: other shapes, other orders, parts and copies."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Choice,
    Comparison,
    Expression,
    Integer,
    Real,
    largest,
    smallest,
)
from services.tuner.graph.building import MOST_OPERANDS, Carried, Formula, Operand, Site


def _view(site: Site) -> Carried:
    return site.view(site.needed(0), site.shape)


def _transpose(site: Site) -> Carried:
    x = site.needed(0)
    return site.transposed(x, site.integers("perm") or tuple(reversed(range(x.rank))))


def _expand(site: Site) -> Carried:
    x = site.needed(0)
    if x.elements == int(np.prod(site.shape)):
        return site.view(x, site.shape)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    return formula.output(axes, formula.broadcast(x, axes), x.dtype)


def _tile(site: Site) -> Carried:
    x = site.needed(0)
    if x.shape == site.shape:
        return x
    formula = Formula(site)
    axes = formula.axes(site.shape)
    places = [axis % extent for axis, extent in zip(axes, x.shape, strict=True)]
    return formula.output(axes, formula.read(x, places), x.dtype)


def _concat(site: Site) -> Carried:
    axis = site.axis(rank=len(site.shape))
    return joined(site, [x for x in site.given if x.elements], axis)


def joined(site: Site, operands: Sequence[Operand], axis: int) -> Operand:
    """Operands one after the other. Many are joined in parts, those first that have the fewest
    entries side by side: a kernel has one binding for each, of which browsers on a GPU allow eight.
    """
    operands = [*operands]
    while len(operands) > MOST_OPERANDS:
        count = min(MOST_OPERANDS, len(operands) - MOST_OPERANDS + 1)
        sizes = [0, *accumulate(x.elements for x in operands)]
        starts = range(len(operands) - count + 1)
        start = min(starts, key=lambda first: sizes[first + count] - sizes[first])
        some = _joined_at_once(site, operands[start : start + count], axis)
        operands = [*operands[:start], some, *operands[start + count :]]
    return _joined_at_once(site, operands, axis)


def _joined_at_once(site: Site, operands: Sequence[Operand], axis: int) -> Operand:
    """The first of the operands in which a place lies, by one choice for each."""
    shape = list(operands[0].shape)
    shape[axis] = sum(x.shape[axis] for x in operands)
    formula = Formula(site)
    axes = formula.axes(shape)
    starts = [0, *accumulate(x.shape[axis] for x in operands)]

    def entry(number: int) -> Expression:
        places: list[Expression] = list(axes)
        places[axis] = axes[axis] - starts[number] if starts[number] else axes[axis]
        own = formula.read(operands[number], places)
        if number == len(operands) - 1:
            return own
        return Choice((axes[axis] < starts[number + 1],), own, entry(number + 1))

    return formula.output(axes, entry(0), site.dtype)


def sliced(
    site: Site, of: Operand, starts: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> Operand:
    """The entries at `start + step · place` of each axis."""
    shape = tuple(shape)
    if shape == of.shape and all(step == 1 for step in steps):
        return of
    formula = Formula(site)
    axes = formula.axes(shape)
    places = [
        (Integer(start) if extent == 1 else axis if step == 1 and not start
         else axis + start if step == 1 else axis * step + start if step > 0
         else start - axis * -step)
        for axis, start, step, extent in zip(axes, starts, steps, shape, strict=True)
    ]  # fmt: skip
    return formula.output(axes, formula.read(of, places), of.dtype)


def _slice(site: Site) -> Carried:
    x = site.needed(0)
    begins, ends = site.known(1, "start"), site.known(2, "end")
    assert begins is not None
    assert ends is not None
    axes, steps = site.known(3, "axes"), site.known(4, "steps")
    chosen = range(len(begins)) if axes is None else [int(axis) % x.rank for axis in axes]
    starts, strides = [0] * x.rank, [1] * x.rank
    for place, axis in enumerate(chosen):
        stride = 1 if steps is None else int(steps[place])
        part = slice(int(begins[place]), int(ends[place]), stride)
        # Ends are cut to i32, which lies outside of every axis; -2³¹ means "down to the first".
        if stride < 0 and int(ends[place]) < -x.shape[axis]:
            part = slice(part.start, None, stride)
        # A slice that runs backwards from before the first entry has that alone.
        starts[axis], strides[axis] = max(0, part.indices(x.shape[axis])[0]), stride
    return sliced(site, x, starts, strides, site.shape)


def _split(site: Site) -> Carried:
    x = site.needed(0)
    axis = site.axis()
    parts: list[Operand | None] = []
    start = 0
    for type_ in site.outputs:
        if type_ is None:
            raise site.refusal("an output of it is left out", "export the model again")
        starts = [start if place == axis else 0 for place in range(x.rank)]
        parts.append(sliced(site, x, starts, [1] * x.rank, type_.shape))
        start += type_.shape[axis]
    return tuple(parts)


def _pad(site: Site) -> Carried:
    x = site.needed(0)
    pads = site.known(1, "width")
    assert pads is not None
    value = site.input(2)
    axes = site.known(3, "axes")
    chosen = range(x.rank) if axes is None else [int(axis) % x.rank for axis in axes]
    before = [0] * x.rank
    for place, axis in enumerate(chosen):
        before[axis] = int(pads[place])
    return padded(site, x, before, site.shape, site.text("mode", "constant"), value)


def padded(
    site: Site,
    of: Operand,
    before: Sequence[int],
    shape: Sequence[int],
    mode: str = "constant",
    value: Operand | None = None,
) -> Operand:
    """`of` within a tensor of `shape`, from the place `before` on; a negative one cuts it."""
    # As many entries may come on one side as are cut on the other.
    if tuple(shape) == of.shape and not any(before):
        return of
    formula = Formula(site)
    axes = formula.axes(shape)
    if mode == "constant":
        nothing: Expression = Real(0.0) if of.dtype is DType.F32 else Integer(0)
        outside = nothing if value is None else formula.read(value, (0,) * value.rank)
        entry = within(formula, of, axes, before, outside)
    else:
        places = [
            _source(axis, start, extent, whole, mode)
            for axis, start, extent, whole in zip(axes, before, of.shape, shape, strict=True)
        ]
        entry = formula.read(of, places)
    return formula.output(axes, entry, of.dtype)


def within(
    formula: Formula,
    of: Operand,
    places: Sequence[Expression],
    before: Sequence[int],
    outside: Expression,
) -> Expression:
    """The entry of a tensor that begins at `before`; `outside` where there is none."""
    conditions: list[Comparison] = []
    at = []
    for place, start, extent in zip(places, before, of.shape, strict=True):
        if isinstance(place, Axis) and isinstance(place.extent, Integer):
            last = place.extent.value - 1
            if start > 0:
                conditions.append(place >= start)
            if last - start >= extent:
                conditions.append(place < extent + start)
        else:
            conditions += [place >= start, place < extent + start]
        at.append(place - start if start else place)
    inside = formula.read(of, at)
    return Choice(tuple(conditions), inside, outside) if conditions else inside


def _source(axis: Axis, start: int, extent: int, whole: int, mode: str) -> Expression:
    """Finds where an entry of a padded axis comes from. Cutting goes first: edges, reflections and
    repetitions are of what is left."""
    cut, after = max(0, -start), whole - extent - start
    left = extent - cut - max(0, -after)
    place = axis - start if start > 0 else axis
    if start > 0 or after > 0:
        place = _outside(place, left, mode)
    return place + cut if cut else place


def _outside(place: Expression, extent: int, mode: str) -> Expression:
    """The entry of an axis that stands at a place before, in or after it."""
    match mode:
        case "edge":
            return largest(smallest(place, extent - 1), 0)
        case "wrap":
            return place % extent
        case "reflect":
            # A walk to and fro: 0 1 2 1 0 1 2 … for an extent of 3.
            there = place % max(1, 2 * extent - 2)
            return smallest(there, 2 * extent - 2 - there) if extent > 1 else Integer(0)
    raise ValueError(mode)


def _depth_to_space(site: Site) -> Carried:
    x = site.needed(0)
    b, c, h, w = x.shape
    size = site.integer("blocksize")
    if site.text("mode", "DCR") == "DCR":
        inner = site.view(x, (b, size, size, c // size**2, h, w))
        moved = site.transposed(inner, (0, 3, 4, 1, 5, 2))
    else:
        inner = site.view(x, (b, c // size**2, size, size, h, w))
        moved = site.transposed(inner, (0, 1, 4, 2, 5, 3))
    return site.view(moved, site.shape)


def _space_to_depth(site: Site) -> Carried:
    x = site.needed(0)
    b, c, h, w = x.shape
    size = site.integer("blocksize")
    inner = site.view(x, (b, c, h // size, size, w // size, size))
    order = (0, 1, 3, 5, 2, 4) if site.text("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
    return site.view(site.transposed(inner, order), site.shape)


def _trilu(site: Site) -> Carried:
    x = site.needed(0)
    told = site.known(1, "diagonal")
    diagonal = 0 if told is None else int(told.reshape(-1)[0])
    formula = Formula(site)
    axes = formula.axes(site.shape)
    row, column = axes[-2], axes[-1]
    kept = (column >= row + diagonal,) if site.integer("upper", 1) else (column <= row + diagonal,)
    nothing: Expression = Real(0.0) if x.dtype is DType.F32 else Integer(0)
    return formula.output(axes, Choice(kept, formula.read(x, axes), nothing), x.dtype)


def _reverse_sequence(site: Site) -> Carried:
    x, lengths = site.needed(0), site.needed(1)
    batch, time = site.integer("batch_axis", 1), site.integer("time_axis", 0)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    length = formula.read(lengths, (axes[batch],))
    places: list[Expression] = list(axes)
    back = largest(length - 1 - axes[time], 0)
    places[time] = Choice((axes[time] < length,), back, axes[time])
    return formula.output(axes, formula.read(x, places), x.dtype)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _view,
    "Pad": _pad,
    "Reshape": _view,
    "ReverseSequence": _reverse_sequence,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _view,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _view,
}
