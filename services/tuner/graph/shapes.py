"""Fixes every shape of a model: what was read becomes a network whose shapes are numbers.

One walk over the nodes in order. Each node's outputs get their types from ONNX's own inference,
one node at a time, with the values of small constants at hand. A node of which everything is known
is computed at once, so that arithmetic on shapes vanishes; functions and the branch of a condition
that is taken are put in the place of their node.
"""

import ast
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from operator import add, floordiv, mul, sub
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    numpy_helper,
    shape_inference,
)
from onnx.reference import ReferenceEvaluator

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.network import Array, Attribute, Network, Step, TensorType
from services.tuner.graph.reading import (
    MAIN_DOMAINS,
    MAX_NODES,
    Model,
    described,
    entries,
    numpy_dtype,
    sorted_nodes,
    told_node,
)

MAX_TENSOR_BYTES = 1 << 31
MAX_CALLS = 32
"""Functions within functions."""
MAX_TOLD = 4096
"""Entries of a constant whose values inference is told: shapes, axes and sizes have fewer."""
RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
    "Multinomial",
)  # fmt: skip

LOOPS = ("Loop", "Scan", "SequenceMap")
SHAPE_KEPT = ("GroupNormalization",)
"""Operators for which ONNX infers nothing, and whose output is like their first input."""
LOOPING = ("Range",)
"""Operators that ONNX defines by a loop. Where their values are not known, their shape is not."""


def fix_shapes(model: Model, dimensions: Mapping[str, int], known: Container[str]) -> Network:
    """`dimensions` are numbers for those that the model leaves open. Operators that are not `known`
    are replaced by their definition as a function of others, where ONNX has one.

    Raises InvalidInput for a dimension without a number and for one that the model does not have.
    """
    walk = _Walk(model, known)
    inputs = [info for info in model.graph.input if info.name not in model.weights]
    _refuse_unknown_dimensions(inputs, dimensions)
    for info in inputs:
        walk.enter(info.name, _input_type(info, dimensions), "input")
    for name, weight in model.weights.items():
        walk.enter_constant(name, weight)
    scope = _Scope({name: name for name in walk.types}, model.opsets)
    walk.nodes(model.graph.node, scope)
    return Network(
        inputs=tuple(info.name for info in inputs),
        outputs=tuple((each.name, scope.found(each.name)) for each in model.graph.output),
        types=walk.types,
        constants=walk.constants,
        steps=tuple(walk.steps),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where nodes stand: which values of the whole network their names are, and the attributes that
    a function was called with."""

    values: dict[str, str]
    opsets: Mapping[str, int]
    prefix: str = ""
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0

    def found(self, name: str) -> str:
        if name not in self.values:
            raise InvalidInput(f"nothing makes {name!r}; export the model again")
        return self.values[name]


class _Walk:
    """The network so far."""

    def __init__(self, model: Model, known: Container[str]) -> None:
        self._model = model
        self._known = known
        self._visited = 0
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.steps: list[Step] = []

    def enter(self, name: str, type_: TensorType, owner: str) -> str:
        """Enters a value under its name, or one like it that is free."""
        if type_.size_bytes > MAX_TENSOR_BYTES:
            raise InvalidInput(
                f"{name!r} of {owner} has the shape {list(type_.shape)}, which is "
                f"{type_.size_bytes} bytes; at most {MAX_TENSOR_BYTES} are possible. Give smaller "
                "dimensions"
            )
        free, number = name, 1
        while free in self.types:
            number += 1
            free = f"{name}.{number}"
        self.types[free] = type_
        return free

    def enter_constant(self, name: str, value: Array) -> str:
        name = self.enter(name, TensorType(value.dtype, value.shape), "constant")
        self.constants[name] = value
        return name

    def nodes(self, nodes: Iterable[NodeProto], scope: _Scope) -> None:
        for node in sorted_nodes(nodes, scope.values):
            self._visited += 1
            if self._visited > MAX_NODES:
                raise InvalidInput(
                    f"the model has more than {MAX_NODES} nodes with its functions in place; "
                    "export it without unrolled loops"
                )
            made = self._made(_resolved(node, scope), scope)
            scope.values.update(zip(node.output, made, strict=False))

    def _made(self, node: NodeProto, scope: _Scope) -> tuple[str, ...]:
        """Carries a node over, whose inputs have the network's names; answers those of its
        outputs."""
        function = self._model.functions.get((node.domain, node.op_type))
        if function is not None:
            opsets = {each.domain: each.version for each in function.opset_import}
            return self._called(node, function, scope, {**scope.opsets, **opsets})
        if node.op_type == "If":
            return self._branch(node, scope)
        version = scope.opsets[""]
        if node.op_type in LOOPS:
            raise UnsupportedModel(
                f"{told_node(node)} repeats a part of the model; export the model without loops, "
                "for one step, and repeat that in the page"
            )
        schema = _schema(node, version)
        values = self._known_values(node, schema, version)
        if values is not None:
            return tuple(
                self.enter_constant(scope.prefix + name, value) if name else ""
                for name, value in zip(node.output, values, strict=True)
            )
        if node.op_type not in self._known and node.op_type not in LOOPING:
            body = _body(node, schema, self.types, version)
            if body is not None:
                _fill_defaults(node, schema)
                return self._called(node, body, scope, dict.fromkeys(MAIN_DOMAINS, version))
        return self._step(node, schema, scope)

    def _step(self, node: NodeProto, schema: defs.OpSchema, scope: _Scope) -> tuple[str, ...]:
        version = scope.opsets[""]
        types = infer(node, schema, self.types, self.constants, version)
        if all(type_ is None or not type_.elements for type_ in types):
            return tuple(
                self.enter_constant(scope.prefix + name, np.zeros(type_.shape, type_.dtype))
                if type_ else ""
                for name, type_ in zip(node.output, types, strict=True)
            )  # fmt: skip
        outputs = tuple(
            self.enter(scope.prefix + name, type_, told_node(node)) if type_ else ""
            for name, type_ in zip(node.output, types, strict=True)
        )
        self.steps.append(
            Step(
                operator=node.op_type,
                inputs=tuple(node.input),
                outputs=outputs,
                attributes=_attributes(node, schema),
                label=scope.prefix + (node.name or next(filter(None, node.output))),
                version=version,
            )
        )
        return outputs

    def _known_values(
        self, node: NodeProto, schema: defs.OpSchema, version: int
    ) -> tuple[Array, ...] | None:
        """The values of a node's outputs, where they can be told without running the model."""
        if node.op_type == "Constant":
            return (_constant(node),)
        if node.op_type in ("Shape", "Size") and node.input[0] in self.types:
            return (_measured(node, self.types[node.input[0]]),)
        if node.op_type in RANDOM or any(
            name and name not in self.constants for name in node.input
        ):
            return None
        types = infer(node, schema, self.types, self.constants, version)
        return computed(node, [self.constants.get(name) for name in node.input], types, version)

    def _called(
        self, node: NodeProto, function: FunctionProto, scope: _Scope, opsets: Mapping[str, int]
    ) -> tuple[str, ...]:
        """Puts a function in the place of the node that calls it."""
        if scope.depth >= MAX_CALLS:
            raise InvalidInput(
                f"{told_node(node)} calls functions within functions deeper than {MAX_CALLS}; does "
                "one call itself? Export the model again"
            )
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise InvalidInput(
                f"{told_node(node)} has more inputs or outputs than its function; export again"
            )
        given = dict.fromkeys(function.input, "") | dict(
            zip(function.input, node.input, strict=False)
        )
        attributes = {each.name: each for each in function.attribute_proto}
        inner = _Scope(
            values=given,
            opsets=opsets,
            prefix=f"{scope.prefix}{node.name or node.output[0]}/",
            attributes=attributes | {each.name: each for each in node.attribute},
            depth=scope.depth + 1,
        )
        self.nodes(function.node, inner)
        return tuple(
            inner.found(inside) if name else ""
            for name, inside in zip(node.output, function.output, strict=False)
        )

    def _branch(self, node: NodeProto, scope: _Scope) -> tuple[str, ...]:
        """Puts the branch of a condition that is taken in the place of its node."""
        condition = self.constants.get(node.input[0]) if node.input else None
        if condition is None or condition.size != 1:
            raise UnsupportedModel(
                f"{told_node(node)} depends on the values of the model's inputs; export the model "
                "with one branch, as for one kind of input"
            )
        name = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        graph = next((each.g for each in node.attribute if each.name == name), None)
        if graph is None or len(graph.output) < len(node.output):
            raise InvalidInput(f"{told_node(node)} has no whole {name}; export the model again")
        inner = _Scope(
            values=dict(scope.values),
            opsets=scope.opsets,
            prefix=f"{scope.prefix}{node.name or node.output[0]}/",
            attributes=scope.attributes,
            depth=scope.depth + 1,
        )
        for weight in graph.initializer:
            value = self.enter_constant(inner.prefix + weight.name, entries(weight))
            inner.values[weight.name] = value
        self.nodes(graph.node, inner)
        return tuple(inner.found(each.name) for each in graph.output[: len(node.output)])


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
        name: numpy_helper.from_array(constants[name])
        for name in given
        if name in constants and constants[name].size <= MAX_TOLD and constants[name].ndim < 2
    }
    opsets = [helper.make_opsetid("", version)]
    try:
        made = shape_inference.infer_node_outputs(schema, node, given, told, opset_imports=opsets)
    except (*_REFUSALS, RuntimeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"the inputs of {told_node(node)} do not fit the operator: {_reason(error)}"
        ) from error
    if node.op_type in SHAPE_KEPT:
        return [types[node.input[0]]]
    return [_type(made.get(name), node) if name else None for name in node.output]


_REFUSALS = (shape_inference.InferenceError, checker.ValidationError)


def computed(
    node: NodeProto,
    inputs: Iterable[Array | None],
    types: Iterable[TensorType | None],
    version: int,
) -> tuple[Array, ...] | None:
    """The outputs of a node by ONNX's reference; None where that does not know the operator."""
    inputs, types = list(inputs), list(types)
    names = [f"i{place}" if each is not None else "" for place, each in enumerate(inputs)]
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend(names)
    function = helper.make_function(
        "kernelzoo", "folded", list(filter(None, names)), list(filter(None, node.output)), [copy],
        [helper.make_opsetid("", version)],
    )  # fmt: skip
    feeds = {name: each for name, each in zip(names, inputs, strict=True) if each is not None}
    try:
        with np.errstate(all="ignore"):
            results = iter(ReferenceEvaluator(function).run(None, feeds, attributes={}))
    except Exception:  # noqa: BLE001 - what the reference cannot do stays
        return None
    values = [next(results) if type_ else None for type_ in types]
    return tuple(
        np.zeros(0) if type_ is None else np.asarray(value, type_.dtype).reshape(type_.shape)
        for value, type_ in zip(values, types, strict=True)
    )


def _resolved(node: NodeProto, scope: _Scope) -> NodeProto:
    """A node with the network's names of its inputs, and attributes in the place of references."""
    resolved = NodeProto()
    resolved.CopyFrom(node)
    del resolved.input[:]
    resolved.input.extend(scope.found(name) if name else "" for name in node.input)
    if any(each.ref_attr_name for each in node.attribute):
        del resolved.attribute[:]
        for each in node.attribute:
            given = scope.attributes.get(each.ref_attr_name) if each.ref_attr_name else each
            if given is not None:
                resolved.attribute.add().CopyFrom(given)
                resolved.attribute[-1].name = each.name
    return resolved


def _schema(node: NodeProto, version: int) -> defs.OpSchema:
    """Raises UnsupportedModel for an operator that ONNX of this version does not have, InvalidInput
    for a node that is not made as its operator demands."""
    schema = None
    if node.domain in MAIN_DOMAINS and defs.has(node.op_type):
        try:
            schema = defs.get_schema(node.op_type, version)
        except defs.SchemaError:
            schema = None
    if schema is None or schema.deprecated:
        domain = f" of {node.domain}" if node.domain not in MAIN_DOMAINS else ""
        raise UnsupportedModel(
            f"{told_node(node)} is no operator of ONNX {version}{domain}; export the model with "
            "ONNX's own operators, without optimisations for a runtime"
        )
    context = type(checker.DEFAULT_CONTEXT)()
    context.ir_version = checker.DEFAULT_CONTEXT.ir_version
    context.opset_imports = {"": version}
    try:
        checker.check_node(node, context)
    except (checker.ValidationError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{told_node(node)} is not made as ONNX demands: {_reason(error)}; export again"
        ) from error
    return schema


def _body(
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
        _fill_defaults(complete, schema)
        text = versioned.get_context_dependent_function_with_opset_version(
            max(dependent), complete.SerializeToString(), given
        )
    function = FunctionProto()
    function.ParseFromString(text if fixed or dependent else b"")
    return function if function.node else None


def _fill_defaults(node: NodeProto, schema: defs.OpSchema) -> None:
    given = {each.name for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def _attributes(node: NodeProto, schema: defs.OpSchema) -> dict[str, Attribute]:
    complete = NodeProto()
    complete.CopyFrom(node)
    _fill_defaults(complete, schema)
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


def _constant(node: NodeProto) -> Array:
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


def _measured(node: NodeProto, type_: TensorType) -> Array:
    """What Shape or Size tell of a tensor."""
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


def _input_type(info: ValueInfoProto, dimensions: Mapping[str, int]) -> TensorType:
    dtype, dims = described(info, "input")
    shape = []
    for dim in dims:
        number = dim if isinstance(dim, int) else _number(dim, dimensions)
        if number is None:
            raise InvalidInput(
                f"dimension {dim!r} of input {info.name!r} is open; give it a number, as "
                f"{dim!r}=128"
            )
        if number < 1:
            raise InvalidInput(
                f"dimension {dim!r} of input {info.name!r} is {number}; it must be at least 1"
            )
        shape.append(number)
    return TensorType(dtype, tuple(shape))


_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
}


def _number(name: str, dimensions: Mapping[str, int]) -> int | None:
    """The number of a dimension, given by its name or by those in it, as in `past + sequence`."""

    def value(part: ast.expr) -> int:
        match part:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=inner):
                return dimensions[inner]
            case ast.BinOp(left=left, op=op, right=right):
                return _ARITHMETIC[type(op)](value(left), value(right))
        raise KeyError(name)

    if name in dimensions:
        return dimensions[name]
    try:
        return value(ast.parse(name, mode="eval").body)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _refuse_unknown_dimensions(
    inputs: Iterable[ValueInfoProto], dimensions: Mapping[str, int]
) -> None:
    open_ones = {
        dim: None for info in inputs for dim in described(info, "input")[1] if isinstance(dim, str)
    }
    words = set(open_ones) | {word for dim in open_ones for word in _words(dim)}
    for name in dimensions:
        if name not in words:
            raise InvalidInput(
                f"the model has no dimension {name!r}; "
                + (
                    f"it leaves {', '.join(map(repr, open_ones))} open"
                    if open_ones
                    else "all its dimensions are numbers"
                )
            )


def _words(dimension: str) -> set[str]:
    try:
        return {node.id for node in ast.walk(ast.parse(dimension)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError):
        return set()


def _reason(error: Exception) -> str:
    """The first line of what ONNX says."""
    return (str(error).strip().splitlines() or ["no reason given"])[0][:300]
