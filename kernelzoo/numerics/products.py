"""Sums of products in NumPy: products of matrices, convolutions, and any stage that multiplies two
factors and sums, all by BLAS.

Small ones are taken in float64. Large ones are f32, in parts of 512 terms that are added up in
float64. Those of integers are exact. No array that is made on the way has more than
`ENTRIES_AT_ONCE` entries, as far as slices of one axis allow it: a convolution over an image of
736 × 1184 would otherwise hold each window.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Expression,
    Reducer,
    Stage,
    number,
    parts,
)
from kernelzoo.numerics.operators import Array

ENTRIES_AT_ONCE = 1 << 22
LARGE_PRODUCT = 1 << 24
"""Products of two entries, from which on sums are taken in parts."""
EXACT_IN_F64 = 1 << 53
PART = 512
"""Terms of which f32 makes an error of 3e-7, measured against float64 with normal entries."""


def matmul(a: Array, b: Array) -> Array:
    """[…, M, N]. Sums of integers are exact, in 64 bits."""
    if a.dtype.kind == "i" and b.dtype.kind == "i":
        return _of_integers(a, b)
    if a.size * b.shape[-1] < LARGE_PRODUCT:
        return np.asarray(np.asarray(a, np.float64) @ np.asarray(b, np.float64))
    return _in_parts(a, b)


def _of_integers(a: Array, b: Array) -> Array:
    """BLAS has float64 alone, which is exact as long as no sum can reach 2⁵³."""
    wide = np.int64
    largest = [int(np.abs(each.astype(wide)).max(initial=0)) for each in (a, b)]
    exact = np.float64 if prod(largest) * a.shape[-1] < EXACT_IN_F64 else wide
    return np.asarray((a.astype(exact) @ b.astype(exact)).astype(wide))


def _in_parts(a: Array, b: Array) -> Array:
    """Terms that are one part are left as f32."""
    k = a.shape[-1]
    total = np.matmul(a[..., :PART], b[..., :PART, :], dtype=np.float32)
    for start in range(PART, k, PART):
        total = total.astype(np.float64, copy=False)
        total += np.matmul(
            a[..., start : start + PART], b[..., start : start + PART, :], dtype=np.float32
        )
    return np.asarray(total)


def convolution(image: Array, filters: Array, *, stride: int, pad: int) -> Array:
    """[b, y, x, o] of an image [b, h, w, c] and filters [kh, kw, c, o]: rows of windows side by
    side, times the filters as a matrix."""
    kh, kw, c, o = filters.shape
    windows = _windows(image, kh, kw, stride, pad)
    matrix = filters.reshape(kh * kw * c, o)
    made = np.empty((*windows.shape[:3], o), np.float32)
    large = prod(windows.shape) * o >= LARGE_PRODUCT
    for at in _blocks_of_rows(windows.shape):
        some = windows[at]
        rows = some.reshape(prod(some.shape[:3]), kh * kw * c)
        made[at] = (_in_parts if large else matmul)(rows, matrix).reshape(*some.shape[:3], o)
    return made


def depthwise_convolution(image: Array, filters: Array, *, stride: int, pad: int) -> Array:
    """[b, y, x, c] of an image [b, h, w, c] and filters [kh, kw, c], summed in float64."""
    kh, kw, c = filters.shape
    windows = _windows(image, kh, kw, stride, pad)
    wide = np.asarray(filters, np.float64)
    made = np.empty((*windows.shape[:3], c), np.float32)
    for at in _blocks_of_rows(windows.shape):
        some = windows[at]
        total = np.zeros((*some.shape[:3], c))
        for i, j in np.ndindex(kh, kw):
            total += some[:, :, :, i, j] * wide[i, j]
        made[at] = total
    return made


def _windows(image: Array, kh: int, kw: int, stride: int, pad: int) -> Array:
    """[b, y, x, kh, kw, c]: what lies under each window."""
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (1, 2))
    return windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)


def _blocks_of_rows(shape: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Slices of the first two axes."""
    rows = max(1, ENTRIES_AT_ONCE // max(1, prod(shape[2:])))
    for image in range(shape[0]):
        for row in range(0, shape[1], rows):
            yield slice(image, image + 1), slice(row, row + rows)


def factors(stage: Stage) -> tuple[Expression, Expression] | None:
    """The two factors of a stage that is a contraction: it sums their product over axes that both
    have, and each of its own axes is one of either factor. None for any other stage, and where
    products are hardly more than the entries that are multiplied."""
    value = stage.value
    if stage.reducer is not Reducer.SUM:
        return None
    if not isinstance(value, Binary) or value.op is not BinaryOp.MUL:
        return None
    left, right = _axes_in(value.left), _axes_in(value.right)
    own, over = _long(stage.axes), _long(stage.over)
    if not over or not over <= left & right or not own <= left | right:
        return None
    extents = {axis.name: number(axis.extent) for axis in (*stage.axes, *stage.over)}
    multiplied = max(prod(extents[name] for name in side) for side in (left, right))
    return (value.left, value.right) if 4 * multiplied <= prod(extents.values()) else None


def _axes_in(expression: Expression) -> frozenset[str]:
    return frozenset(part.name for part in parts(expression) if isinstance(part, Axis))


def _long(axes: Sequence[Axis]) -> frozenset[str]:
    return frozenset(axis.name for axis in axes if number(axis.extent) > 1)


def contraction(left: Array, right: Array, rank: int) -> Array:
    """The sum of the product of two factors over all dimensions from `rank` on. Both have every
    dimension, of size 1 where they do not depend on it."""
    batch = [n for n in range(rank) if left.shape[n] > 1 and right.shape[n] > 1]
    rows = [n for n in range(rank) if n not in batch and left.shape[n] > 1]
    columns = [n for n in range(rank) if n not in (*batch, *rows)]
    over = [*range(rank, left.ndim)]
    order = [*batch, *rows, *columns]
    a = left.transpose(*batch, *rows, *over, *columns)
    b = right.transpose(*batch, *over, *columns, *rows)
    batches, m = _size(left, batch), _size(left, rows)
    n, k = _size(right, columns), _size(left, over)
    sums = matmul(a.reshape(batches, m, k), b.reshape(batches, k, n))
    shape = [max(left.shape[axis], right.shape[axis]) for axis in order]
    return sums.reshape(shape).transpose([order.index(axis) for axis in range(rank)])


def _size(of: Array, axes: Sequence[int]) -> int:
    return prod(of.shape[axis] for axis in axes)


def entries_at_once(stage: Stage, sides: tuple[Expression, Expression] | None) -> int:
    """Entries that a whole stage has to hold at once: those of the larger factor of a contraction
    and of what it makes, or each value that it reduces."""
    extents: Mapping[str, int] = {
        axis.name: number(axis.extent) for axis in (*stage.axes, *stage.over)
    }
    if sides is None:
        return prod(extents.values())
    return max(prod(stage.shape), *(prod(extents[n] for n in _axes_in(side)) for side in sides))
