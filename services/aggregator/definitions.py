"""What every operator computes, at given output positions, in float64, from lazily read inputs.

`read(tensor, indices)` gives entries of an input by their flat indices: only what the asked entries
need is ever computed. An operator on rows reads the rows of the asked entries, nothing else. Terms
of sums and rows are read in chunks, so that memory does not grow with a workload's extents.
"""

from collections.abc import Callable, Iterator
from math import erf

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators import EPILOGUES, Axes, EpilogueKind, Family
from kernelzoo.domain.workload import Workload

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Read = Callable[[int, Indices], Floats]
"""From the number of an input and flat indices to values, of the same shape."""

Coordinates = dict[str, Indices]
"""Positions along each axis; they broadcast."""

TERMS_AT_ONCE = 1 << 16
"""Entries of an input that are read and held at once: arrays of half a megabyte. Without this bound
64 entries of a pooling over 512 x 512 windows took 936 MB."""

VARIANCE_FLOOR = 1e-5
"""Added to a variance or a mean square before its root, as in PyTorch's layer norm."""


def entries(workload: Workload, positions: Indices, read: Read) -> Floats:
    """float64[positions]: right values at flat positions of the output."""
    axes = workload.operator.output[1]
    at = dict(zip(axes, np.unravel_index(positions, workload.output.shape), strict=True))
    match workload.operator.family:
        case Family.CONTRACTION | Family.CONVOLUTION:
            values = _sums(workload, at, read)
        case Family.ROWS:
            rows_at_once = max(1, TERMS_AT_ONCE // workload.extent["n"])
            chunks = _chunks(positions.size, rows_at_once)
            some = ({axis: c[chunk] for axis, c in at.items()} for chunk in chunks)
            values = np.concatenate([_rows(workload, each, read) for each in some])
        case Family.MAP:
            values = _maps(workload, at, read)
    return _finished(workload, values, positions, read)


def _finished(workload: Workload, values: Floats, positions: Indices, read: Read) -> Floats:
    tensor = len(workload.operator.inputs)
    columns = workload.output.shape[-1]
    for name in workload.epilogue:
        match EPILOGUES[name]:
            case EpilogueKind.UNARY:
                values = _UNARY[name](values)
                continue
            case EpilogueKind.COLUMN:
                values = values + read(tensor, positions % columns)
            case EpilogueKind.ENTRY:
                values = values + read(tensor, positions)
            case EpilogueKind.FACTOR:
                values = values * read(tensor, positions % columns)
            case EpilogueKind.SCALAR:
                values = values * read(tensor, np.zeros_like(positions))
        tensor += 1
    return values


def _gelu(x: Floats) -> Floats:
    return np.asarray(0.5 * x * (1 + _ERF(x / np.sqrt(2))))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


_ERF = np.vectorize(erf, otypes=[np.float64])
_UNARY: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": _ERF,
    "exp": np.exp,
}
_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def _flat(workload: Workload, axes: Axes, at: Coordinates) -> Indices:
    shape = tuple(workload.extent[axis] for axis in axes)
    places = np.broadcast_arrays(*(at[axis] for axis in axes))
    return np.asarray(np.ravel_multi_index(tuple(places), shape), dtype=np.int64)


def _sums(workload: Workload, at: Coordinates, read: Read) -> Floats:
    """Products, or values of a window, summed; the largest of a window; their mean."""
    asked = at[workload.operator.output[1][0]].size
    chunks = _chunks(workload.reduction_length, max(1, TERMS_AT_ONCE // asked))
    terms = (_terms(workload, at, chunk, read) for chunk in chunks)
    if workload.operator.name == "max_pool2d":
        largest = [np.where(inside, values, -np.inf).max(axis=1) for values, inside in terms]
        return np.asarray(np.max(largest, axis=0))
    sums = [np.where(inside, values, 0).sum(axis=1) for values, inside in terms]
    divisor = workload.reduction_length if workload.operator.name == "avg_pool2d" else 1
    return np.asarray(np.sum(sums, axis=0) / divisor, dtype=np.float64)


def _chunks(length: int, size: int) -> Iterator[Indices]:
    """0 to `length` in runs of at most `size`."""
    for start in range(0, length, size):
        yield np.arange(start, min(start + size, length))


def _terms(
    workload: Workload, at: Coordinates, chunk: Indices, read: Read
) -> tuple[Floats, NDArray[np.bool_]]:
    """float64[entries, chunk]: these terms of each reduction, and which of them are not padding.
    `chunk`: their flat places in the summed axes.
    """
    extent, operator = workload.extent, workload.operator
    ranges = tuple(extent[axis] for axis in operator.summed)
    summed = np.unravel_index(chunk, ranges)
    place = {axis: c[:, np.newaxis] for axis, c in at.items()}
    place |= {axis: s[np.newaxis, :] for axis, s in zip(operator.summed, summed, strict=True)}
    inside = np.ones((1, 1), dtype=bool)
    if operator.family is Family.CONVOLUTION:
        place, inside = _in_image(workload, place)
    terms = np.ones((at[operator.output[1][0]].size, chunk.size))
    for number, (_, axes) in enumerate(operator.inputs):
        terms = terms * read(number, _flat(workload, axes, place))
    return terms, inside


def _in_image(workload: Workload, place: Coordinates) -> tuple[Coordinates, NDArray[np.bool_]]:
    """The pixel under each point of a window, and whether it is one of the image's."""
    extent = workload.extent
    row = place["y"] * extent["stride"] + place["kh"] - extent["pad"]
    column = place["x"] * extent["stride"] + place["kw"] - extent["pad"]
    inside = (row >= 0) & (row < extent["h"]) & (column >= 0) & (column < extent["w"])
    pixel = {"h": np.clip(row, 0, extent["h"] - 1), "w": np.clip(column, 0, extent["w"] - 1)}
    return place | pixel, inside


def _rows(workload: Workload, at: Coordinates, read: Read) -> Floats:
    n = workload.extent["n"]
    row = read(0, at["m"][:, np.newaxis] * n + np.arange(n)[np.newaxis, :])
    match workload.operator.name:
        case "row_sum":
            return np.asarray(row.sum(axis=1))
        case "row_mean":
            return np.asarray(row.mean(axis=1))
        case "row_max":
            return np.asarray(row.max(axis=1))
    entry = row[np.arange(row.shape[0]), at["n"]]
    match workload.operator.name:
        case "softmax":
            largest = row.max(axis=1)
            return np.asarray(np.exp(entry - largest) / np.exp(row - largest[:, None]).sum(axis=1))
        case "layer_norm":
            scaled = (entry - row.mean(axis=1)) / np.sqrt(row.var(axis=1) + VARIANCE_FLOOR)
            return np.asarray(scaled * read(1, at["n"]) + read(2, at["n"]))
        case "rms_norm":
            root = np.sqrt((row * row).mean(axis=1) + VARIANCE_FLOOR)
            return np.asarray(entry / root * read(1, at["n"]))
    raise AssertionError(f"operator {workload.operator.name} on rows has no definition")


def _maps(workload: Workload, at: Coordinates, read: Read) -> Floats:
    name, e = workload.operator.name, workload.extent
    if name in _UNARY:
        return _UNARY[name](read(0, at["n"]))
    if name in _BINARY:
        return np.asarray(_BINARY[name](read(0, at["n"]), read(1, at["n"])))
    match name:
        case "gather":
            return read(0, read(1, at["m"]).astype(np.int64) * e["n"] + at["n"])
        case "transpose":
            return read(0, at["m"] * e["n"] + at["n"])
        case "slice":
            return read(0, at["m"] * e["n"] + at["x"] + e["start"])
        case "concat":
            first = at["x"] < e["n"]
            left = read(0, at["m"] * e["n"] + np.where(first, at["x"], 0))
            right = read(1, at["m"] * e["k"] + np.where(first, 0, at["x"] - e["n"]))
            return np.asarray(np.where(first, left, right))
        case "pad":
            row, column = at["y"] - e["pad"], at["x"] - e["pad"]
            inside = (row >= 0) & (row < e["m"]) & (column >= 0) & (column < e["n"])
            return np.asarray(
                np.where(inside, read(0, np.where(inside, row * e["n"] + column, 0)), 0)
            )
    raise AssertionError(f"operator {name} on entries has no definition")
