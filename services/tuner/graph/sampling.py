"""Images read at the places of a grid, in ONNX's other operators."""

from collections.abc import Callable, Mapping

import numpy as np

from services.tuner.graph.functions import Body

LINEAR = ("bilinear", "linear")


def _grid_sample(body: Body) -> tuple[str, ...]:
    """An image [n, c, h, w] at the places [n, rows, columns, (x, y)] of a grid, from -1 to 1."""
    mode = body.text("mode", "linear")
    if len(body.shape(0)) != 4:
        raise body.refusal("it samples no images", "reshape its input to images")
    if mode not in (*LINEAR, "nearest"):
        raise body.refusal(f"it is {mode}", "export it with bilinear or nearest sampling")
    image = _Image(body)
    x, y = image.places(0), image.places(1)
    if mode == "nearest":
        return (image.arranged(image.at(*(body.node("Round", each) for each in (x, y)))),)
    one = body.number(1, like=1)
    left, top = (body.node("Floor", each) for each in (x, y))
    columns, rows = ((each, body.node("Add", each, one)) for each in (left, top))
    right_share, lower_share = (
        body.node("Sub", place, start) for place, start in ((x, left), (y, top))
    )
    parts = []
    for row, down in zip(rows, _shares(body, lower_share), strict=True):
        for column, across in zip(columns, _shares(body, right_share), strict=True):
            share = body.node("Mul", down, across)
            parts.append(body.node("Mul", image.at(column, row), share))
    return (image.arranged(body.node("Sum", *parts)),)


def _shares(body: Body, second: str) -> tuple[str, str]:
    """Those of two neighbours."""
    return body.node("Sub", body.number(1, like=1), second), second


class _Image:
    """Entries lie as [n, h · w, c], places as [n, rows · columns, 1]."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._batch, self._channels, *self._extents = body.shape(0)
        self._rows, self._columns = body.shape(1)[1:3]
        flat = body.reshaped("i0", self._batch, self._channels, -1)
        self._entries = body.transposed(flat, 0, 2, 1)
        self._outside = body.text("padding_mode", "zeros")

    def places(self, number: int) -> str:
        """x (0) or y (1) of the grid, in entries, within the image unless outside is 0."""
        body, extent = self._body, self._extents[1 - number]
        part = body.sliced("i1", 3, number, number + 1)
        part = body.reshaped(part, self._batch, self._rows * self._columns, 1)
        aligned = bool(body.integer("align_corners"))
        factor = (extent - 1) / 2 if aligned else extent / 2
        scaled = body.node("Mul", part, body.number(factor, like=1))
        place = body.node("Add", scaled, body.number((extent - 1) / 2, like=1))
        if self._outside == "reflection":
            edge = 0.0 if aligned else 0.5
            place = self._reflected(place, -edge, extent - 1 + edge)
        return place if self._outside == "zeros" else self._clipped(place, extent)

    def _reflected(self, place: str, least: float, most: float) -> str:
        """Back and forth between two ends: a triangle wave of the distance to the first."""
        body, span = self._body, most - least
        if span == 0:
            return body.node("Mul", place, body.number(0, like=1))
        start = body.number(least, like=1)
        distance = body.node("Abs", body.node("Sub", place, start))
        period = body.number(2 * span, like=1)
        turns = body.node("Floor", body.node("Div", distance, period))
        rest = body.node("Sub", distance, body.node("Mul", turns, period))
        back = body.node("Sub", period, rest)
        return body.node("Add", body.node("Min", rest, back), start)

    def _clipped(self, place: str, extent: int) -> str:
        ends = (self._body.number(end, like=1) for end in (0, extent - 1))
        return self._body.node("Clip", place, *ends)

    def at(self, x: str, y: str) -> str:
        """[n, rows · columns, c] at whole places."""
        body, (height, width) = self._body, self._extents
        inner = self._clipped(x, width), self._clipped(y, height)
        row_start = body.node("Mul", inner[1], body.number(width, like=1))
        index = body.node("Cast", body.node("Add", row_start, inner[0]), to=body.I64)
        found = body.node("GatherND", self._entries, index, batch_dims=1)
        if self._outside != "zeros":
            return found
        within = body.node(
            "And", *(body.node("Equal", a, b) for a, b in zip((x, y), inner, strict=True))
        )
        return body.node("Where", within, found, body.weight(np.zeros((), body.dtype(0))))

    def arranged(self, found: str) -> str:
        first = self._body.transposed(found, 0, 2, 1)
        shape = (self._batch, self._channels, self._rows, self._columns)
        return self._body.reshaped(first, *shape)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {"GridSample": _grid_sample}
