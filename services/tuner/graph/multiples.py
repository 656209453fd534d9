"""Weights that were quantised before they became real numbers, told by their values: each entry of
a column is a small whole number of times that column's scale."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST = 255
"""A whole number of 8 bits, less a zero point of 8 bits, is at most so large."""
MOST_SHARED = 8
"""Two entries of a column are at least once so many of its scales apart, or fewer."""
OFF = 1e-6
"""So much of itself may some roundings to f32 bring an entry over its scale from a whole number."""
SAME = 1e-6
"""Entries that differ by so much of the largest are equal but for rounding."""


@dataclass(frozen=True, slots=True)
class Multiples:
    """`codes` times `scales` are the entries; b[k, n] has a scale for each n. The codes of a column
    and 0 are within 256 numbers in a row."""

    codes: NDArray[np.int32]
    scales: NDArray[np.float32]


def multiples_of(entries: NDArray[np.float32]) -> Multiples | None:
    """None where a column of b[k, n] has no such scale."""
    if not np.isfinite(entries).all():
        return None
    wide = entries.astype(np.float64)
    largest = np.abs(wide).max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    steps = np.rint(largest / _least_gaps(wide, largest))
    if (steps > MOST).any():
        return None
    scales = np.zeros(largest.shape)
    for shared in range(1, MOST_SHARED + 1):
        trial = largest / (steps * shared)
        counts = wide / trial
        codes = np.rint(counts)
        near = (np.abs(counts - codes) <= OFF * np.abs(codes)).all(axis=0)
        fits = near & (steps * shared <= MOST)
        scales = np.where((scales == 0) & fits, trial, scales)
    for column in np.flatnonzero(scales == 0):
        scales[column] = _scale_of(wide[:, column], largest[column])
    if not scales.all():
        return None
    whole = np.rint(wide / scales).astype(np.int32)
    if (whole.max(axis=0).clip(0) - whole.min(axis=0).clip(None, 0) > MOST).any():
        return None
    return Multiples(whole, scales.astype(np.float32))


def _scale_of(column: NDArray[np.float64], largest: np.float64) -> np.float64:
    """The largest scale of a column of few entries, no two of which are near to one another; 0 if
    there is none."""
    trials = largest / np.arange(1, MOST + 1)
    counts = column[:, None] / trials
    codes = np.rint(counts)
    fits = (np.abs(counts - codes) <= OFF * np.abs(codes)).all(axis=0)
    return trials[np.argmax(fits)] if fits.any() else np.float64(0)


def _least_gaps(entries: NDArray[np.float64], largest: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least difference of two sizes in each column, 0 among them; 1 where all are 0."""
    sizes = np.sort(np.abs(entries), axis=0)
    gaps = np.diff(sizes, axis=0, prepend=0.0)
    apart = np.where(gaps > SAME * largest, gaps, np.inf).min(axis=0)
    return np.asarray(np.where(np.isfinite(apart), apart, 1.0))
