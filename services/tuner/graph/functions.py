"""Functions of ONNX's operators, written for one node whose shapes are known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper

from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.network import TO_CONSTANT, Array, TensorType
from services.tuner.graph.own_schemas import OWN_DOMAIN
from services.tuner.graph.reading import entries, told_node

OPSET = 24
"""The version of the operators that functions consist of."""


class Body:
    """A function in the making. Inputs of the node are called i0, i1, …"""

    F32 = TensorProto.FLOAT
    I32 = TensorProto.INT32
    I64 = TensorProto.INT64
    TEXT = TensorProto.STRING

    def __init__(
        self,
        node: NodeProto,
        types: Mapping[str, TensorType],
        constants: Mapping[str, Array],
        version: int,
    ) -> None:
        self.version = version
        """Version of ONNX's operators."""
        self._node = node
        self._types = [types[name] if name else None for name in node.input]
        self._constants = [constants.get(name) for name in node.input]
        self._nodes: list[NodeProto] = []
        self.weights: dict[str, Array] = {}
        """Constants by the names that nodes know them by; they may be large."""

    @property
    def inputs(self) -> int:
        return len(self._types)

    @property
    def outputs(self) -> int:
        return len(self._node.output)

    @property
    def attributes(self) -> tuple[AttributeProto, ...]:
        return tuple(self._node.attribute)

    def has(self, place: int) -> bool:
        return place < len(self._types) and self._types[place] is not None

    def _type(self, place: int) -> TensorType:
        found = self._types[place]
        if found is None:
            raise LookupError(f"input {place} is left out")
        return found

    def shape(self, place: int) -> tuple[int, ...]:
        return self._type(place).shape

    def dtype(self, place: int) -> np.dtype[Any]:
        return self._type(place).dtype

    def constant(self, place: int, what: str) -> Array:
        self._type(place)
        found = self._constants[place]
        if found is None:
            raise self.refusal(f"its {what} depends on inputs", TO_CONSTANT)
        return found

    def known(self, place: int) -> Array | None:
        """None where it is left out or depends on inputs."""
        return self._constants[place] if self.has(place) else None

    def value(self, name: str) -> Any:
        """None for an attribute that is left out."""
        found = next((each for each in self._node.attribute if each.name == name), None)
        return None if found is None else helper.get_attribute_value(found)

    def array(self, name: str) -> Array | None:
        """The entries of an attribute that is a tensor; None for one that is left out."""
        found = self.value(name)
        return None if found is None else entries(found)

    def integer(self, name: str, default: int = 0) -> int:
        found = self.value(name)
        return default if found is None else int(found)

    def real(self, name: str, default: float = 0.0) -> float:
        found = self.value(name)
        return default if found is None else float(found)

    def reals(self, name: str) -> tuple[float, ...]:
        return tuple(map(float, self.value(name) or ()))

    def text(self, name: str, default: str = "") -> str:
        found = self.value(name)
        return default if found is None else bytes(found).decode(errors="replace")

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(bytes(each).decode(errors="replace") for each in self.value(name) or ())

    def refusal(self, reason: str, help_: str) -> UnsupportedModel:
        return UnsupportedModel(f"{told_node(self._node)} cannot be imported: {reason}; {help_}")

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of its output."""
        return self.nodes(operator, inputs, 1, **attributes)[0]

    def nodes(
        self, operator: str, inputs: Sequence[str], outputs: int, **attributes: Any
    ) -> tuple[str, ...]:
        number = len(self._nodes)
        names = tuple(f"{operator}.{number}.{n}" for n in range(outputs))
        self._nodes.append(
            helper.make_node(operator, list(inputs), list(names), f"{operator}.{number}",
                             **attributes)
        )  # fmt: skip
        return names

    def weight(self, entries: Array) -> str:
        name = f"weight.{len(self.weights)}"
        self.weights[name] = entries
        return name

    def number(self, value: float, like: int = 0) -> str:
        """The name of a constant that has the type of an input."""
        return self.weight(np.array(value, self.dtype(like)))

    def integers(self, *values: int, shape: Sequence[int] | None = None) -> str:
        entries = np.array(values, np.int64)
        return self.weight(entries if shape is None else entries.reshape(shape))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.integers(*shape))

    def transposed(self, x: str, *order: int) -> str:
        return self.node("Transpose", x, perm=list(order))

    def swapped(self, x: str, rank: int) -> str:
        """Exchanges the last two axes."""
        return self.transposed(x, *range(rank - 2), rank - 1, rank - 2)

    def sliced(self, x: str, axis: int, start: int, stop: int) -> str:
        return self.node("Slice", x, *(self.integers(n) for n in (start, stop, axis)))

    def function(self, outputs: Sequence[str]) -> FunctionProto:
        return helper.make_function(
            "kernelzoo", self._node.op_type,
            [f"i{n}" for n in range(len(self._types))], list(outputs), self._nodes,
            [helper.make_opsetid("", OPSET), helper.make_opsetid(OWN_DOMAIN, 1)],
        )  # fmt: skip
