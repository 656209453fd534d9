"""Makes products with constant weights products of bytes, as onnxruntime's `quantize_dynamic` does:
activations by their range in each run, weights by a scale for each column.

    y = MatMul (x, w)        bytes, s, z = DynamicQuantizeLinear (x)
                             y = Mul (Cast (ByteMatMul (bytes, codes, z)), Mul (s, scales))

Convolutions multiply bytes, too, by ranges that inputs tell (quantising_images.py).

Products that lose most stay as they are until outputs keep to a stated error. What each loses by
itself is seen with the activations of the golden inputs, or of inputs that say what the network is
for; how many may be quantised is found by bisection, so that a network is evaluated about log2 of
its products times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from kernelzoo.domain.operators.integer_products import PER_WORD
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.byte_images import is_convolution
from services.tuner.graph.evaluate import computed, evaluate
from services.tuner.graph.golden import GoldenFile, golden_file
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.importing import graph_of
from services.tuner.graph.network import Network, Step, TensorType
from services.tuner.graph.quantising_images import (
    MOST,
    STEPS,
    Feeds,
    Range,
    Ranges,
    before_activation,
    filters_of,
    images_of,
    ranges_of,
    rounded,
)
from services.tuner.graph.storing import output_error

FLOAT, BYTE, CODE, WHOLE = (np.dtype(t) for t in (np.float32, np.uint8, np.int8, np.int32))
Labels = frozenset[str]


class Metric(StrEnum):
    """Measures how far outputs are apart: by the furthest entry, of the largest magnitude, or by
    what the cosine between both lacks to 1. Of several outputs the worst counts."""

    LARGEST = "largest"
    COSINE = "cosine"

    def apart(
        self,
        found: Mapping[str, NDArray[Any]],
        right: Mapping[str, NDArray[Any]],
        off: Mapping[str, int],
    ) -> float:
        """`off`: entries of each output that rounding may decide, of which the furthest are left
        out. NaN where an output has NaN."""
        if self is Metric.LARGEST:
            return output_error(found, right, off)
        return float(np.max([1 - _cosine(found[name], each) for name, each in right.items()]))

    def told(self, error: float) -> str:
        """A difference as the end of a sentence."""
        if self is Metric.LARGEST:
            return f"differ by more than {error:.2g} of their largest magnitude"
        return f"have a cosine with those of f32 that lacks more than {error:.2g} to 1"


def _cosine(found: NDArray[Any], right: NDArray[Any]) -> float:
    """1 where both are 0."""
    x, y = (np.asarray(each, np.float64).ravel() for each in (found, right))
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size else float(not x.any() and not y.any())


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedModel:
    """Products and convolutions of the labels `quantised` multiply bytes. Those of `left` stay f32,
    each with the share of its magnitude that it would lose. `error` is that of the golden outputs,
    of the largest magnitude of each, `apart` how far those outputs are that decided, by what was
    asked for."""

    graphs: tuple[Graph, ...]
    golden: tuple[GoldenFile, ...]
    quantised: Labels
    left: Mapping[str, float]
    error: float
    apart: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Outputs may be so far from those of f32, by a metric, with some `feeds` for each network in
    the place of the golden inputs. Images have the ranges of these feeds; without any they have
    those of each run."""

    max_error: float
    metric: Metric = Metric.LARGEST
    feeds: Sequence[Sequence[Feeds]] = ()


def quantised_model(
    networks: Sequence[Network],
    graphs: Sequence[Graph],
    golden: Sequence[GoldenFile],
    bound: Bound,
) -> QuantisedModel:
    """`graphs` are those of the networks, `golden` their golden files. Raises InvalidInput where a
    network has no product that may be quantised, or where none keeps to the bound."""
    judged = [[_Judged(each.feeds, each.outputs, each.off)] for each in golden]
    ranges: list[Ranges | None] = [None for _ in networks]
    if bound.feeds:
        judged = [
            [_Judged(feeds, evaluate(graph, feeds), {}) for feeds in every]
            for graph, every in zip(graphs, bound.feeds, strict=True)
        ]
        ranges = [_ranges(*each) for each in zip(networks, bound.feeds, strict=True)]
    losses = _losses(networks[0], graphs[0], judged[0][0].feeds, fixed=bool(bound.feeds))
    if not losses:
        raise InvalidInput(
            "the model has nothing with constant weights that could be quantised: products of "
            f"MatMul and Gemm with lines of a multiple of {PER_WORD}, and convolutions of so many "
            "channels; leave --quantize out"
        )
    order = sorted(losses, key=lambda label: losses[label])

    def tried(count: int) -> tuple[tuple[Graph, ...], float]:
        labels = frozenset(order[:count])
        pairs = zip(networks, ranges, strict=True)
        made = tuple(graph_of(quantised(each, labels, known)) for each, known in pairs)
        errors = [
            bound.metric.apart(evaluate(graph, each.feeds), each.right, each.off)
            for graph, every in zip(made, judged, strict=True)
            for each in every
        ]
        return made, float(np.max(errors))

    count, (made, apart) = _most(len(order), tried, bound.max_error)
    if not count:
        which = "outputs of these inputs" if bound.feeds else "golden outputs"
        raise InvalidInput(
            f"with any product quantised the {which} {bound.metric.told(bound.max_error)}; allow "
            "more by --max-error, or leave --quantize out"
        )
    pairs = zip(made, golden, strict=True)
    error = float(
        np.max([output_error(evaluate(each, g.feeds), g.outputs, g.off) for each, g in pairs])
    )
    pairs = zip(made, golden, strict=True)
    files = (golden_file(graph, right.feeds) for graph, right in pairs)
    return QuantisedModel(
        graphs=made,
        golden=tuple(
            replace(each, golden=replace(each.golden, storage_error=error)) for each in files
        ),
        quantised=frozenset(order[:count]),
        left={label: losses[label] for label in order[count:]},
        error=error,
        apart=apart,
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """Outputs of f32 for some inputs; of each so many entries may be `off`."""

    feeds: Feeds
    right: Feeds
    off: Mapping[str, int]


def _ranges(network: Network, feeds: Sequence[Feeds]) -> Ranges:
    """The ranges of all images that may be bytes."""
    labels = (
        step.label for step in network.steps if filters_of(network, step, fixed=True) is not None
    )
    return ranges_of(network, images_of(network, frozenset(labels)), feeds)


Tried = tuple[tuple[Graph, ...], float]


def _most(count: int, tried: Callable[[int], Tried], max_error: float) -> tuple[int, Tried]:
    """The most products, those first that lose least, of which the error is allowed."""
    best = tried(count)
    if best[1] <= max_error:
        return count, best
    held, refused = 0, count
    while refused - held > 1:
        middle = (held + refused) // 2
        some = tried(middle)
        if some[1] <= max_error:
            held, best = middle, some
        else:
            refused = middle
    return held, best


def quantised(network: Network, labels: Labels, ranges: Ranges | None = None) -> Network:
    """The network with the products and convolutions of these labels quantised, images by their
    `ranges`, or those of each run; what several read is quantised once."""
    writing = _Writing(network, ranges)
    images = frozenset(images_of(network, labels) if ranges is not None else ())
    for step in network.steps:
        if step.label in labels and weights_of(network, step) is not None:
            writing.product(step)
        elif (
            step.label in labels
            and (filters := filters_of(network, step, fixed=ranges is not None)) is not None
        ):
            writing.convolution(step, filters)
        elif step.operator == "Add" and images.issuperset(step.inputs):
            writing.sum_of_images(step)
        else:
            writing.steps.append(step)
    return replace(
        network,
        types=writing.types,
        constants=writing.constants,
        steps=tuple(writing.steps),
    )


def weights_of(network: Network, step: Step) -> NDArray[np.float32] | None:
    """The constant weights [k, n] of a product that may be quantised."""
    if step.operator not in ("MatMul", "Gemm") or len(step.inputs) < 2:
        return None
    held = network.constants.get(step.inputs[1])
    plain = step.operator == "MatMul" or (
        step.attributes.get("alpha", 1.0) == step.attributes.get("beta", 1.0) == 1.0
        and not step.attributes.get("transA")
    )
    is_read = step.inputs[0] not in network.constants and network.types[step.inputs[0]].shape
    if held is None or held.dtype != FLOAT or held.ndim != 2 or not plain or not is_read:
        return None
    weights = held.T if step.attributes.get("transB") else held
    whole = weights.shape[0] % PER_WORD == 0 and np.isfinite(weights).all()
    return np.asarray(weights, np.float32) if whole else None


def codes_of(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Whole numbers of steps, and the step of each column."""
    largest = np.abs(weights).max(axis=0)
    scales = np.where(largest > 0, largest / np.float32(STEPS), 1).astype(np.float32)
    return np.rint(weights / scales).astype(np.int8), scales


class _Writing:
    """The steps so far."""

    def __init__(self, network: Network, ranges: Ranges | None = None) -> None:
        self.types = dict(network.types)
        self.constants = dict(network.constants)
        self.steps: list[Step] = []
        self._network = network
        self._ranges = ranges
        self._read: dict[str, tuple[str, str, str]] = {}
        self._images: dict[str, str] = {}

    def product(self, step: Step) -> None:
        weights = weights_of(self._network, step)
        assert weights is not None
        codes, scales = codes_of(weights)
        bytes_, scale, zero = self._quantised(step)
        shape = self.types[step.outputs[0]].shape
        held = self._constant(step, "codes", codes)
        sums = self._step(step, "ByteMatMul", (bytes_, held, zero), WHOLE, shape)
        real = self._step(step, "Cast", (sums,), FLOAT, shape, to=TensorProto.FLOAT)
        row = self._constant(step, "scales", scales)
        both = self._step(step, "Mul", (scale, row), FLOAT, scales.shape)
        bias = step.inputs[2] if len(step.inputs) > 2 else ""
        if bias:
            scaled = self._step(step, "Mul", (real, both), FLOAT, shape)
            self.steps.append(
                replace(step, operator="Add", inputs=(scaled, bias), attributes={}, version=14)
            )
        else:
            self.steps.append(
                replace(step, operator="Mul", inputs=(real, both), attributes={}, version=14)
            )

    def convolution(self, step: Step, filters: NDArray[np.float32]) -> None:
        held = self._constant(step, "filters", rounded(filters, axis=0))
        image = self._image(step, step.inputs[0])
        self.steps.append(replace(step, inputs=(image, held, *step.inputs[2:])))

    def sum_of_images(self, step: Step) -> None:
        inputs = tuple(self._image(step, name) for name in step.inputs)
        self.steps.append(replace(step, inputs=inputs))

    def _image(self, step: Step, name: str) -> str:
        """The real numbers that the bytes of an image stand for."""
        if name not in self._images:
            shape = self.types[name].shape
            if self._ranges is None:
                bytes_, scale, zero = self._quantised(step)
            else:
                own = self._ranges[name]
                scale = self._constant(step, "scale", np.asarray(own.scale))
                zero = self._constant(step, "zero", np.asarray(own.zero))
                given = (before_activation(self._network, name, own), scale, zero)
                bytes_ = self._step(step, "QuantizeLinear", given, BYTE, shape, axis=1)
            given = (bytes_, scale, zero)
            self._images[name] = self._step(step, "DequantizeLinear", given, FLOAT, shape, axis=1)
        return self._images[name]

    def _quantised(self, step: Step) -> tuple[str, str, str]:
        """The bytes of what a product reads, their scale and their zero point."""
        name = step.inputs[0]
        if name not in self._read:
            made = (
                self._enter(f"{name}.bytes", BYTE, self.types[name].shape),
                self._enter(f"{name}.scale", FLOAT, ()),
                self._enter(f"{name}.zero", BYTE, ()),
            )
            self.steps.append(
                replace(
                    step,
                    operator="DynamicQuantizeLinear",
                    inputs=(name,),
                    outputs=made,
                    attributes={},
                )
            )
            self._read[name] = made
        return self._read[name]

    def _step(
        self,
        step: Step,
        operator: str,
        inputs: tuple[str, ...],
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        **attributes: int,
    ) -> str:
        name = self._enter(f"{step.outputs[0]}.{operator}", dtype, shape)
        self.steps.append(
            replace(
                step, operator=operator, inputs=inputs, outputs=(name,), attributes=attributes,
                version=14,
            )
        )  # fmt: skip
        return name

    def _constant(self, step: Step, what: str, entries: NDArray[Any]) -> str:
        name = self._enter(f"{step.outputs[0]}.{what}", entries.dtype, entries.shape)
        self.constants[name] = entries
        return name

    def _enter(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
        while name in self.types:
            name += "'"
        self.types[name] = TensorType(dtype, shape)
        return name


def _losses(network: Network, graph: Graph, feeds: Feeds, *, fixed: bool) -> dict[str, float]:
    """The share of its magnitude that each product or convolution loses by itself, by its label;
    images have `fixed` ranges or those of each run."""
    steps = {step.label: step for step in network.steps}
    weights = {
        label: held
        for label, step in steps.items()
        if (held := weights_of(network, step)) is not None
    }
    images = {
        label for label, step in steps.items() if filters_of(network, step, fixed=fixed) is not None
    }
    roots: dict[str, str] = {}
    read: dict[str, list[str]] = {}
    convolutions: dict[str, list[Node]] = {}
    for node in graph.nodes:
        source = roots.get(node.inputs[0], node.inputs[0]) if node.inputs else ""
        if isinstance(node.op, View):
            roots[node.output] = source
        elif isinstance(node.op, Workload) and node.label in weights:
            read.setdefault(source, []).append(node.label)
        elif is_convolution(node) and node.label in images:
            convolutions.setdefault(node.inputs[0], []).append(node)
    losses: dict[str, float] = {}

    def look(name: str, entries: NDArray[Any]) -> None:
        for label in read.get(name, ()):
            losses[label] = _loss(entries, weights[label])
        for node in convolutions.get(name, ()):
            losses[node.label] = _loss_of_image(graph, node, entries)

    def seen(node: Node, entries: NDArray[Any]) -> NDArray[Any]:
        look(node.output, entries)
        return entries

    for port in graph.inputs:
        look(port.value, np.asarray(feeds[port.name]))
    evaluate(graph, feeds, seen=seen)
    return losses


def _loss(entries: NDArray[Any], weights: NDArray[np.float32]) -> float:
    x = np.asarray(entries, np.float32).reshape(-1, weights.shape[0])
    codes, scales = codes_of(weights)
    return _apart(_near(x) @ (codes * scales), x @ weights)


def _loss_of_image(graph: Graph, node: Node, entries: NDArray[Any]) -> float:
    filters = np.asarray(graph.constants[node.inputs[1]], np.float32)
    x = np.asarray(entries, np.float32)
    right, near = (
        computed(node.op, (image, held), graph.values[node.output].shape)
        for image, held in ((x, filters), (_near(x), rounded(filters, axis=-1)))
    )
    return _apart(near, right)


def _near(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns what the bytes of these entries stand for, by their own range."""
    own = Range(min(0.0, float(x.min())), max(0.0, float(x.max())))
    zero = np.float32(own.zero)
    bytes_ = np.clip(np.rint(x / own.scale) + zero, 0, MOST)
    return np.asarray((bytes_ - zero) * own.scale, np.float32)


def _apart(found: NDArray[Any], right: NDArray[Any]) -> float:
    size = float(np.linalg.norm(right))
    return float(np.linalg.norm(found - right)) / size if size else 0.0
