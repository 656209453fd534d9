"""Spectra of signals, as products with constant matrices of cosines and sines."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from services.tuner.graph.functions import Body
from services.tuner.graph.own_schemas import OWN_DOMAIN

MAX_ENTRIES = 1 << 25
"""Entries of a matrix: 128 MiB."""
LAST_BUT_ONE_SINCE = 20
"""The opset since which a DFT is along the last axis but one unless told; before it was axis 1."""


def _turns(rows: int, columns: int, length: int) -> NDArray[np.float64]:
    """Angles of the powers of a root of 1, reduced before they are rounded."""
    places = np.outer(np.arange(rows), np.arange(columns)) % length
    return 2 * np.pi * places / length


def _spectrum(
    body: Body, rows: int, bins: int, length: int, *, inverse: bool, whole: bool
) -> NDArray[np.float64]:
    """[rows, 2, bins, 2]: what the real and the imaginary part of an entry add to those of a bin.
    With `whole` bins are half of a spectrum of real numbers, and the result is real."""
    if rows * bins * 4 > MAX_ENTRIES:
        raise body.refusal(
            f"it has {rows} entries, of which a matrix would be too large",
            "export it for shorter signals or frames",
        )
    angle = _turns(rows, bins, length) * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.stack((np.stack((cosine, sine), -1), np.stack((-sine, cosine), -1)), 1)
    if whole:
        # Bins between the first and the middle stand for themselves and their conjugates.
        twice = np.full(rows, 2.0)
        twice[0] = 1
        if length % 2 == 0 and rows > length // 2:
            twice[length // 2] = 1
        matrix *= twice[:, None, None, None]
    return matrix / length if inverse else matrix


def _length(body: Body, place: int) -> int | None:
    if not body.has(place):
        return None
    return int(body.constant(place, "length").reshape(-1)[0])


def _fourier(body: Body) -> tuple[str, ...]:
    """x[…, n, …, 1 or 2]; the last axis has real and imaginary parts."""
    shape = body.shape(0)
    rank, parts = len(shape), shape[-1]
    default = -2 if body.version >= LAST_BUT_ONE_SINCE else 1
    axis = int(body.constant(2, "axis").reshape(-1)[0]) if body.has(2) else None
    axis = (body.integer("axis", default) if axis is None else axis) % rank
    inverse, onesided = bool(body.integer("inverse")), bool(body.integer("onesided"))
    whole = inverse and onesided
    given = shape[axis]
    length = _length(body, 1) or (2 * (given - 1) if whole else given)
    rows = min(given, length // 2 + 1 if whole else length)
    bins = length // 2 + 1 if onesided and not inverse else length
    matrix = _spectrum(body, rows, bins, length, inverse=inverse, whole=whole)
    made = 1 if whole else 2
    matrix = matrix[:, :parts, :, :made].reshape(rows * parts, bins * made)
    x = body.sliced("i0", axis, 0, rows) if rows < given else "i0"
    others = [n for n in range(rank - 1) if n != axis]
    moved = body.transposed(x, *others, axis, rank - 1)
    kept = [shape[n] for n in others]
    flat = body.reshaped(moved, *kept, rows * parts)
    product = body.node("MatMul", flat, body.weight(matrix.astype(body.dtype(0))))
    apart = body.reshaped(product, *kept, bins, made)
    order = [*others, axis]
    return (body.transposed(apart, *(order.index(n) for n in range(rank - 1)), rank - 1),)


def _short_time(body: Body) -> tuple[str, ...]:
    """x[batch, n, 1 or 2], a step, a window and a length: [batch, frames, bins, 2]."""
    batch, count, parts = (*body.shape(0), 1)[:3]
    step = int(body.constant(1, "step").reshape(-1)[0])
    length = _length(body, 3) or (body.shape(2)[0] if body.has(2) else count)
    if body.has(2) and body.shape(2) != (length,):
        raise body.refusal("its window is not as long as a frame", "pad the window with zeros")
    bins = length // 2 + 1 if body.integer("onesided", 1) else length
    matrix = _spectrum(body, length, bins, length, inverse=False, whole=False)[:, :parts]
    known = body.known(2) if body.has(2) else np.ones(length)
    if known is not None:
        matrix = matrix * known.astype(np.float64)[:, None, None, None]
    # Real parts of a frame, then imaginary parts.
    matrix = matrix.transpose(1, 0, 2, 3).reshape(parts * length, bins * 2)
    lines = body.reshaped(body.transposed(body.reshaped("i0", batch, count, parts), 0, 2, 1),
                          batch * parts, count)  # fmt: skip
    frames = body.node("Frames", lines, domain=OWN_DOMAIN, length=length, step=step)
    if known is None:
        frames = body.node("Mul", frames, "i2")
    number = (count - length) // step + 1
    apart = body.reshaped(frames, batch, parts, number, length)
    rows = body.reshaped(body.transposed(apart, 0, 2, 1, 3), batch, number, parts * length)
    product = body.node("MatMul", rows, body.weight(matrix.astype(body.dtype(0))))
    return (body.reshaped(product, batch, number, bins, 2),)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "DFT": _fourier,
    "STFT": _short_time,
}
