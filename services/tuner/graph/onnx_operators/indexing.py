"""Operators that read or write at places which another tensor names."""

from collections.abc import Callable, Mapping
from math import inf, prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Cast,
    Choice,
    Comparison,
    Expression,
    Integer,
    Reducer,
    Stage,
    equal,
    largest,
    operand,
    smallest,
)
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.network import Array
from services.tuner.graph.onnx_operators.movement import sliced


def _from_front(index: Expression, extent: int) -> Expression:
    """An index of which a negative one counts from the end, kept within the tensor."""
    return largest(smallest(Choice((index < 0,), index + extent, index), extent - 1), 0)


def place_in(of: Operand, index: Expression, extent: int) -> Expression:
    """As `_from_front`, unless the index is known to be right."""
    if isinstance(index, Integer):
        return Integer(min(max(index.value % extent, 0), extent - 1))
    known = of.constant
    if known is not None and known.min(initial=0) >= 0 and known.max(initial=0) < extent:
        return index
    return _from_front(index, extent)


def _gather(site: Site) -> Carried:
    x, indices = site.needed(0), site.needed(1)
    axis = site.axis()
    step = _progression(indices)
    if step is not None:
        return site.view(_regular(site, x, axis, indices, step), site.shape)
    rows = prod(x.shape[axis + 1 :])
    if axis == 0 and x.dtype is DType.F32 and x.rank > 1:
        wrapped = _wrapped(site, indices, x.shape[0])
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


def _wrapped(site: Site, indices: Operand, extent: int) -> Operand:
    """Indices none of which is negative."""
    if indices.constant is not None:
        known = indices.constant
        if known.min(initial=0) >= 0:
            return indices
        return site.constant(np.where(known < 0, known + extent, known).astype(np.int32))
    formula = Formula(site)
    axes = formula.axes(indices.shape)
    index = formula.read(indices, axes)
    return formula.output(axes, Choice((index < 0,), index + extent, index), DType.I32)


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


_COMBINED: Mapping[str, tuple[Reducer, BinaryOp]] = {
    "add": (Reducer.SUM, BinaryOp.ADD),
    "mul": (Reducer.PROD, BinaryOp.MUL),
    "max": (Reducer.MAX, BinaryOp.MAX),
    "min": (Reducer.MIN, BinaryOp.MIN),
}


def _scatter_elements(site: Site) -> Carried:
    """Each entry asks which updates are for its place: the last of them counts, or all combined."""
    x, indices, updates = (site.needed(n) for n in range(3))
    axis = site.axis()
    formula = Formula(site)
    axes = formula.axes(x.shape)
    (k,) = formula.axes((indices.shape[axis],), first=x.rank)
    places = (*axes[:axis], k, *axes[axis + 1 :])
    covered = tuple(
        own < extent
        for n, (own, extent, whole) in enumerate(zip(axes, indices.shape, x.shape, strict=True))
        if n != axis and extent < whole
    )
    index = place_in(indices, formula.read(indices, places), x.shape[axis])
    chosen = (*covered, equal(index, axes[axis]))
    return _scattered(
        site,
        formula,
        x,
        axes,
        k,
        chosen,
        lambda last: (*axes[:axis], last, *axes[axis + 1 :]),
        updates,
    )


def _scatter_nd(site: Site) -> Carried:
    x, indices, updates = (site.needed(n) for n in range(3))
    depth = indices.shape[-1]
    count = prod(indices.shape[:-1])
    rows = site.view(indices, (count, depth))
    flat = site.view(updates, (count, *x.shape[depth:]))
    if rows.constant is not None and site.text("reduction", "none") == "none":
        return _placed(site, x, rows.constant, flat)
    formula = Formula(site)
    axes = formula.axes(x.shape)
    (k,) = formula.axes((count,), first=x.rank)
    chosen = tuple(
        equal(place_in(rows, formula.read(rows, (k, Integer(n))), x.shape[n]), axes[n])
        for n in range(depth)
    )
    return _scattered(site, formula, x, axes, k, chosen, lambda last: (last, *axes[depth:]), flat)


def _placed(site: Site, x: Operand, rows: Array, updates: Operand) -> Operand:
    """Updates at known places, as those of a cache: a table says which is for each place."""
    depth = rows.shape[1]
    table = np.full(x.shape[:depth], -1, np.int32)
    for number, row in enumerate(rows):
        table[tuple(row)] = number
    formula = Formula(site)
    axes = formula.axes(x.shape)
    number_of = formula.read(site.constant(table), axes[:depth])
    update = formula.read(updates, (largest(number_of, 0), *axes[depth:]))
    value = Choice((number_of >= 0,), update, formula.read(x, axes))
    return formula.output(axes, value, x.dtype)


def _scattered(
    site: Site,
    formula: Formula,
    x: Operand,
    axes: tuple[Axis, ...],
    k: Axis,
    chosen: tuple[Comparison, ...],
    place: Callable[[Expression], tuple[Expression, ...]],
    updates: Operand,
) -> Operand:
    """`chosen` say whether update k is for the place of an entry; `place` is where it stands."""
    reduction = site.text("reduction", "none")
    if reduction == "none":
        last = _last(formula, axes, k, chosen)
        at = largest(last[axes], 0)
        value = Choice((last[axes] >= 0,), formula.read(updates, place(at)), formula.read(x, axes))
        return formula.output(axes, value, x.dtype)
    reducer, op = _COMBINED[reduction]
    neutral = _neutral(reducer, x.dtype)
    value = Choice(chosen, formula.read(updates, place(k)), neutral)
    total = formula.stage(axes, value, x.dtype, reducer, (k,))
    return formula.output(axes, Binary(op, formula.read(x, axes), total[axes]), x.dtype)


def _last(
    formula: Formula, axes: tuple[Axis, ...], k: Axis, chosen: tuple[Comparison, ...]
) -> Stage:
    """The last update for each place, -1 where there is none."""
    value = Choice(chosen, k, Integer(-1))
    return formula.stage(axes, value, DType.I32, Reducer.MAX, (k,))


def _neutral(reducer: Reducer, dtype: DType) -> Expression:
    least, most = DType.I32.value_range
    reals = {Reducer.SUM: 0.0, Reducer.PROD: 1.0, Reducer.MAX: -inf, Reducer.MIN: inf}
    integers = {Reducer.SUM: 0, Reducer.PROD: 1, Reducer.MAX: least, Reducer.MIN: most}
    return operand(reals[reducer]) if dtype is DType.F32 else operand(integers[reducer])


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


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
