"""Makes convolutions with constant filters convolutions of bytes: by ranges that are known, as
onnxruntime's `quantize_static` does, or else by those of each run.

    y = Conv (x, w, bias)        bytes = QuantizeLinear (x, s, z)
                                 y = Conv (DequantizeLinear (bytes, s, z), codes · scales, bias)

A sum whose output is such an image has bytes for operands, too, so that images go from layer to
layer as bytes. How they become products of bytes, byte_images.py says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators.integer_products import PER_WORD
from services.tuner.graph.byte_images import BLOCK
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.importing import graph_of
from services.tuner.graph.network import Network, Step, TensorType

STEPS = 127
"""Weights are whole numbers of at most so many steps to either side of zero."""
MOST = 255
RANK = 4
_AS_IT_IS = ("Relu", "Clip")
"""Activations that may stand between a sum and the image that is made of it."""

Feeds = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest entry, 0 among them."""

    least: float
    most: float

    @property
    def scale(self) -> np.float32:
        return np.float32((self.most - self.least) / MOST or 1.0)

    @property
    def zero(self) -> np.uint8:
        return np.uint8(np.clip(np.rint(-self.least / self.scale), 0, MOST))


Ranges = Mapping[str, Range]


def filters_of(network: Network, step: Step, *, fixed: bool) -> NDArray[np.float32] | None:
    """The constant filters [o, c, kh, kw] of a convolution that may multiply bytes. Those of
    channels that are kept apart do with `fixed` ranges alone, as only they make bytes then."""
    if step.operator != "Conv":
        return None
    held = network.constants.get(step.inputs[1])
    image = network.types[step.inputs[0]]
    if held is None or held.dtype != np.float32 or held.ndim != RANK or not np.isfinite(held).all():
        return None
    if step.inputs[0] in network.constants or len(image.shape) != RANK:
        return None
    channels, group = image.shape[1], step.attributes.get("group", 1)
    if group == 1:
        fits = channels % PER_WORD == 0 or channels < PER_WORD
    else:
        fits = fixed and group == channels == held.shape[0] and channels % BLOCK == 0
    return np.asarray(held, np.float32) if fits else None


def rounded(filters: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Filters that are whole numbers of steps, with a step for each place along an axis."""
    others = tuple(each for each in range(filters.ndim) if each != axis % filters.ndim)
    largest = np.abs(filters).max(axis=others, keepdims=True)
    scales = np.where(largest > 0, largest / np.float32(STEPS), 1).astype(np.float32)
    return np.asarray(np.rint(filters / scales) * scales, np.float32)


def images_of(network: Network, labels: frozenset[str]) -> tuple[str, ...]:
    """The values that are bytes where convolutions of these labels multiply them: what they read,
    and the operands of sums that are read so."""
    makers = network.makers
    found: dict[str, None] = {}
    for step in network.steps:
        if step.operator == "Conv" and step.label in labels:
            found[step.inputs[0]] = None
    for name in reversed(tuple(found)):
        made = _sum_of(makers, name)
        if made is not None and all(
            network.types[each].shape == network.types[name].shape and each in makers
            for each in made.inputs
        ):
            found |= dict.fromkeys(made.inputs)
    return tuple(found)


def _sum_of(makers: Mapping[str, Step], name: str) -> Step | None:
    """The sum of two images that an image is but for its activation."""
    maker = makers.get(name)
    while maker is not None and maker.operator in _AS_IT_IS:
        maker = makers.get(maker.inputs[0])
    return maker if maker is not None and maker.operator == "Add" else None


def before_activation(network: Network, name: str, own: Range) -> str:
    """The value of which the same bytes are made as of an activation from 0 on: bytes from 0 on,
    in steps from 0 to the largest, saturate where it does."""
    maker = network.makers.get(name)
    if maker is None or own.least < 0:
        return name
    if maker.operator == "Clip":
        ends = [network.constants.get(each) for each in maker.inputs[1:]]
        if len(ends) < 2 or ends[0] is None or ends[1] is None or ends[0] != 0:
            return name
        return maker.inputs[0] if float(ends[1]) >= own.most else name
    return maker.inputs[0] if maker.operator == "Relu" else name


def ranges_of(network: Network, names: Sequence[str], feeds: Sequence[Feeds]) -> dict[str, Range]:
    """The ranges that values have with these inputs."""
    if not names:
        return {}
    types, steps = dict(network.types), list(network.steps)
    outputs: list[tuple[str, str]] = []
    for name in names:
        for operator in ("ReduceMin", "ReduceMax"):
            end = f"{name}.{operator}"
            types[end] = TensorType(network.types[name].dtype, ())
            steps.append(
                Step(
                    operator=operator,
                    inputs=(name,),
                    outputs=(end,),
                    attributes={"keepdims": 0, "noop_with_empty_axes": 0},
                    version=18,
                )
            )
            outputs.append((end, end))
    graph = graph_of(replace(network, types=types, steps=tuple(steps), outputs=tuple(outputs)))
    ends = [evaluate(graph, each) for each in feeds]
    return {
        name: Range(
            least=min(0.0, *(float(each[f"{name}.ReduceMin"]) for each in ends)),
            most=max(0.0, *(float(each[f"{name}.ReduceMax"]) for each in ends)),
        )
        for name in names
    }
