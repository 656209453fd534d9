"""Fixes every shape of a model: what was read becomes a network whose shapes are numbers.

One walk over the nodes in order. Each node's outputs get their types from ONNX's own inference,
one node at a time, with the values of small constants at hand. A node of which everything is known
is computed at once, so that arithmetic on shapes vanishes; functions and the branch of a condition
that is taken are put in the place of their node.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, defs

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.contrib import written
from services.tuner.graph.dimensions import input_type, refuse_unknown_dimensions
from services.tuner.graph.functions import OPSET
from services.tuner.graph.network import Array, Network, Step, TensorType
from services.tuner.graph.onnx_schemas import (
    attributes_of,
    body_of,
    computed,
    constant_of,
    fill_defaults,
    infer,
    is_known,
    measured,
    schema_of,
)
from services.tuner.graph.reading import (
    MAIN_DOMAINS,
    MAX_NODES,
    OnnxModel,
    entries,
    sorted_nodes,
    told_node,
)

MAX_TENSOR_BYTES = 1 << 31
MAX_CALLS = 32
"""Functions within functions."""
RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli",
    "Multinomial",
)  # fmt: skip
LOOPS = ("Loop", "Scan", "SequenceMap")
LOOPING = ("Range",)
"""Operators that ONNX defines by a loop. Where their values are not known, their shape is not."""


def fix_shapes(model: OnnxModel, dimensions: Mapping[str, int], known: Container[str]) -> Network:
    """`dimensions` are numbers for those that the model leaves open. Operators that are not `known`
    are replaced by their definition as a function of others, where ONNX has one.

    Raises InvalidInput for a dimension without a number and for one that the model does not have.
    """
    walk = _Walk(model, known)
    inputs = [info for info in model.graph.input if info.name not in model.weights]
    refuse_unknown_dimensions(inputs, dimensions)
    for info in inputs:
        walk.enter(info.name, input_type(info, dimensions), "input")
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

    def __init__(self, model: OnnxModel, known: Container[str]) -> None:
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
        own = written(node, self.types, self.constants, known_to_onnx=is_known(node, version))
        if own is not None:
            return self._written(node, *own, scope)
        schema = schema_of(node, version)
        values = self._known_values(node, schema, version)
        if values is not None:
            return tuple(
                self.enter_constant(scope.prefix + name, value) if name else ""
                for name, value in zip(node.output, values, strict=True)
            )
        if node.op_type not in self._known and node.op_type not in LOOPING:
            body = body_of(node, schema, self.types, version)
            if body is not None:
                fill_defaults(node, schema)
                return self._called(node, body, scope, dict.fromkeys(MAIN_DOMAINS, version))
        return self._step(node, schema, scope)

    def _written(
        self, node: NodeProto, body: FunctionProto, weights: Mapping[str, Array], scope: _Scope
    ) -> tuple[str, ...]:
        try:
            return self._called(node, body, scope, dict.fromkeys(MAIN_DOMAINS, OPSET), weights)
        except InvalidInput as error:
            raise InvalidInput(
                f"the inputs of {told_node(node)} do not fit the operator ({error}); export the "
                "model again"
            ) from error

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
                attributes=attributes_of(node, schema),
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
            return (constant_of(node),)
        if node.op_type in ("Shape", "Size") and node.input[0] in self.types:
            return (measured(node, self.types[node.input[0]]),)
        inputs = [self.constants.get(name) for name in node.input]
        if node.op_type == "CastLike" and inputs[1] is None:  # whose type alone counts
            inputs[1] = np.zeros((), self.types[node.input[1]].dtype)
        if node.op_type in RANDOM or any(
            name and value is None for name, value in zip(node.input, inputs, strict=True)
        ):
            return None
        types = infer(node, schema, self.types, self.constants, version)
        return computed(node, inputs, types, version)

    def _called(
        self,
        node: NodeProto,
        function: FunctionProto,
        scope: _Scope,
        opsets: Mapping[str, int],
        weights: Mapping[str, Array] = MappingProxyType({}),
    ) -> tuple[str, ...]:
        """Puts a function in the place of the node that calls it. `weights` are what it reads
        beside its inputs, by the names that it has for them."""
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
        for name, value in weights.items():
            inner.values[name] = self.enter_constant(inner.prefix + name, value)
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
