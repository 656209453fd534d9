"""Writes the network of this example: `python write.py encoder.onnx`.

It is a text encoder of the size of MiniLM-L6 whose weights are made by a seed.

It has learnt nothing. Its layers keep the variance of what they read, so that the output follows
the input and a comparison of outputs says something.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

NAME = "encoder"
SEED = 16
WORDS = 2000
SEQUENCE = 128
WIDTH = 384
HEADS = 12
INNER = 1536
LAYERS = 6
OPSET = 20

Array = NDArray[np.float32]


def write_network(path: Path) -> None:
    """`input_ids`, int64 [1, 128], to `last_hidden_state`, float32 [1, 128, 384]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(_Encoder().model(), path)


class _Encoder:
    """Collects nodes and weights while it writes layer after layer."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(SEED)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, NDArray[np.generic]] = {}

    def model(self) -> onnx.ModelProto:
        words = self._normal("words", (WORDS, WIDTH), 1.0)
        places = self._normal("places", (1, SEQUENCE, WIDTH), 0.3)
        x = self._norm(self._add("Gather", words, "input_ids"), places)
        for layer in range(LAYERS):
            x = self._layer(f"layer{layer}", x)
        self._nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
        shape = [1, SEQUENCE]
        graph = helper.make_graph(
            self._nodes,
            NAME,
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape)],
            [
                helper.make_tensor_value_info(
                    "last_hidden_state", TensorProto.FLOAT, [*shape, WIDTH]
                )
            ],
            [numpy_helper.from_array(values, name) for name, values in self._weights.items()],
        )
        opset = helper.make_opsetid("", OPSET)
        made = helper.make_model(graph, opset_imports=[opset], ir_version=9)
        onnx.checker.check_model(made)
        return made

    def _layer(self, name: str, x: str) -> str:
        query, key, value = (self._linear(f"{name}.{each}", x, WIDTH, WIDTH) for each in "qkv")
        scores = self._add("MatMul", self._split(query), self._split(key, "keys"))
        scaled = self._add("Mul", scores, self._scalar("scale", (WIDTH / HEADS) ** -0.5))
        shares = self._add("Softmax", scaled, axis=-1)
        read = self._add("MatMul", shares, self._split(value))
        turned = self._add("Transpose", read, perm=[0, 2, 1, 3])
        joined = self._add("Reshape", turned, self._shape("joined", 1, SEQUENCE, WIDTH))
        x = self._norm(self._linear(f"{name}.out", joined, WIDTH, WIDTH), x)
        inner = self._add("Gelu", self._linear(f"{name}.up", x, WIDTH, INNER))
        return self._norm(self._linear(f"{name}.down", inner, INNER, WIDTH), x)

    def _split(self, x: str, kind: str = "") -> str:
        """[1, n, heads · d] → [1, heads, n, d]; keys as [1, heads, d, n]."""
        parts = self._shape("heads", 1, SEQUENCE, HEADS, WIDTH // HEADS)
        order = [0, 2, 3, 1] if kind == "keys" else [0, 2, 1, 3]
        return self._add("Transpose", self._add("Reshape", x, parts), perm=order)

    def _linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        weight = self._normal(f"{name}.weight", (inputs, outputs), inputs**-0.5)
        product = self._add("MatMul", x, weight)
        return self._add("Add", product, self._normal(f"{name}.bias", (outputs,), 0.1))

    def _norm(self, x: str, other: str) -> str:
        """The norm of the sum."""
        number = len(self._nodes)
        gamma = self._normal(f"norm{number}.gamma", (WIDTH,), 0.1, mean=1.0)
        beta = self._normal(f"norm{number}.beta", (WIDTH,), 0.1)
        total = self._add("Add", x, other)
        return self._add("LayerNormalization", total, gamma, beta, axis=-1, epsilon=1e-5)

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def _normal(self, name: str, shape: tuple[int, ...], deviation: float, mean: float = 0) -> str:
        drawn = self._random.standard_normal(shape, dtype=np.float32)
        self._weights[name] = (mean + deviation * drawn).astype(np.float32)
        return name

    def _scalar(self, name: str, value: float) -> str:
        self._weights[name] = np.full((), value, np.float32)
        return name

    def _shape(self, name: str, *extents: int) -> str:
        self._weights[name] = np.array(extents, np.int64)
        return name


if __name__ == "__main__":
    write_network(Path(sys.argv[1]))
