"""Networks of random weights, and what onnxruntime's own quantiser makes of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime import quantization

Feeds = Mapping[str, NDArray[Any]]
OPSET = 17
EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Extents of an encoder of sentences as MiniLM is one."""

    tokens: int = 16
    hidden: int = 32
    heads: int = 2
    inner: int = 64
    layers: int = 2
    vocabulary: int = 50


class _Writing:
    """A network that grows; methods answer the name of the value that they add."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = np.random.default_rng(seed)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, entries: NDArray[Any]) -> str:
        name = f"weight.{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(entries, name))
        return name

    def drawn(self, *shape: int, scale: float) -> str:
        drawn = self._random.standard_normal(shape) * scale
        return self.constant(drawn.astype(np.float32))

    def linear(self, x: str, inner: int, outer: int) -> str:
        product = self.node("MatMul", x, self.drawn(inner, outer, scale=inner**-0.5))
        return self.node("Add", self.drawn(outer, scale=0.1), product)

    def norm(self, x: str, extent: int) -> str:
        gamma = self.constant(self._random.uniform(0.5, 1.5, extent).astype(np.float32))
        beta = self.drawn(extent, scale=0.1)
        return self.node("LayerNormalization", x, gamma, beta, epsilon=EPSILON)

    def gelu(self, x: str) -> str:
        half, root = (self.constant(np.array(n, np.float32)) for n in (0.5, 2**-0.5))
        one = self.constant(np.ones((), np.float32))
        error = self.node("Erf", self.node("Mul", x, root))
        return self.node("Mul", self.node("Mul", x, self.node("Add", error, one)), half)

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(np.array(shape, np.int64)))

    def model(self, inputs: Mapping[str, tuple[int, tuple[int, ...]]], output: str) -> ModelProto:
        """`inputs` are element types and shapes by name."""
        given = [helper.make_tensor_value_info(name, *each) for name, each in inputs.items()]
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", given, [made], self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def encoder(extents: Encoder = Encoder(), seed: int = 0) -> ModelProto:
    """A transformer as MiniLM is one, over tokens with a mask."""
    made, e = _Writing(seed), extents
    table = made.drawn(e.vocabulary, e.hidden, scale=1.0)
    x = made.norm(made.node("Gather", table, "tokens"), e.hidden)
    kept = made.node("Cast", "mask", to=TensorProto.FLOAT)
    hidden = made.node("Sub", made.constant(np.ones((), np.float32)), kept)
    far = made.node("Mul", hidden, made.constant(np.array(-1e4, np.float32)))
    mask = made.shaped(far, 1, 1, 1, e.tokens)
    for _ in range(e.layers):
        q, k, v = (_heads(made, made.linear(x, e.hidden, e.hidden), e) for _ in range(3))
        root = made.constant(np.array((e.hidden / e.heads) ** 0.5, np.float32))
        turned = made.node("Transpose", k, perm=[0, 1, 3, 2])
        scores = made.node("Div", made.node("MatMul", q, turned), root)
        shares = made.node("Softmax", made.node("Add", scores, mask), axis=-1)
        seen = made.node("Transpose", made.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        together = made.shaped(seen, 1, e.tokens, e.hidden)
        x = made.norm(made.node("Add", made.linear(together, e.hidden, e.hidden), x), e.hidden)
        wide = made.gelu(made.linear(x, e.hidden, e.inner))
        x = made.norm(made.node("Add", made.linear(wide, e.inner, e.hidden), x), e.hidden)
    shape = (1, e.tokens)
    return made.model({"tokens": (TensorProto.INT64, shape), "mask": (TensorProto.INT64, shape)}, x)


def _heads(made: _Writing, x: str, e: Encoder) -> str:
    apart = made.shaped(x, 1, e.tokens, e.heads, e.hidden // e.heads)
    return made.node("Transpose", apart, perm=[0, 2, 1, 3])


def convolutional(side: int = 12, seed: int = 1) -> ModelProto:
    """Two convolutions, one of which is 1 × 1, a mean over each channel, and a product."""
    made = _Writing(seed)
    x = made.node(
        "Conv", "image", made.drawn(8, 3, 3, 3, scale=0.3), made.drawn(8, scale=0.1),
        pads=[1, 1, 1, 1], strides=[2, 2],
    )  # fmt: skip
    x = made.node("Relu", x)
    x = made.node("Relu", made.node("Conv", x, made.drawn(16, 8, 1, 1, scale=0.4)))
    x = made.node("Flatten", made.node("GlobalAveragePool", x))
    weights, bias = made.drawn(12, 16, scale=0.25), made.drawn(12, scale=0.1)
    y = made.node("Gemm", x, weights, bias, transB=1)
    return made.model({"image": (TensorProto.FLOAT, (1, 3, side, side))}, y)


def feeds_of(model: ModelProto, seed: int = 5) -> dict[str, NDArray[Any]]:
    """Tokens, masks that leave out an end, and normally distributed numbers."""
    random = np.random.default_rng(seed)
    feeds: dict[str, NDArray[Any]] = {}
    for each in model.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        if each.name == "tokens":
            feeds[each.name] = random.integers(0, 50, shape)
        elif each.name == "mask":
            mask = np.ones(shape, np.int64)
            mask[..., -2:] = 0
            feeds[each.name] = mask
        else:
            feeds[each.name] = random.standard_normal(shape).astype(np.float32)
    return feeds


def dynamic(model: ModelProto, folder: Path, **options: Any) -> Path:
    """The file that `quantize_dynamic` makes."""
    return _quantised(model, folder, quantization.quantize_dynamic, **options)


def static(model: ModelProto, folder: Path, **options: Any) -> Path:
    """The file that `quantize_static` makes, with some inputs that tell it ranges."""
    options = {"calibration_data_reader": _Calibration(model), **options}
    return _quantised(model, folder, quantization.quantize_static, **options)


def _quantised(
    model: ModelProto, folder: Path, quantise: Callable[..., None], **options: Any
) -> Path:
    plain, made = folder / "plain.onnx", folder / "quantised.onnx"
    plain.write_bytes(model.SerializeToString())
    quantise(plain, made, **options)
    return made


class _Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, model: ModelProto) -> None:
        self._feeds: Iterator[Feeds] = (feeds_of(model, seed) for seed in range(20, 24))

    def get_next(self) -> Feeds | None:
        return next(self._feeds, None)


def by_onnxruntime(path: Path, feeds: Feeds) -> NDArray[np.float32]:
    """The first output, as onnxruntime computes it on a processor."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: NDArray[np.float32] = session.run(None, dict(feeds))[0]
    return found
