"""A network of images in TensorFlow.js's own operators, in the order of the ONNX file.

TensorFlow's converter cannot be installed by a lock (see the README), so that its steps are written
here, with what it does for speed: channels last, biases and activations fused into convolutions. A
network with other operators than these has no such form.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.reading import OnnxModel, read_model

Activation = Literal["linear", "relu", "relu6"]


class StoredWeight(msgspec.Struct, frozen=True, kw_only=True):
    """Entries from `offset`, counted in float32."""

    offset: int
    shape: tuple[int, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Mirrors the steps of `page/src/models/tensorflow-session.ts`."""

    operator: Literal["conv", "depthwise", "add", "maxPool", "mean", "product"]
    inputs: tuple[str, ...]
    output: str
    weights: tuple[StoredWeight, ...] = ()
    stride: int = 1
    pad: int = 0
    window: int = 1
    activation: Activation = "linear"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFlowNetwork:
    steps: tuple[Step, ...]
    weights: NDArray[np.float32]


def tensorflow_network(onnx: Path) -> TensorFlowNetwork | None:
    """None for a network that has other operators or forms of them."""
    try:
        model = read_model(onnx)
        return _Writer(model).network()
    except (UnsupportedModel, _NoForm):
        return None


class _NoForm(Exception):
    pass


class _Writer:
    """Owns the weights that it has written, and the steps so far by what they make."""

    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        self._constants = dict(model.weights)
        self._readers = Counter(name for node in model.graph.node for name in node.input)
        self._entries: list[NDArray[np.float32]] = []
        self._size = 0
        self._steps: dict[str, Step] = {}

    def network(self) -> TensorFlowNetwork:
        for node in self._model.graph.node:
            write = _OPERATORS.get(node.op_type)
            if write is None:
                raise _NoForm
            write(self, node)
        steps = tuple(self._steps.values())
        return TensorFlowNetwork(steps=steps, weights=np.concatenate(self._entries))

    def constant(self, node: NodeProto) -> None:
        ((_, value),) = _attributes(node).items()
        self._constants[node.output[0]] = np.asarray(numpy_helper.to_array(value))

    def conv(self, node: NodeProto) -> None:
        of = _attributes(node)
        kernel = self._constants[node.input[1]]
        if kernel.ndim != 4:
            raise _NoForm
        outputs, inputs, height, width = kernel.shape
        group = of.get("group", 1)
        pads, strides = of.get("pads", [0] * 4), of.get("strides", [1, 1])
        plain = height == width and len(set(pads)) == len(set(strides)) == 1
        depthwise = group == outputs and inputs == 1
        if not plain or set(of.get("dilations", [1])) != {1} or not (depthwise or group == 1):
            raise _NoForm
        # OIHW, to height, width, inputs, outputs, or multiples of each input.
        order = (2, 3, 0, 1) if depthwise else (2, 3, 1, 0)
        self._add(
            node,
            operator="depthwise" if depthwise else "conv",
            weights=(self._stored(kernel.transpose(order)), self._stored(self._bias(node))),
            stride=strides[0],
            pad=pads[0],
        )

    def max_pool(self, node: NodeProto) -> None:
        of = _attributes(node)
        settings = [of.get(name, [default]) for name, default in _POOL.items()]
        if of.get("ceil_mode", 0) or any(len(set(each)) > 1 for each in settings):
            raise _NoForm
        window, stride, pad = (each[0] for each in settings)
        self._add(node, operator="maxPool", window=window, stride=stride, pad=pad)

    def gemm(self, node: NodeProto) -> None:
        of = _attributes(node)
        plain = of.get("alpha", 1.0) == of.get("beta", 1.0) == 1.0 and not of.get("transA", 0)
        if not plain:
            raise _NoForm
        b = self._constants[node.input[1]]
        weights = (self._stored(b.T if of.get("transB", 0) else b), self._stored(self._bias(node)))
        self._add(node, operator="product", weights=weights)

    def add(self, node: NodeProto) -> None:
        if any(name in self._constants for name in node.input):
            raise _NoForm
        self._add(node, operator="add", inputs=tuple(node.input))

    def mean(self, node: NodeProto) -> None:
        self._add(node, operator="mean")

    def flatten(self, node: NodeProto) -> None:
        """The mean of each channel has no rows and columns left."""
        step = self._made(node)
        if step.operator != "mean":
            raise _NoForm
        self._pass_on(node, step)

    def relu(self, node: NodeProto) -> None:
        self._activate(node, "relu")

    def clip(self, node: NodeProto) -> None:
        if [float(self._constants[name]) for name in node.input[1:]] != [0.0, 6.0]:
            raise _NoForm
        self._activate(node, "relu6")

    def _activate(self, node: NodeProto, activation: Activation) -> None:
        step = self._made(node)
        if self._readers[node.input[0]] > 1 or step.activation != "linear":
            raise _NoForm
        self._pass_on(node, msgspec.structs.replace(step, activation=activation))

    def _made(self, node: NodeProto) -> Step:
        step = self._steps.get(node.input[0])
        if step is None:
            raise _NoForm
        return step

    def _pass_on(self, node: NodeProto, step: Step) -> None:
        """The step that made the node's input makes its output in its place."""
        del self._steps[node.input[0]]
        self._steps[node.output[0]] = msgspec.structs.replace(step, output=node.output[0])

    def _add(self, node: NodeProto, **settings: Any) -> None:
        given: dict[str, Any] = {"inputs": tuple(node.input[:1]), **settings}
        self._steps[node.output[0]] = Step(output=node.output[0], **given)

    def _bias(self, node: NodeProto) -> NDArray[Any]:
        if len(node.input) < 3:
            raise _NoForm
        return self._constants[node.input[2]]

    def _stored(self, entries: NDArray[Any]) -> StoredWeight:
        flat = np.ascontiguousarray(entries, np.float32).reshape(-1)
        stored = StoredWeight(offset=self._size, shape=entries.shape)
        self._entries.append(flat)
        self._size += flat.size
        return stored


_OPERATORS: Mapping[str, Any] = {
    "Constant": _Writer.constant,
    "Conv": _Writer.conv,
    "MaxPool": _Writer.max_pool,
    "Gemm": _Writer.gemm,
    "Add": _Writer.add,
    "GlobalAveragePool": _Writer.mean,
    "Flatten": _Writer.flatten,
    "Relu": _Writer.relu,
    "Clip": _Writer.clip,
}


_POOL = {"kernel_shape": 1, "strides": 1, "pads": 0}
"""Attributes of pooling, with what they are where they are left out."""


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}
