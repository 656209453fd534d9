"""Stages that take their values one after another (`kernelzoo.domain.operators.ordered`), in NumPy.

Sums are taken in float64.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from kernelzoo.domain.operators.expressions import (
    Axis,
    Expression,
    Integer,
    Read,
    Real,
    Reducer,
    Stage,
    number,
)
from kernelzoo.domain.operators.ordered import Scan, Selection, Updates, ordered_of
from kernelzoo.numerics.operators import NUMPY_DTYPES, REDUCERS, Array

Tensors = Mapping[str, Array]


def in_order(stage: Stage, tensors: Tensors) -> Array:
    """All entries of a stage."""
    ordered = ordered_of(stage)
    with np.errstate(all="ignore"):
        match ordered:
            case Scan():
                made = _scan(ordered, _whole(stage, tensors))
            case Selection():
                made = _selection(ordered, _whole(stage, tensors))
            case Updates():
                made = _updates(ordered, tensors)
        return np.asarray(made, NUMPY_DTYPES[stage.dtype]).reshape(stage.shape)


def _whole(stage: Stage, tensors: Tensors) -> Array:
    assert isinstance(stage.value, Read)
    return tensors[stage.value.tensor]


def _scan(scan: Scan, x: Array) -> Array:
    rows = _wide(x).reshape(scan.outer, scan.extent, scan.inner)
    return np.asarray(REDUCERS[scan.reducer].accumulate(rows, axis=1))


def _selection(selection: Selection, x: Array) -> Array:
    """NaN counts as the largest of all."""
    sign = -1 if selection.largest else 1
    made = np.empty((selection.rows, selection.count), np.int64)
    for row, entries in enumerate(x):
        if entries.dtype.kind != "f":
            made[row] = np.lexsort([sign * entries.astype(np.int64)])[: selection.count]
            continue
        missing = np.isnan(entries)
        size = np.where(missing, np.float32(0), entries)
        made[row] = np.lexsort((sign * size, sign * missing))[: selection.count]
    return made


def _updates(updates: Updates, tensors: Tensors) -> Array:
    initial = _at(updates.value.initial, updates.axes, tensors)
    made = _wide(np.broadcast_to(initial, prod(updates.shape))).copy()
    count = prod(number(axis.extent) for axis in updates.over)
    flat, inside = np.zeros(count, np.int64), np.ones(count, bool)
    for part, extent in zip(updates.value.at, updates.shape, strict=True):
        place = np.broadcast_to(_at(part, updates.over, tensors), count).astype(np.int64)
        inside &= (place >= 0) & (place < extent)
        flat = flat * extent + place
    values = np.broadcast_to(_at(updates.value.update, updates.over, tensors), count)
    if updates.reducer is Reducer.LAST:
        made[flat[inside]] = values[inside]
    else:
        REDUCERS[updates.reducer].at(made, flat[inside], values[inside])
    return made


def _at(part: Expression, axes: Sequence[Axis], tensors: Tensors) -> Array:
    """Flat, at all places along axes: an axis, a number, or what is read at such."""
    extents = [number(axis.extent) for axis in axes]

    def place(expression: Expression) -> Array:
        match expression:
            case Integer(value) | Real(value):
                return np.array(value)
            case Axis() as axis:
                along = [-1 if each == axis else 1 for each in axes]
                return np.arange(number(axis.extent)).reshape(along)
        raise TypeError(f"{expression} is neither an axis nor a number")

    if isinstance(part, Read):
        found = tensors[part.tensor][tuple(map(place, part.at))]
    else:
        found = place(part)
    return np.broadcast_to(found, extents).reshape(-1)


def _wide(x: Array) -> Array:
    return x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
