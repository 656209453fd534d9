"""Operators that ONNX does not have, which functions of this import are written with."""

from collections.abc import Mapping
from typing import Any

from onnx import TensorProto, defs, helper

OWN_DOMAIN = "kernelzoo"

REALS = ["tensor(float)", "tensor(double)", "tensor(float16)", "tensor(bfloat16)"]

_Schema = defs.OpSchema


def _walk() -> defs.OpSchema:
    """Finds where each row of a table ends in each tree: x[rows, features] → node[rows, trees].

    A row goes from a node to the first of its children where its feature is at most the node's
    threshold, else to the second. `steps` says how many trees take a step at each level, which are
    the first ones; leaves are their own children.
    """

    def infer(context: Any) -> None:
        rows = context.get_input_type(0).tensor_type.shape.dim[0].dim_value
        trees = context.get_input_type(4).tensor_type.shape.dim[0].dim_value
        context.set_output_type(0, helper.make_tensor_type_proto(TensorProto.INT32, [rows, trees]))

    real, whole = "tensor(float)", "tensor(int32)"
    types = {
        "x": real, "feature": whole, "threshold": real, "children": whole, "roots": whole,
    }  # fmt: skip
    inputs = [_Schema.FormalParameter(name, type_) for name, type_ in types.items()]
    schema = _Schema(
        "TreeWalk",
        OWN_DOMAIN,
        1,
        inputs=inputs,
        outputs=[_Schema.FormalParameter("node", whole)],
        attributes=[_Schema.Attribute("steps", _Schema.AttrType.INTS)],
    )
    schema.set_type_and_shape_inference_function(infer)
    return schema


def _frames() -> defs.OpSchema:
    """Parts of lines, each `step` entries after the last: x[lines, n] → [lines, frames, length]."""

    def infer(context: Any) -> None:
        lines, count = (each.dim_value for each in context.get_input_type(0).tensor_type.shape.dim)
        length, step = (context.get_attribute(name).i for name in ("length", "step"))
        shape = [lines, (count - length) // step + 1, length]
        kind = context.get_input_type(0).tensor_type.elem_type
        context.set_output_type(0, helper.make_tensor_type_proto(kind, shape))

    schema = _Schema(
        "Frames",
        OWN_DOMAIN,
        1,
        inputs=[_Schema.FormalParameter("x", "T")],
        outputs=[_Schema.FormalParameter("frames", "T")],
        type_constraints=[("T", REALS, "")],
        attributes=[
            _Schema.Attribute("length", _Schema.AttrType.INT),
            _Schema.Attribute("step", _Schema.AttrType.INT),
        ],
    )
    schema.set_type_and_shape_inference_function(infer)
    return schema


def _byte_matmul() -> defs.OpSchema:
    """Sums of (a − zero) · b of bytes a[…, m, k] with one zero point and constants b[k, n] of 8
    bits, as whole numbers."""

    def infer(context: Any) -> None:
        dims = [each.dim_value for each in context.get_input_type(0).tensor_type.shape.dim]
        columns = context.get_input_type(1).tensor_type.shape.dim[1].dim_value
        made = helper.make_tensor_type_proto(TensorProto.INT32, [*dims[:-1], columns])
        context.set_output_type(0, made)

    optional = _Schema.FormalParameterOption.Optional
    schema = _Schema(
        "ByteMatMul",
        OWN_DOMAIN,
        1,
        inputs=[
            _Schema.FormalParameter("a", "T"),
            _Schema.FormalParameter("b", "W"),
            _Schema.FormalParameter("zero", "T", param_option=optional),
        ],
        outputs=[_Schema.FormalParameter("y", "tensor(int32)")],
        type_constraints=[
            ("T", ["tensor(uint8)", "tensor(int8)"], ""),
            ("W", ["tensor(int8)", "tensor(int16)"], ""),
        ],
    )
    schema.set_type_and_shape_inference_function(infer)
    return schema


def _random_units() -> defs.OpSchema:
    """Numbers from 0 to below 1 by a seed, int32[1], and by what tells nodes apart."""

    def infer(context: Any) -> None:
        shape = [context.get_attribute("count").i]
        context.set_output_type(0, helper.make_tensor_type_proto(TensorProto.FLOAT, shape))

    schema = _Schema(
        "RandomUnits",
        OWN_DOMAIN,
        1,
        inputs=[_Schema.FormalParameter("seed", "tensor(int32)")],
        outputs=[_Schema.FormalParameter("units", "tensor(float)")],
        attributes=[
            _Schema.Attribute("stream", _Schema.AttrType.INT),
            _Schema.Attribute("count", _Schema.AttrType.INT),
        ],
    )
    schema.set_type_and_shape_inference_function(infer)
    return schema


OWN_SCHEMAS: Mapping[str, defs.OpSchema] = {
    each.name: each for each in (_byte_matmul(), _frames(), _random_units(), _walk())
}
