"""Digits drawn by strokes, as a finger draws them, in the form of scikit-learn's images.

Those were written by 43 people whose sevens have a bar and whose fours are closed: a network that
knew no others read 4 of 10 sevens without a bar, and 2 of 10 open fours. Each image drawn here is a
little different from the others.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Stroke = tuple[tuple[float, float], ...]

SIDE = 32
"""Dots of an image's side, of which 4 × 4 make a cell."""
CELLS = 8
STEPS = 6
"""Straight pieces between two points of a curve."""
WIDTHS = 2.6, 5.0
"""The width of the line, in dots."""

# Places from left to right and from top to bottom, each from 0 to 1. A stroke is a smooth curve; a
# corner is where one ends and another begins.
WAYS: dict[int, tuple[tuple[Stroke, ...], ...]] = {
    0: (
        (
            (
                *((0.5, 0.0), (0.14, 0.2), (0.03, 0.5), (0.16, 0.84)),
                *((0.5, 1.0), (0.84, 0.84), (0.97, 0.5), (0.86, 0.2), (0.5, 0.0)),
            ),
        ),
    ),
    1: (
        (((0.5, 0.0), (0.5, 1.0)),),
        (((0.2, 0.3), (0.5, 0.0)), ((0.5, 0.0), (0.5, 1.0))),
        (((0.25, 0.22), (0.5, 0.0)), ((0.5, 0.0), (0.5, 1.0)), ((0.2, 1.0), (0.8, 1.0))),
    ),
    2: (
        (
            ((0.08, 0.25), (0.3, 0.03), (0.68, 0.03), (0.87, 0.27), (0.65, 0.58), (0.06, 1.0)),
            ((0.06, 1.0), (0.94, 1.0)),
        ),
    ),
    3: (
        (
            ((0.1, 0.12), (0.42, 0.0), (0.82, 0.12), (0.76, 0.38), (0.4, 0.48)),
            ((0.4, 0.48), (0.88, 0.6), (0.88, 0.88), (0.45, 1.0), (0.06, 0.87)),
        ),
        (
            ((0.1, 0.0), (0.85, 0.0)),
            ((0.85, 0.0), (0.45, 0.4)),
            ((0.45, 0.4), (0.9, 0.6), (0.85, 0.9), (0.45, 1.0), (0.06, 0.87)),
        ),
    ),
    4: (
        (((0.62, 0.0), (0.05, 0.66)), ((0.05, 0.66), (0.95, 0.66)), ((0.7, 0.3), (0.68, 1.0))),
        (((0.7, 0.0), (0.05, 0.68)), ((0.05, 0.68), (0.95, 0.68)), ((0.7, 0.0), (0.7, 1.0))),
        (((0.15, 0.0), (0.1, 0.5)), ((0.1, 0.5), (0.88, 0.5)), ((0.8, 0.0), (0.78, 1.0))),
    ),
    5: (
        (
            ((0.88, 0.0), (0.22, 0.0)),
            ((0.22, 0.0), (0.16, 0.44)),
            ((0.16, 0.44), (0.55, 0.34), (0.9, 0.6), (0.78, 0.92), (0.4, 1.0), (0.06, 0.88)),
        ),
    ),
    6: (
        (
            (
                *((0.78, 0.0), (0.38, 0.2), (0.12, 0.62), (0.26, 0.94), (0.62, 1.0)),
                *((0.88, 0.78), (0.66, 0.54), (0.3, 0.6), (0.14, 0.76)),
            ),
        ),
    ),
    7: (
        (((0.06, 0.0), (0.94, 0.0)), ((0.94, 0.0), (0.6, 0.5), (0.4, 1.0))),
        (((0.06, 0.0), (0.94, 0.0)), ((0.94, 0.0), (0.3, 1.0))),
        (((0.06, 0.0), (0.94, 0.0)), ((0.94, 0.0), (0.4, 1.0)), ((0.25, 0.5), (0.88, 0.5))),
    ),
    8: (
        (
            (
                *((0.82, 0.14), (0.5, 0.0), (0.2, 0.22), (0.5, 0.47), (0.9, 0.76)),
                *((0.5, 1.0), (0.1, 0.76), (0.5, 0.47), (0.8, 0.24), (0.82, 0.14)),
            ),
        ),
    ),
    9: (
        (
            ((0.82, 0.2), (0.5, 0.0), (0.16, 0.22), (0.42, 0.5), (0.8, 0.3)),
            ((0.84, 0.1), (0.8, 0.5), (0.72, 1.0)),
        ),
        (
            ((0.82, 0.2), (0.5, 0.0), (0.16, 0.22), (0.42, 0.5), (0.8, 0.3)),
            ((0.84, 0.15), (0.82, 0.65), (0.6, 0.97), (0.2, 0.95)),
        ),
    ),
}


def drawn(count: int, random: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """`count` images [1, 8, 8] from 0 to 1, and their digits."""
    labels = random.integers(0, 10, count)
    return np.stack([image(int(digit), random)[None] for digit in labels]), labels


def image(digit: int, random: np.random.Generator) -> Array:
    """The digit in one of its ways: shaken, leaning, narrow or wide, with a thin or a thick pen."""
    way = WAYS[digit][random.integers(len(WAYS[digit]))]
    angle, lean = random.normal(0, 0.08), random.normal(0.08, 0.14)
    wide = random.uniform(0.5, 0.85)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[wide, -lean], [0, 1]])
    points = [
        curve(np.array(stroke) + random.normal(0, 0.035, (len(stroke), 2))) @ shape.T
        for stroke in way
    ]
    return cells(points, random.uniform(*WIDTHS))


def curve(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Through all points, by Catmull and Rom; two points make a straight line."""
    ends = np.concatenate([points[:1], points, points[-1:]])
    t = np.linspace(0, 1, STEPS + 1)[:, None]
    before, start, end, after = ends[:-3], ends[1:-2], ends[2:-1], ends[3:]
    parts = [
        (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        / 2
        for a, b, c, d in zip(before, start, end, after, strict=True)
    ]
    return np.concatenate(parts)


def cells(strokes: list[NDArray[np.float64]], width: float) -> Array:
    """Draws strokes as large as fits 32 × 32 dots, in the middle: of each cell the share of its
    dots that a line of `width` dots covers. `paper.js` does the same.
    """
    every = np.concatenate(strokes)
    low, high = every.min(0), every.max(0)
    scale = (SIDE - width) / max(*(high - low), 1e-6)
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), -1).reshape(-1, 1, 2) + 0.5
    covered = np.zeros(SIDE * SIDE, bool)
    for stroke in strokes:
        places = (stroke - (low + high) / 2) * scale + SIDE / 2
        start, step = places[:-1], np.diff(places, axis=0)
        along = ((grid - start) * step).sum(-1) / np.maximum((step**2).sum(-1), 1e-9)
        nearest = start + np.clip(along, 0, 1)[..., None] * step
        covered |= (((grid - nearest) ** 2).sum(-1) <= (width / 2) ** 2).any(1)
    dots = SIDE // CELLS
    shares = covered.reshape(CELLS, dots, CELLS, dots).mean((1, 3))
    return shares.astype(np.float32)
