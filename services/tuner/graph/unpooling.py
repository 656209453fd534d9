"""Entries laid back to the places that a maximum was taken from, in ONNX's other operators."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from services.tuner.graph.functions import Body


def _max_unpool(body: Body) -> tuple[str, ...]:
    """Places count in the image that the windows cover; a shape that is asked for is larger."""
    image = body.shape(0)
    size = tuple(body.value("kernel_shape"))
    rank = len(size)
    stride = tuple(body.value("strides") or (1,) * rank)
    pads = tuple(body.value("pads") or (0,) * 2 * rank)
    covered = (
        *image[:2],
        *(
            (n - 1) * step - before - after + window
            for n, step, window, before, after in zip(
                image[2:], stride, size, pads[:rank], pads[rank:], strict=True
            )
        ),
    )
    nothing = body.weight(np.zeros(prod(covered), body.dtype(0)))
    places, entries = (body.reshaped(name, -1) for name in ("i1", "i0"))
    laid = body.node("ScatterElements", nothing, places, entries, axis=0)
    made = body.reshaped(laid, *covered)
    if not body.has(2):
        return (made,)
    asked = body.constant(2, "shape").reshape(-1)
    behind = (int(n) - m for n, m in zip(asked, covered, strict=True))
    return (body.node("Pad", made, body.integers(*(0,) * len(covered), *behind)),)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {"MaxUnpool": _max_unpool}
