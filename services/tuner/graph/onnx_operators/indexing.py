"""Operators that read or write at places which another tensor names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Cast,
    Choice,
    Expression,
    Integer,
    Real,
    Reducer,
    Scatter,
    equal,
    largest,
    smallest,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.indices import from_start, row_at
from services.tuner.graph.network import Array
from services.tuner.graph.onnx_operators.integers import in_ranks, narrowed
from services.tuner.graph.onnx_operators.movement import sliced


def place_in(of: Operand, index: Expression, extent: int) -> Expression:
    """Keeps an index within its axis as `row_at` does, unless it is known to be right."""
    if isinstance(index, Integer):
        return Integer(min(max(index.value % extent, 0), extent - 1))
    known = of.constant
    if known is not None and known.min(initial=0) >= 0 and known.max(initial=0) < extent:
        return index
    return row_at(index, extent)


def _gather(site: Site) -> Carried:
    x, indices = site.needed(0), site.needed(1)
    axis = site.axis()
    step = _progression(indices)
    if step is not None:
        return site.view(_regular(site, x, axis, indices, step), site.shape)
    rows = prod(x.shape[axis + 1 :])
    if axis == 0 and x.dtype is DType.F32 and x.rank > 1:
        wrapped = _rows(site, indices, x.shape[0])
        table = site.view(x, (x.shape[0], rows))
        flat = site.view(wrapped, (indices.elements,))
        result = site.workload("gather", (indices.elements, x.shape[0], rows), table, flat)
        if result is not None:
            return site.view(result, site.shape)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    index = formula.read(indices, axes[axis : axis + indices.rank])
    place = place_in(indices, index, x.shape[axis])
    at = (*axes[:axis], place, *axes[axis + indices.rank :])
    return formula.output(axes, formula.read(x, at), x.dtype)


def _progression(indices: Operand) -> int | None:
    """The step of known indices that are evenly spaced, as one index is."""
    if indices.constant is None:
        return None
    flat = indices.constant.reshape(-1)
    steps = np.unique(np.diff(flat))
    if flat.size == 1:
        return 1
    return int(steps[0]) if steps.size == 1 and (flat[0] >= 0) == (flat[-1] >= 0) else None


def _regular(site: Site, x: Operand, axis: int, indices: Operand, step: int) -> Operand:
    """A gather that is a slice."""
    assert indices.constant is not None
    first = int(indices.constant.reshape(-1)[0])
    first = min(max(first + x.shape[axis] if first < 0 else first, 0), x.shape[axis] - 1)
    starts, steps, shape = [0] * x.rank, [1] * x.rank, list(x.shape)
    starts[axis], steps[axis], shape[axis] = first, step, indices.elements
    if step == 0:
        formula = Formula(site)
        axes = formula.axes(shape)
        places = (*axes[:axis], Integer(first), *axes[axis + 1 :])
        return formula.output(axes, formula.read(x, places), x.dtype)
    return sliced(site, x, starts, steps, shape)


def _rows(site: Site, indices: Operand, extent: int) -> Operand:
    """Indices of which each is a row."""
    if indices.constant is not None:
        known = indices.constant
        if known.min(initial=0) >= 0 and known.max(initial=0) < extent:
            return indices
        counted = np.where(known < 0, known + extent, known)
        return site.constant(np.clip(counted, 0, extent - 1).astype(np.int32))
    formula = Formula(site)
    axes = formula.axes(indices.shape)
    return formula.output(axes, row_at(formula.read(indices, axes), extent), DType.I32)


def _wrapped(site: Site, indices: Operand, extent: int) -> Operand:
    """Indices of which none in range is negative."""
    if indices.constant is not None:
        known = indices.constant
        if known.min(initial=0) >= 0:
            return indices
        return site.constant(np.where(known < 0, known + extent, known).astype(np.int32))
    formula = Formula(site)
    axes = formula.axes(indices.shape)
    return formula.output(axes, from_start(formula.read(indices, axes), extent), DType.I32)


def _gather_elements(site: Site) -> Carried:
    x, indices, axis = site.needed(0), site.needed(1), site.axis()
    formula = Formula(site)
    axes = formula.axes(site.shape)
    place = place_in(indices, formula.read(indices, axes), x.shape[axis])
    at = (*axes[:axis], place, *axes[axis + 1 :])
    return formula.output(axes, formula.read(x, at), x.dtype)


def _gather_nd(site: Site) -> Carried:
    x, indices, batch = site.needed(0), site.needed(1), site.integer("batch_dims")
    depth = indices.shape[-1]
    formula = Formula(site)
    axes = formula.axes(site.shape)
    outer = axes[: indices.rank - 1]
    at: list[Expression] = list(axes[:batch])
    for number in range(depth):
        index = formula.read(indices, (*outer, Integer(number)))
        at.append(place_in(indices, index, x.shape[batch + number]))
    at += axes[indices.rank - 1 :]
    return formula.output(axes, formula.read(x, at), x.dtype)


_REDUCERS: Mapping[str, Reducer] = {
    "none": Reducer.LAST,
    "add": Reducer.SUM,
    "mul": Reducer.PROD,
    "max": Reducer.MAX,
    "min": Reducer.MIN,
}


def _scatter_elements(site: Site) -> Operand:
    """Updates are made one after another; one whose index lies outside is passed."""
    x, indices, updates = (site.needed(n) for n in range(3))
    axis = site.axis()
    formula = Formula(site)
    axes, over = _axes_of_updates(formula, x, indices.shape)
    index = formula.read(_from_start(site, indices, x.shape[axis]), over)
    at = (*over[:axis], index, *over[axis + 1 :])
    return _scattered(site, formula, x, axes, formula.read(updates, over), at, over)


def _scatter_nd(site: Site) -> Operand:
    x, indices, updates = (site.needed(n) for n in range(3))
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    rows = site.view(indices, (count, depth))
    flat = site.view(updates, (count, *x.shape[depth:]))
    if rows.constant is not None and site.text("reduction", "none") == "none":
        return _placed(site, x, rows.constant, flat)
    formula = Formula(site)
    axes, over = _axes_of_updates(formula, x, flat.shape)
    rows = _from_start(site, rows, *x.shape[:depth])
    at = (*(formula.read(rows, (over[0], Integer(n))) for n in range(depth)), *over[1:])
    return _scattered(site, formula, x, axes, formula.read(flat, over), at, over)


def _axes_of_updates(
    formula: Formula, x: Operand, shape: Sequence[int]
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Makes the axes of the tensor, and those along which updates are made."""
    return formula.axes(x.shape), formula.axes(shape, first=x.rank)


def _from_start(site: Site, indices: Operand, *extents: int) -> Operand:
    """Indices of which negative ones count from the end, as numbers from the start: each along the
    one extent, or in the last axis one for each of several."""
    if len(extents) == 1:
        return _wrapped(site, indices, extents[0])
    known = indices.constant
    if known is not None:
        return site.constant(np.where(known < 0, known + np.array(extents), known))
    formula = Formula(site)
    axes = formula.axes(indices.shape)
    index = formula.read(indices, axes)
    extent = formula.read(site.constant(np.array(extents, np.int32)), axes[-1:])
    return formula.output(axes, Choice((index < 0,), index + extent, index), DType.I32)


def _placed(site: Site, x: Operand, rows: Array, updates: Operand) -> Operand:
    """Updates at known places, as those of a cache: a table says which is for each place."""
    extents = np.array(x.shape[: rows.shape[1]])
    table = np.full(extents, -1, np.int32)
    for number, row in enumerate(rows):
        if np.all((row >= -extents) & (row < extents)):
            table[tuple(row)] = number
    formula = Formula(site)
    axes = formula.axes(x.shape)
    depth = len(extents)
    number_of = formula.read(site.constant(table), axes[:depth])
    update = formula.read(updates, (largest(number_of, 0), *axes[depth:]))
    value = Choice((number_of >= 0,), update, formula.read(x, axes))
    return formula.output(axes, value, x.dtype)


def _scattered(
    site: Site,
    formula: Formula,
    x: Operand,
    axes: tuple[Axis, ...],
    update: Expression,
    at: tuple[Expression, ...],
    over: tuple[Axis, ...],
) -> Operand:
    value = Scatter(formula.read(x, axes), update, at)
    reducer = _REDUCERS[site.text("reduction", "none")]
    return formula.output(axes, value, x.dtype, reducer, over)


def _in_own_type(scatter: Callable[[Site], Operand]) -> Callable[[Site], Carried]:
    """Unsigned numbers are compared in their order, and narrow ones count modulo their size."""

    def carry(site: Site) -> Carried:
        x, indices, updates = (site.needed(n) for n in range(3))
        reduction = site.text("reduction", "none")
        if reduction in ("max", "min"):
            x, updates = in_ranks(site, x), in_ranks(site, updates)
            return in_ranks(site, scatter(replace(site, inputs=(x, indices, updates))))
        made = scatter(site)
        if reduction == "none" or made.dtype is DType.F32:
            return made
        return narrowed(site, made)

    return carry


def _one_hot(site: Site) -> Carried:
    indices, told, values = site.needed(0), site.known(1, "depth"), site.needed(2)
    assert told is not None
    depth = int(told.reshape(-1)[0])
    axis = site.axis(default=-1, rank=indices.rank + 1)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    index = formula.read(indices, axes[:axis] + axes[axis + 1 :])
    if indices.dtype is DType.F32:
        index = Cast(index, DType.I32)
    if not isinstance(index, Integer):
        index = Choice((index < 0,), index + depth, index)
    off, on = (formula.read(values, (Integer(n),)) for n in (0, 1))
    return formula.output(axes, Choice((equal(index, axes[axis]),), on, off), values.dtype)


def _chosen_rows(site: Site) -> Carried:
    """Rows of a matrix by their numbers, and zeros for numbers of none. No input is refused for
    such a number, as none is a place here before it was looked at."""
    numbers, w = site.needed(0), site.needed(1)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    number = formula.read(numbers, (*axes[:-1], Integer(0)))
    row = largest(smallest(number, w.shape[0] - 1), 0)
    own = Choice((equal(row, number),), formula.read(w, (row, axes[-1])), Real(0.0))
    return formula.output(axes, own, w.dtype)


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "ChosenRows": _chosen_rows,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ScatterElements": _in_own_type(_scatter_elements),
    "ScatterND": _in_own_type(_scatter_nd),
}
