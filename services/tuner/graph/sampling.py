"""Images and volumes read at the places of a grid, in ONNX's other operators."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from services.tuner.graph.functions import Body

LINEAR = ("bilinear", "linear")
CUBIC = ("bicubic", "cubic")
SHARPNESS = -0.75
"""The parameter of Keys' cubic convolution that ONNX names."""


def _grid_sample(body: Body) -> tuple[str, ...]:
    """An image [n, c, …] at the places [n, …, (x, y, …)] of a grid, from -1 to 1; x is along the
    last axis."""
    mode = body.text("mode", "linear")
    if len(body.shape(0)) < 3:
        raise body.refusal("it samples no images", "reshape its input to images")
    if mode not in (*LINEAR, *CUBIC, "nearest"):
        raise body.refusal(f"it is {mode}", "export it with linear, cubic or nearest sampling")
    image = _Image(body)
    axes = range(image.rank)
    if mode == "nearest":
        places = [image.moved_in(body.node("Round", image.place(axis)), axis) for axis in axes]
        return (image.arranged(image.at(places)),)
    lines = [_neighbours(image, axis, cubic=mode in CUBIC) for axis in axes]
    parts = []
    for neighbours in product(*reversed(lines)):
        share = neighbours[0][1]
        for _, other in neighbours[1:]:
            share = body.node("Mul", share, other)
        entry = image.at([place for place, _ in reversed(neighbours)])
        parts.append(body.node("Mul", share, entry))
    return (image.arranged(body.node("Sum", *parts)),)


def _neighbours(image: "_Image", axis: int, *, cubic: bool) -> list[tuple[str, str]]:
    """Whole places along an axis and their shares."""
    body = image.body
    place = image.place(axis)
    if not cubic:  # of which each neighbour is moved in by itself, as in PyTorch and onnxruntime
        place = image.moved_in(place, axis)
    start = body.node("Floor", place)
    rest = body.node("Sub", place, start)
    steps = (-1, 0, 1, 2) if cubic else (0, 1)
    shares = _cubic_shares(body, rest) if cubic else (_less(body, 1, rest), rest)
    return [
        (body.node("Add", start, body.number(step, like=1)) if step else start, share)
        for step, share in zip(steps, shares, strict=True)
    ]


def _less(body: Body, value: float, x: str) -> str:
    return body.node("Sub", body.number(value, like=1), x)


def _polynomial(body: Body, x: str, *coefficients: float) -> str:
    """Evaluates a polynomial; coefficients of high powers come first."""
    made = body.number(coefficients[0], like=1)
    for coefficient in coefficients[1:]:
        made = body.node("Mul", made, x)
        made = body.node("Add", made, body.number(coefficient, like=1)) if coefficient else made
    return made


def _cubic_shares(body: Body, rest: str) -> tuple[str, ...]:
    """Weighs the entries 1 + rest and rest before, and 1 - rest and 2 - rest behind."""
    a = SHARPNESS

    def near(distance: str) -> str:
        return _polynomial(body, distance, a + 2, -(a + 3), 0, 1)

    def far(distance: str) -> str:
        return _polynomial(body, distance, a, -5 * a, 8 * a, -4 * a)

    before = body.node("Add", rest, body.number(1, like=1))
    return far(before), near(rest), near(_less(body, 1, rest)), far(_less(body, 2, rest))


class _Image:
    """Entries lie as [n, image, c], places as [n, grid, 1]. Axis 0 is x, the last of the image."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._batch, self._channels, *image = body.shape(0)
        self._extents = image[::-1]
        self._grid = body.shape(1)[1:-1]
        flat = body.reshaped("i0", self._batch, self._channels, -1)
        self._entries = body.transposed(flat, 0, 2, 1)
        self._outside = body.text("padding_mode", "zeros")
        self._aligned = bool(body.integer("align_corners"))

    @property
    def rank(self) -> int:
        return len(self._extents)

    def place(self, axis: int) -> str:
        """Reads the place that the grid says, in entries."""
        body, extent = self.body, self._extents[axis]
        part = body.sliced("i1", self.rank + 1, axis, axis + 1)
        part = body.reshaped(part, self._batch, prod(self._grid), 1)
        factor = (extent - 1) / 2 if self._aligned else extent / 2
        scaled = body.node("Mul", part, body.number(factor, like=1))
        return body.node("Add", scaled, body.number((extent - 1) / 2, like=1))

    def _ends(self, axis: int) -> tuple[float, float]:
        edge = 0.0 if self._aligned else 0.5
        return -edge, self._extents[axis] - 1 + edge

    def moved_in(self, place: str, axis: int) -> str:
        """A place within the ends of the image, unless outside is 0."""
        if self._outside == "reflection":
            return self._reflected(place, *self._ends(axis))
        return place if self._outside == "zeros" else self._clipped(place, axis)

    def _reflected(self, place: str, least: float, most: float) -> str:
        """Back and forth between two ends: a triangle wave of the distance to the first."""
        body, span = self.body, most - least
        if span == 0:
            return body.node("Mul", place, body.number(0, like=1))
        start = body.number(least, like=1)
        distance = body.node("Abs", body.node("Sub", place, start))
        period = body.number(2 * span, like=1)
        turns = body.node("Floor", body.node("Div", distance, period))
        rest = body.node("Sub", distance, body.node("Mul", turns, period))
        back = body.node("Sub", period, rest)
        return body.node("Add", body.node("Min", rest, back), start)

    def _clipped(self, place: str, axis: int) -> str:
        ends = (self.body.number(end, like=1) for end in (0, self._extents[axis] - 1))
        return self.body.node("Clip", place, *ends)

    def at(self, places: Sequence[str]) -> str:
        """[n, grid, c] at whole places."""
        body = self.body
        own = list(places)
        if self._outside == "reflection":
            own = [self._reflected(each, *self._ends(axis)) for axis, each in enumerate(places)]
        inner = [self._clipped(each, axis) for axis, each in enumerate(own)]
        number = inner[-1]
        for axis in reversed(range(self.rank - 1)):
            before = body.node("Mul", number, body.number(self._extents[axis], like=1))
            number = body.node("Add", before, inner[axis])
        index = body.node("Cast", number, to=body.I64)
        found = body.node("GatherND", self._entries, index, batch_dims=1)
        if self._outside != "zeros":
            return found
        within = [body.node("Equal", a, b) for a, b in zip(places, inner, strict=True)]
        all_within = within[0]
        for each in within[1:]:
            all_within = body.node("And", all_within, each)
        return body.node("Where", all_within, found, body.weight(np.zeros((), body.dtype(0))))

    def arranged(self, found: str) -> str:
        first = self.body.transposed(found, 0, 2, 1)
        return self.body.reshaped(first, self._batch, self._channels, *self._grid)


def _affine_grid(body: Body) -> tuple[str, ...]:
    """Matrices [n, d, d + 1] of the places of an image's entries, from -1 to 1, and 1."""
    size = [int(n) for n in body.constant(1, "size").reshape(-1)][2:]
    aligned = bool(body.integer("align_corners"))
    lines = [_from_end_to_end(extent, aligned=aligned) for extent in size]
    places = [*np.meshgrid(*lines, indexing="ij")][::-1]
    homogeneous = np.stack([*(each.ravel() for each in places), np.ones(prod(size))])
    made = body.node("MatMul", "i0", body.weight(homogeneous.astype(body.dtype(0))))
    batch, rank = body.shape(0)[0], len(size)
    return (body.reshaped(body.transposed(made, 0, 2, 1), batch, *size, rank),)


def _from_end_to_end(extent: int, *, aligned: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    end = 1.0 if aligned else 1 - 1 / extent
    if aligned and extent == 1:
        return np.zeros(1)
    return np.linspace(-end, end, extent)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "AffineGrid": _affine_grid,
    "GridSample": _grid_sample,
}
