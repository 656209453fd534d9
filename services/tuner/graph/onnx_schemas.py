"""Asks ONNX itself about one node: whether it is well made, its attributes with their defaults, the
types of its outputs, its definition as a function, and its values where all is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    NodeProto,
    TypeProto,
    checker,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)
from onnx.reference import ReferenceEvaluator

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.network import Array, Attribute, TensorType
from services.tuner.graph.own_schemas import OWN_DOMAIN, OWN_SCHEMAS
from services.tuner.graph.reading import (
    MAIN_DOMAINS,
    NUMPY_DTYPES,
    entries,
    numpy_dtype,
    told_node,
)

MAX_TOLD = 4096
"""Entries of a constant whose values inference is told: shapes, axes and sizes have fewer."""
SHAPE_KEPT = ("GroupNormalization",)
"""Operators for which ONNX infers nothing, and whose output is like their first input."""
WITHDRAWN: Mapping[str, int] = {"GroupNormalization": 21}
"""Operators of which ONNX has withdrawn an earlier version that models have, and the next version,
which is made alike."""
POOLS = ("AveragePool", "LpPool", "MaxPool")
CEILS_AS_ENGINES = 22
"""The first opset whose inference leaves windows out that begin behind the image and the padding
before it, where extents are rounded up. All engines do so whatever the opset."""
COMPARED = ("GreaterOrEqual", "LessOrEqual")
"""Operators for which ONNX infers no shape before opset 16."""


def infer(
    node: NodeProto,
    schema: defs.OpSchema,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Array],
    version: int,
) -> list[TensorType | None]:
    """Types of a node's outputs, None for one that is left out.

    Raises UnsupportedModel where a shape depends on values that are not known, InvalidInput where
    the inputs do not fit the operator.
    """
    given = {name: _proto(types[name]) for name in node.input if name}
    told = {
        name: numpy_helper.from_array(_as_inferred(constants[name], node))
        for name in given
        if name in constants and constants[name].size <= MAX_TOLD and constants[name].ndim < 2
    }
    if node.op_type in POOLS and node.domain in MAIN_DOMAINS and version < CEILS_AS_ENGINES:
        schema, version = defs.get_schema(node.op_type, CEILS_AS_ENGINES), CEILS_AS_ENGINES
    opsets = [helper.make_opsetid("", version)]
    try:
        if node.op_type in COMPARED:
            shapes = (types[name].shape for name in node.input)
            return [TensorType(np.dtype(np.bool_), np.broadcast_shapes(*shapes))]
        made = shape_inference.infer_node_outputs(schema, node, given, told, opset_imports=opsets)
    except (*_REFUSALS, RuntimeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"the inputs of {told_node(node)} do not fit the operator: {_reason(error)}"
        ) from error
    if node.op_type in SHAPE_KEPT:
        return [types[node.input[0]]]
    if node.op_type == "Resize":
        _scale(made[node.output[0]], node, types, constants)
    return [_type(made.get(name), node) if name else None for name in node.output]


def _as_inferred(constant: Array, node: NodeProto) -> Array:
    """Axes of Pad may be int32, which ONNX's inference does not read."""
    narrow = node.op_type == "Pad" and constant.dtype == np.int32
    return constant.astype(np.int64) if narrow else constant


_REFUSALS = (shape_inference.InferenceError, checker.ValidationError)


def _scale(
    made: TypeProto,
    node: NodeProto,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Array],
) -> None:
    """Gives a resized tensor the extents that runtimes give it, which multiply in f32: 10 entries
    by a scale of 0.7 are 7. ONNX's inference multiplies the same scale in f64, and finds 6. It
    tells no extent of 0, which a size of 0 has, or a small one under `keep_aspect_ratio_policy`."""
    scales = constants.get(node.input[2]) if len(node.input) == 3 else None
    if scales is None:
        if len(node.input) > 3 and node.input[3] in constants:
            for dim in made.tensor_type.shape.dim:
                if not dim.HasField("dim_value"):
                    dim.dim_value = 0
        return
    shape = types[node.input[0]].shape
    axes = next((tuple(each.ints) for each in node.attribute if each.name == "axes"), None)
    for axis, scale in zip(axes or range(len(shape)), scales, strict=True):
        extent = int(np.float32(shape[axis]) * np.float32(scale))
        made.tensor_type.shape.dim[axis].dim_value = extent


REFERENCED_FROM = {"DequantizeLinear": 19, "QuantizeLinear": 19}
"""ONNX's reference knows no older form of these, which computes the same."""


def computed(
    node: NodeProto, inputs: Iterable[Array | None], version: int
) -> tuple[Array, ...] | None:
    """The outputs of a node by ONNX's reference, and nothing for one that is left out; None where
    the reference does not know the operator or makes no plain tensor."""
    inputs = list(inputs)
    if node.op_type == "NonMaxSuppression" and _chooses_nothing(inputs):
        return (np.zeros((0, 3), np.int64),)
    names = [f"i{place}" if each is not None else "" for place, each in enumerate(inputs)]
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend(names)
    function = helper.make_function(
        "kernelzoo", "folded", list(filter(None, names)), list(filter(None, node.output)), [copy],
        [helper.make_opsetid("", max(version, REFERENCED_FROM.get(node.op_type, version)))],
    )  # fmt: skip
    feeds = {name: each for name, each in zip(names, inputs, strict=True) if each is not None}
    try:
        with np.errstate(all="ignore"):
            results = iter(ReferenceEvaluator(function).run(None, feeds, attributes={}))
    except Exception:  # noqa: BLE001 - what the reference cannot do stays
        return None
    values = tuple(np.asarray(next(results)) if name else np.zeros(0) for name in node.output)
    return values if all(value.dtype in _DTYPES for value in values) else None


def _chooses_nothing(inputs: Sequence[Array | None]) -> bool:
    """Returns whether there are no boxes, or none is to be chosen, as where the most of a class is
    left out. ONNX's reference fails for such."""
    boxes, most = inputs[0], inputs[2] if len(inputs) > 2 else None
    return boxes is None or not boxes.size or most is None or not most.any()


_DTYPES = frozenset(NUMPY_DTYPES.values())


def fitted(values: Iterable[Array], types: Iterable[TensorType | None]) -> tuple[Array, ...]:
    """Values with the types that they must have: the reference computes some in others."""
    return tuple(
        value if type_ is None else value.astype(type_.dtype).reshape(type_.shape)
        for value, type_ in zip(values, types, strict=True)
    )


def is_known(node: NodeProto, version: int) -> bool:
    """Returns whether ONNX of this version has the operator."""
    if node.domain not in MAIN_DOMAINS or not defs.has(node.op_type):
        return False
    try:
        defs.get_schema(node.op_type, version)
    except defs.SchemaError:
        return False
    return True


def schema_of(node: NodeProto, version: int) -> defs.OpSchema:
    """Raises UnsupportedModel for an operator that ONNX of this version does not have, InvalidInput
    for a node that is not made as its operator demands."""
    if node.domain == OWN_DOMAIN and node.op_type in OWN_SCHEMAS:
        return OWN_SCHEMAS[node.op_type]
    if node.op_type in WITHDRAWN:
        version = max(version, WITHDRAWN[node.op_type])
    schema = defs.get_schema(node.op_type, version) if is_known(node, version) else None
    if schema is None or schema.deprecated:
        domain = f" of {node.domain}" if node.domain not in MAIN_DOMAINS else ""
        raise UnsupportedModel(
            f"{told_node(node)} is no operator of ONNX {version}{domain} that the import knows; "
            "export the model with ONNX's own operators, or with those of docs/onnx.md"
        )
    context = type(checker.DEFAULT_CONTEXT)()
    context.ir_version = checker.DEFAULT_CONTEXT.ir_version
    context.opset_imports = {"": version}
    try:
        checker.check_node(node, context)
    except (checker.ValidationError, ValueError) as error:
        raise InvalidInput(
            f"{told_node(node)} is not made as ONNX demands: {_reason(error)}; export again"
        ) from error
    return schema


def body_of(
    node: NodeProto, schema: defs.OpSchema, types: Mapping[str, TensorType], version: int
) -> FunctionProto | None:
    """The operator as a function of others, in the newest form that this opset has."""
    versioned: Any = schema  # whose stubs lack what follows
    fixed = [each for each in versioned.function_opset_versions if each <= version]
    dependent = [
        each for each in versioned.context_dependent_function_opset_versions if each <= version
    ]
    if fixed:
        text = versioned.get_function_with_opset_version(max(fixed))
    elif dependent:
        given = [_proto(types[name]).SerializeToString() if name else b"" for name in node.input]
        complete = NodeProto()
        complete.CopyFrom(node)
        fill_defaults(complete, schema)
        text = versioned.get_context_dependent_function_with_opset_version(
            max(dependent), complete.SerializeToString(), given
        )
    function = FunctionProto()
    function.ParseFromString(text if fixed or dependent else b"")
    return function if function.node else None


def fill_defaults(node: NodeProto, schema: defs.OpSchema) -> None:
    given = {each.name for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def attributes_of(node: NodeProto, schema: defs.OpSchema) -> dict[str, Attribute]:
    complete = NodeProto()
    complete.CopyFrom(node)
    fill_defaults(complete, schema)
    return {each.name: _attribute(each, node) for each in complete.attribute}


def _attribute(attribute: AttributeProto, node: NodeProto) -> Attribute:
    value = helper.get_attribute_value(attribute)
    match attribute.type:
        case AttributeProto.INT | AttributeProto.FLOAT:
            return value  # type: ignore[no-any-return]
        case AttributeProto.STRING:
            return bytes(value).decode(errors="replace")
        case AttributeProto.INTS | AttributeProto.FLOATS:
            return tuple(value)
        case AttributeProto.STRINGS:
            return tuple(bytes(each).decode(errors="replace") for each in value)
        case AttributeProto.TENSOR:
            return entries(value)
    raise UnsupportedModel(
        f"attribute {attribute.name!r} of {told_node(node)} is a graph or a type; export the model "
        "without loops and sequences"
    )


def constant_of(node: NodeProto) -> Array:
    if not node.attribute:
        raise InvalidInput(f"{told_node(node)} has no value; export the model again")
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    match attribute.name:
        case "value":
            return entries(value)
        case "value_float" | "value_floats":
            return np.array(value, np.float32)
        case "value_int" | "value_ints":
            return np.array(value, np.int64)
    raise UnsupportedModel(f"{told_node(node)} is a text or sparse; export it as a plain tensor")


def measured(node: NodeProto, type_: TensorType) -> Array:
    """Returns what Shape or Size tell of a tensor."""
    if node.op_type == "Size":
        return np.array(type_.elements, np.int64)
    given = {each.name: each.i for each in node.attribute}
    return np.array(type_.shape[given.get("start", 0) : given.get("end")], np.int64)


def _proto(type_: TensorType) -> TypeProto:
    return helper.make_tensor_type_proto(
        helper.np_dtype_to_tensor_dtype(type_.dtype), list(type_.shape)
    )


def _type(proto: TypeProto | None, node: NodeProto) -> TensorType:
    if proto is None or proto.WhichOneof("value") != "tensor_type":
        raise UnsupportedModel(
            f"an output of {told_node(node)} is no tensor of known type; export the model without "
            "sequences and optional values"
        )
    dtype = numpy_dtype(proto.tensor_type.elem_type, f"an output of {told_node(node)}")
    dims = proto.tensor_type.shape.dim
    if not proto.tensor_type.HasField("shape") or not all(d.HasField("dim_value") for d in dims):
        raise UnsupportedModel(
            f"the shape of what {told_node(node)} makes depends on the values of the model's "
            "inputs; export the model without it, and do this step in the page"
        )
    return TensorType(dtype, tuple(dim.dim_value for dim in dims))


def _reason(error: Exception) -> str:
    """The first line of what ONNX says."""
    return (str(error).strip().splitlines() or ["no reason given"])[0][:300]
