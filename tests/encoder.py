"""A transformer encoder of two open axes, in the operators that exporters of PyTorch write."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 17
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
AXES = ("batch", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """MiniLM has 6 layers of 384 entries, 12 heads and a vocabulary of 30,522."""

    layers: int = 2
    width: int = 48
    heads: int = 4
    inner: int = 96
    vocabulary: int = 61
    positions: int = 64
    embeds: bool = False
    """Adds what sentence-transformers does: the mean of what no mask leaves out, of length 1."""

    def model(self) -> ModelProto:
        return _Writer(self).model()

    def feeds(self, length: int, seed: int = 0, batch: int = 1) -> dict[str, NDArray[np.int64]]:
        """Tokens of any text; the last fifth of it is padding."""
        random = np.random.default_rng(seed)
        shape = (batch, length)
        mask = np.ones(shape, np.int64)
        mask[:, length - length // 5 :] = 0
        tokens = random.integers(0, self.vocabulary, shape)
        return dict(zip(INPUTS, (tokens, mask, random.integers(0, 2, shape)), strict=True))


class _Writer:
    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._random = np.random.default_rng(1)
        self._nodes: list[NodeProto] = []
        self._weights: list[TensorProto] = []

    def _weight(self, entries: NDArray[np.generic]) -> str:
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(entries, name))
        return name

    def _drawn(self, *shape: int, scale: float = 0.1, shift: float = 0.0) -> str:
        drawn = self._random.standard_normal(shape) * scale + shift
        return self._weight(drawn.astype(np.float32))

    def _integers(self, *values: int) -> str:
        return self._weight(np.array(values, np.int64))

    def _number(self, value: float) -> str:
        return self._weight(np.array(value, np.float32))

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def _extent(self, axis: int) -> str:
        shape = self._node("Shape", "input_ids")
        return self._node("Gather", shape, self._weight(np.array(axis, np.int64)), axis=0)

    def _reshaped(self, x: str, *inner: int) -> str:
        """x as [batch, sequence, …]: the shape is put together of those of inputs."""
        extents = [self._node("Unsqueeze", self._extent(n), self._integers(0)) for n in (0, 1)]
        shape = self._node("Concat", *extents, self._integers(*inner), axis=0)
        return self._node("Reshape", x, shape)

    def _dense(self, x: str, k: int, n: int) -> str:
        product = self._node("MatMul", x, self._drawn(k, n))
        return self._node("Add", self._drawn(n), product)

    def _norm(self, x: str) -> str:
        width = self._encoder.width
        gamma, beta = self._drawn(width, shift=1.0), self._drawn(width)
        return self._node("LayerNormalization", x, gamma, beta, axis=-1, epsilon=1e-12)

    def _gelu(self, x: str) -> str:
        grown = self._node("Erf", self._node("Div", x, self._number(2**0.5)))
        half = self._node("Mul", x, self._node("Add", grown, self._number(1)))
        return self._node("Mul", half, self._number(0.5))

    def _embedded(self) -> str:
        of = self._encoder
        words = self._node("Gather", self._drawn(of.vocabulary, of.width), "input_ids")
        kinds = self._node("Gather", self._drawn(2, of.width), "token_type_ids")
        numbers = self._weight(np.arange(of.positions, dtype=np.int64)[None])
        end = self._node("Unsqueeze", self._extent(1), self._integers(0))
        own = self._node("Slice", numbers, self._integers(0), end, self._integers(1))
        places = self._node("Gather", self._drawn(of.positions, of.width), own)
        return self._norm(self._node("Add", self._node("Add", words, kinds), places))

    def _mask(self) -> str:
        """[batch, 1, 1, sequence]: 0 for what counts, the least f32 for padding."""
        mask = self._node("Unsqueeze", "attention_mask", self._integers(1, 2))
        left_out = self._node("Sub", self._number(1), self._node("Cast", mask, to=1))
        return self._node("Mul", left_out, self._number(float(np.finfo(np.float32).min)))

    def _attention(self, x: str, mask: str) -> str:
        of = self._encoder
        wide = of.width // of.heads
        q, k, v = (
            self._node(
                "Transpose",
                self._reshaped(self._dense(x, of.width, of.width), of.heads, wide),
                perm=perm,
            )
            for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        )
        scores = self._node("Div", self._node("MatMul", q, k), self._number(wide**0.5))
        shares = self._node("Softmax", self._node("Add", scores, mask), axis=-1)
        mixed = self._node("Transpose", self._node("MatMul", shares, v), perm=(0, 2, 1, 3))
        return self._dense(self._reshaped(mixed, of.width), of.width, of.width)

    def _embedding(self, x: str) -> str:
        """[batch, width], as PyTorch's exporter writes mean pooling and normalize."""
        column = self._node("Unsqueeze", "attention_mask", self._integers(-1))
        wide = self._node("Expand", column, self._node("Shape", x))
        counted = self._node("Cast", wide, to=1)
        along = self._integers(1)
        total = self._node("ReduceSum", self._node("Mul", x, counted), along, keepdims=0)
        count = self._node("ReduceSum", counted, along, keepdims=0)
        mean = self._node("Div", total, self._node("Clip", count, self._number(1e-9)))
        length = self._node("ReduceL2", mean, axes=[1], keepdims=1)
        some = self._node("Clip", length, self._number(1e-12))
        return self._node("Div", mean, self._node("Expand", some, self._node("Shape", mean)))

    def model(self) -> ModelProto:
        of, mask = self._encoder, self._mask()
        x = self._embedded()
        for _ in range(of.layers):
            x = self._norm(self._node("Add", self._attention(x, mask), x))
            inner = self._gelu(self._dense(x, of.width, of.inner))
            x = self._norm(self._node("Add", self._dense(inner, of.inner, of.width), x))
        pooled = self._node("Gather", x, self._weight(np.array(0, np.int64)), axis=1)
        made = {
            "last_hidden_state": (x, (*AXES, of.width)),
            "pooled": (pooled, ("batch", of.width)),
        }
        if of.embeds:
            made["sentence_embedding"] = (self._embedding(x), ("batch", of.width))
        for name, (value, _) in made.items():
            self._nodes.append(helper.make_node("Identity", [value], [name], name))
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, AXES) for name in INPUTS],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, (_, shape) in made.items()
            ],
            self._weights,
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)
