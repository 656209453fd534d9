"""A model in ONNX's operators, every shape a number: what rules of simplification work on.

It stands between the file and the graph: names, operators and attributes are those of ONNX, with
the defaults of attributes filled in, and every value has a known element type and shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from kernelzoo.errors import UnsupportedModel

TO_CONSTANT = (
    "export it as a constant, or make the input that decides one, as by --constant NAME=VALUE"
)
"""Says what helps where a node wants values at import."""

Array = NDArray[Any]
PACKED_RANGES: Mapping[np.dtype[Any], tuple[int, int]] = {
    helper.tensor_dtype_to_np_dtype(TensorProto.INT4): (-8, 7),
    helper.tensor_dtype_to_np_dtype(TensorProto.UINT4): (0, 15),
    helper.tensor_dtype_to_np_dtype(TensorProto.INT2): (-2, 1),
    helper.tensor_dtype_to_np_dtype(TensorProto.UINT2): (0, 3),
}
"""Integers of which a byte has several in a file, which NumPy does not count among integers."""
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array


@dataclass(frozen=True, slots=True)
class TensorType:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node. An input or output that is left out is ''. `version` is that of the opset."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    label: str = ""
    version: int

    @property
    def told(self) -> str:
        """The step as the beginning of a sentence."""
        return f"node {self.label or self.outputs[0]!r} ({self.operator})"


def unknown_operator(step: Step) -> UnsupportedModel:
    return UnsupportedModel(
        f"{step.told} cannot be imported: the import does not know this operator. docs/onnx.md has "
        "those that it knows; do this step in the page, or export the model without it"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`steps` stand in order; `outputs` are pairs of the model's name and the value."""

    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Array]
    steps: tuple[Step, ...]

    @property
    def makers(self) -> dict[str, Step]:
        """The step that makes a value, by its name."""
        return {name: step for step in self.steps for name in step.outputs if name}
