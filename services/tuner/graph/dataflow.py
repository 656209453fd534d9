"""A graph of ONNX looked at from its outputs: what makes each value, and which are constant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.reading import Array, OnnxModel, entries, sorted_nodes, told_node

KEEPING_ORDER = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators whose output has the entries of their first input, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """The output of a node at a place."""

    node: NodeProto
    place: int

    @property
    def op(self) -> str:
        return self.node.op_type

    def input(self, place: int) -> str:
        """'' for one that is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def attribute(self, name: str, usual: Any = None) -> Any:
        for each in self.node.attribute:
            if each.name == name:
                return helper.get_attribute_value(each)
        return usual


class Dataflow:
    """Raises InvalidInput for a graph that is no sound one."""

    def __init__(self, model: OnnxModel) -> None:
        given = {each.name for each in model.graph.input} | model.weights.keys()
        self._makers = {
            name: Made(node=node, place=place)
            for node in sorted_nodes(model.graph.node, given)
            for place, name in enumerate(node.output)
            if name
        }
        self._weights: Mapping[str, Array] = model.weights

    def origin(self, value: str) -> str:
        """The value whose entries these are."""
        made = self._makers.get(value)
        while made is not None and made.op in KEEPING_ORDER:
            value = made.input(0)
            made = self._makers.get(value)
        return value

    def made(self, value: str) -> Made | None:
        """None for an input or a weight."""
        return self._makers.get(self.origin(value))

    def constant(self, value: str) -> Array | None:
        """Returns a constant in the shape in which it is read, without its casts; None where inputs
        decide it."""
        if value in self._weights:
            return self._weights[value]
        made = self._makers.get(value)
        match made.op if made is not None else "":
            case "Constant" if made is not None:
                tensor = made.attribute("value")
                return entries(tensor) if isinstance(tensor, TensorProto) else None
            case "Cast" | "Identity" if made is not None:
                return self.constant(made.input(0))
            case "Transpose" if made is not None:
                held = self.constant(made.input(0))
                return None if held is None else np.transpose(held, made.attribute("perm"))
            case "Reshape" if made is not None:
                held, shape = (self.constant(made.input(place)) for place in (0, 1))
                return None if held is None or shape is None else held.reshape(tuple(shape))
        return None

    def demanded(self, value: str, made: Made, what: str) -> Array:
        """Raises UnsupportedModel for a value that is no constant."""
        held = self.constant(value)
        if held is None:
            raise UnsupportedModel(f"{told_node(made.node)} has no constant {what}")
        return held
