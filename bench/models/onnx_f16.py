"""A network of ONNX with values of f16, as converters write it for onnxruntime.

Weights, constants and casts of f32 become f16. Inputs and outputs stay f32, with a cast behind and
before them. Numbers beyond the largest f16 become that one.
"""

from collections.abc import Iterator

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

LARGEST = float(np.finfo(np.float16).max)
NEEDS_F32 = ("Resize",)
"""Operators with operands that ONNX wants in f32."""


def in_f16(model: ModelProto) -> ModelProto:
    """Raises ValueError for an operator with operands that must stay f32."""
    made = ModelProto()
    made.CopyFrom(model)
    _convert(made.graph)
    _keep_ports(made.graph)
    return made


def _convert(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _round(tensor)
    for node in graph.node:
        if node.op_type in NEEDS_F32:
            raise ValueError(f"{node.name}: {node.op_type} has operands that must stay float32")
        for attribute in node.attribute:
            _convert_attribute(node, attribute)
    del graph.value_info[:]


def _convert_attribute(node: NodeProto, attribute: AttributeProto) -> None:
    if attribute.name == "value" and attribute.HasField("t"):
        _round(attribute.t)
    if (node.op_type, attribute.name) == ("Cast", "to") and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.FLOAT16
    if attribute.HasField("g"):
        _convert(attribute.g)


def _round(tensor: TensorProto) -> None:
    if tensor.data_type != TensorProto.FLOAT:
        return
    entries = np.clip(numpy_helper.to_array(tensor), -LARGEST, LARGEST).astype(np.float16)
    tensor.CopyFrom(numpy_helper.from_array(entries, tensor.name))


def _keep_ports(graph: GraphProto) -> None:
    """Casts between the ports of the model, which are f32, and what nodes call like them."""
    inputs = {port.name: f"{port.name}/f16" for port in _real(graph.input)}
    outputs = {port.name: f"{port.name}/f16" for port in _real(graph.output)}
    for node in graph.node:
        for names, renamed in ((node.input, inputs | outputs), (node.output, outputs)):
            for place, name in enumerate(names):
                names[place] = renamed.get(name, name)
    before = [_cast(name, f16, TensorProto.FLOAT16) for name, f16 in inputs.items()]
    behind = [_cast(f16, name, TensorProto.FLOAT) for name, f16 in outputs.items()]
    nodes = [*before, *graph.node, *behind]
    del graph.node[:]
    graph.node.extend(nodes)


def _real(ports: Iterator[ValueInfoProto]) -> list[ValueInfoProto]:
    return [port for port in ports if port.type.tensor_type.elem_type == TensorProto.FLOAT]


def _cast(source: str, target: str, to: int) -> NodeProto:
    return helper.make_node("Cast", [source], [target], name=f"{target}/cast", to=to)
