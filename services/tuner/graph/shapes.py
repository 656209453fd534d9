"""Fixes every shape of a model: what was read becomes a network whose shapes are numbers.

One walk over the nodes that outputs need, in order. Each node's outputs get their types from ONNX's
own inference, one node at a time, with the values of small constants at hand. A node of which
everything is known is computed at once, so that arithmetic on shapes vanishes; functions, operators
of older opsets and the branch of a condition that is taken are put in the place of their node.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from shlex import quote
from types import MappingProxyType

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    ValueInfoProto,
    defs,
    helper,
)

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.contrib import written
from services.tuner.graph.conversion import converted
from services.tuner.graph.dimensions import (
    NO_CONSTANTS,
    ConstantValue,
    input_constant,
    input_type,
    refuse_unknown_constants,
    refuse_unknown_dimensions,
)
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.functions import OPSET
from services.tuner.graph.network import Array, Network, Step, TensorType, unknown_operator
from services.tuner.graph.older_opsets import modernised
from services.tuner.graph.onnx_schemas import (
    attributes_of,
    body_of,
    computed,
    constant_of,
    fill_defaults,
    fitted,
    infer,
    is_known,
    measured,
    schema_of,
)
from services.tuner.graph.quantised import refuse_parameters
from services.tuner.graph.random import OPERATORS as RANDOM
from services.tuner.graph.random import STREAM
from services.tuner.graph.reading import (
    MAIN_DOMAINS,
    MAX_NODES,
    OnnxModel,
    entries,
    read_names,
    sorted_nodes,
    told_node,
)

MAX_TENSOR_BYTES = 1 << 31
MAX_CALLS = 32
"""Functions within functions."""
SEED = "seed"
"""The input of a plan that has random numbers, int32[1]."""
LOOPS = ("Scan", "SequenceMap")
MAX_TURNS = 256
"""Loops whose turns are known are unrolled."""
FIRST_SCAN_OF_SEQUENCES = 9
"""Before, Scan had batches of sequences of different lengths."""
MISCOMPUTED = (
    "GlobalMaxPool", "Hardmax", "LRN", "LogSoftmax", "LpNormalization", "MaxPool", "Resize",
)  # fmt: skip
"""ONNX's reference computes other numbers than onnxruntime of some inputs or attributes here."""
LOOPING = ("Range",)
"""Operators that ONNX defines by a loop. Where their values are not known, their shape is not."""


def fix_shapes(
    model: OnnxModel,
    dimensions: Mapping[str, int],
    known: Container[str],
    constants: Mapping[str, ConstantValue] = NO_CONSTANTS,
) -> Network:
    """`dimensions` are numbers for those that the model leaves open, `constants` the values of
    inputs that become constants. Operators that are not `known` are replaced by their definition as
    a function of others, where ONNX has one.

    Raises InvalidInput for a dimension without a number, and for a dimension or a constant that the
    model does not have.
    """
    inputs = {info.name: info for info in model.graph.input if info.name not in model.weights}
    refuse_unknown_dimensions(inputs.values(), dimensions)
    refuse_unknown_constants(inputs, constants)
    walk = _Walk(model, known, dimensions, inputs, constants)
    for name, weight in model.weights.items():
        walk.enter_constant(name, weight)
    scope = _Scope({name: name for name in walk.types}, model.opsets)
    scope.hold(model.graph.node, inputs)
    walk.make((each.name for each in model.graph.output), scope)
    walk.enter_unread_inputs(scope)
    return Network(
        inputs=(
            *(name for name in inputs if name in walk.inputs),
            *((walk.seed,) if walk.seed else ()),
        ),
        outputs=tuple((each.name, scope.found(each.name)) for each in model.graph.output),
        types=walk.types,
        constants=walk.constants,
        steps=tuple(walk.steps),
    )


@dataclass(slots=True)
class _Scope:
    """A scope is where nodes stand: which values of the whole network their names are, and the
    attributes that a function was called with. `parent` is the graph around that of a branch.

    A node is carried over when something needs it, so that nothing is asked of those that only a
    branch needs which is not taken.
    """

    values: dict[str, str]
    opsets: Mapping[str, int]
    prefix: str = ""
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict)
    depth: int = 0
    parent: "_Scope | None" = None
    nodes: tuple[NodeProto, ...] = ()
    makers: dict[str, int] = field(default_factory=dict)
    """Places of the nodes that are not carried over yet, by what they make."""

    inputs: Container[str] = frozenset()
    """Names that are entered when they are needed."""

    def hold(self, nodes: Iterable[NodeProto], inputs: Iterable[str] = ()) -> None:
        """Takes nodes in, in their order."""
        self.inputs = frozenset(inputs)
        self.nodes = sorted_nodes(nodes, {*self.values, *inputs}, self.parent or frozenset())
        self.makers = {
            name: place for place, node in enumerate(self.nodes) for name in node.output if name
        }

    def __contains__(self, name: object) -> bool:
        """Returns whether a graph within this one may read the name."""
        if name in self.values or name in self.makers or name in self.inputs:
            return True
        return self.parent is not None and name in self.parent

    def found(self, name: str) -> str:
        if name in self.values:
            return self.values[name]
        if self.parent is None:
            raise InvalidInput(f"nothing makes {name!r}; export the model again")
        return self.parent.found(name)


class _Walk:
    """The network so far."""

    def __init__(
        self,
        model: OnnxModel,
        known: Container[str],
        dimensions: Mapping[str, int],
        inputs: Mapping[str, ValueInfoProto],
        constants: Mapping[str, ConstantValue],
    ) -> None:
        self._model = model
        self._known = known
        self._dimensions = dimensions
        self._pending = dict(inputs)
        self._given = constants
        self._visited = 0
        self._streams = 0
        self.seed = ""
        """The input that random numbers are drawn by, where there are any."""
        self.inputs: set[str] = set()
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.steps: list[Step] = []

    def enter_input(self, name: str, scope: _Scope) -> None:
        """An input that has no entries or is given is a constant."""
        info = self._pending.pop(name)
        if name in self._given:
            value = input_constant(info, self._given[name], self._dimensions)
            scope.values[name] = self.enter_constant(name, value)
            return
        type_ = input_type(info, self._dimensions)
        if not type_.elements:
            scope.values[name] = self.enter_constant(name, np.zeros(type_.shape, type_.dtype))
            return
        scope.values[name] = self.enter(name, type_, "input")
        self.inputs.add(name)

    def enter_unread_inputs(self, scope: _Scope) -> None:
        """Pages may feed what the file never reads; they need not feed what it reads in a branch
        alone that is not taken, nor what cannot be fed."""
        read = {name for node in self._model.graph.node for name in read_names(node)}
        for name in tuple(self._pending):
            if name not in read and name not in self._given:
                with suppress(InvalidInput, UnsupportedModel):
                    self.enter_input(name, scope)

    def enter(self, name: str, type_: TensorType, owner: str) -> str:
        """Enters a value under its name, or one like it that is free."""
        if type_.size_bytes > MAX_TENSOR_BYTES:
            raise InvalidInput(
                f"{name!r} of {owner} has the shape {list(type_.shape)}, which is "
                f"{type_.size_bytes} bytes; at most {MAX_TENSOR_BYTES} are possible. Give smaller "
                "dimensions"
            )
        free, number = name, 1
        while free in self.types or free in self._pending:
            number += 1
            free = f"{name}.{number}"
        self.types[free] = type_
        return free

    def enter_constant(self, name: str, value: Array) -> str:
        name = self.enter(name, TensorType(value.dtype, value.shape), "constant")
        self.constants[name] = value
        return name

    def make(self, names: Iterable[str], scope: _Scope) -> None:
        """Carries over the nodes that names need, in their order."""
        for place in sorted(self._needed(names, scope)):
            node = scope.nodes[place]
            for name in filter(None, node.output):
                scope.makers.pop(name, None)
            self._visited += 1
            if self._visited > MAX_NODES:
                raise InvalidInput(
                    f"the model has more than {MAX_NODES} nodes with its functions in place; "
                    "export it without unrolled loops"
                )
            made = self._made(_resolved(node, scope), scope)
            scope.values.update(zip(node.output, made, strict=False))

    def _needed(self, names: Iterable[str], scope: _Scope) -> set[int]:
        """Places of the nodes that are not carried over yet. Enters the inputs that they read, and
        has graphs around this one make what they read of them."""
        needed: set[int] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            place = scope.makers.get(name)
            if place is None and name and name not in scope.values:
                if scope.parent is not None:
                    self.make((name,), scope.parent)
                elif name in self._pending:
                    self.enter_input(name, scope)
            elif place is not None and place not in needed:
                needed.add(place)
                node = scope.nodes[place]
                # What a branch reads is made when it is known to be taken.
                waiting += node.input if node.op_type == "If" else read_names(node)
        return needed

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
        refuse_parameters(node, self.types, self.constants)
        if node.op_type == "Loop":
            return self._looped(node, scope)
        if node.op_type == "Scan" and version >= FIRST_SCAN_OF_SEQUENCES:
            return self._scanned(node, scope)
        if node.op_type in LOOPS:
            raise _repeating(node, "repeats a part of the model")
        if node.op_type in RANDOM and node.domain in MAIN_DOMAINS:
            self._seed(node)
        own = modernised(node, self.types, self.constants, version) or written(
            node, self.types, self.constants, version, known_to_onnx=is_known(node, version)
        )
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

    def _seed(self, node: NodeProto) -> None:
        """Gives a node that draws random numbers the seed as its last input, and its number among
        such nodes."""
        node.attribute.append(helper.make_attribute(STREAM, self._streams))
        self._streams += 1
        if not self.seed:
            names = {*self.types, *(each.name for each in self._model.graph.input)}
            free = (SEED, *(f"{SEED}.{number}" for number in range(2, len(names) + 3)))
            name = next(each for each in free if each not in names)
            self.seed = self.enter(name, TensorType(np.dtype(np.int32), (1,)), "input")
        node.input.append(self.seed)

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
        try:
            types = infer(node, schema, self.types, self.constants, version)
        except InvalidInput as error:
            # What ONNX infers of an operator that is not carried over may be wrong.
            unknown = next(
                (step for step in self._ancestors(node.input) if step.operator not in self._known),
                None,
            )
            raise error if unknown is None else unknown_operator(unknown) from error
        except UnsupportedModel as error:
            told = self._constant_told(node.input)
            if told is None:
                raise
            raise UnsupportedModel(
                f"{error}; or make its input a constant, as by {told}"
            ) from error
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
        step = _step_of(node, schema, version)
        self.steps.append(replace(step, outputs=outputs, label=scope.prefix + step.label))
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
        if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
            return None
        try:
            types = infer(node, schema, self.types, self.constants, version)
        except UnsupportedModel:
            # A shape that depends on values is known where they are.
            values = computed(node, inputs, version)
            if values is None:
                raise
            return values
        values = None if node.op_type in MISCOMPUTED else computed(node, inputs, version)
        fits = values is not None and all(
            type_ is None or value.size == type_.elements
            for value, type_ in zip(values, types, strict=True)
        )
        if not fits:
            known = node.op_type in self._known
            values = self._computed_here(node, schema, types, version) if known else None
        return None if values is None else fitted(values, types)

    def _computed_here(
        self,
        node: NodeProto,
        schema: defs.OpSchema,
        types: Sequence[TensorType | None],
        version: int,
    ) -> tuple[Array, ...] | None:
        """The outputs of a node whose inputs are known, as the graph of it computes them; None
        where there is none."""
        outputs = {name: type_ for name, type_ in zip(node.output, types, strict=True) if type_}
        inputs = [name for name in node.input if name]
        network = Network(
            inputs=(),
            outputs=tuple((name, name) for name in outputs),
            types=outputs | {name: self.types[name] for name in inputs},
            constants={name: self.constants[name] for name in inputs},
            steps=(_step_of(node, schema, version),),
        )
        try:
            values = evaluate(converted(network), {})
        except UnsupportedModel:
            return None
        return tuple(values.get(name, np.zeros(0)) for name in node.output)

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
        inner.hold(function.node)
        asked = list(zip(node.output, function.output, strict=False))
        self.make((inside for name, inside in asked if name), inner)
        return tuple(inner.found(inside) if name else "" for name, inside in asked)

    def _branch(self, node: NodeProto, scope: _Scope) -> tuple[str, ...]:
        """Puts the branch of a condition that is taken in the place of its node. Where that depends
        on inputs, both branches are computed, and one is chosen."""
        name = node.input[0] if node.input else ""
        condition = self.constants.get(name)
        if condition is not None and condition.size == 1:
            taken = "then_branch" if condition.reshape(-1)[0] else "else_branch"
            return self._branch_values(node, taken, scope)
        if name not in self.types or self.types[name].elements != 1:
            raise InvalidInput(f"{told_node(node)} has no condition of one entry; export it again")
        then, other = (
            self._branch_values(node, branch, scope) for branch in ("then_branch", "else_branch")
        )
        for one, two in zip(then, other, strict=True):
            if self.types[one] != self.types[two]:
                shapes = f"{list(self.types[one].shape)} or {list(self.types[two].shape)}"
                option = self._constant_told([name]) or "--constant NAME=VALUE"
                raise UnsupportedModel(
                    f"{told_node(node)} makes {shapes}, which depends on the values of the model's "
                    f"inputs; make the input that decides a constant, as by {option}, or export "
                    "the model with one branch"
                )
        return self._chosen(node, then, other, scope)

    def _ancestors(self, names: Iterable[str]) -> Iterator[Step]:
        """The steps that values depend on, the nearest first."""
        makers = {name: step for step in self.steps for name in step.outputs if name}
        waiting = deque(names)
        while waiting:
            step = makers.get(waiting.popleft())
            if step is not None:
                for name in step.outputs:
                    makers.pop(name, None)
                waiting += step.inputs
                yield step

    def _constant_told(self, names: Iterable[str]) -> str | None:
        """The option that decides values, if they depend on one input of integers or booleans."""
        names = tuple(names)
        read = {*names, *(name for step in self._ancestors(names) for name in step.inputs)}
        whole = [name for name in self.inputs & read if self.types[name].dtype.kind in "biu"]
        if len(whole) != 1:
            return None
        value = "true" if self.types[whole[0]].dtype == np.bool_ else "VALUE"
        return f"--constant {quote(whole[0])}={value}"

    def _looped(self, node: NodeProto, scope: _Scope) -> tuple[str, ...]:
        """Puts the body of a loop in its place as often as it is run, which must be known at each
        turn."""
        body = _graph_of(node, "body")
        limit, condition, *carried = (*node.input, "", "")[: max(2, len(node.input))]
        most = self.constants.get(limit)
        if (limit and most is None) or not (limit or condition):
            raise _repeating(node, "is run as often as the model's inputs say")
        asked, parts, turn = bool(condition), list[tuple[str, ...]](), 0
        while most is None or turn < int(most.reshape(-1)[0]):
            goes_on = self.constants.get(condition) if asked else np.ones(1)
            if goes_on is None:
                raise _repeating(node, "ends when the model's inputs say so")
            if not goes_on.all():
                break
            number = self.enter_constant(f"{scope.prefix}turn", np.array(turn, np.int64))
            flag = self.enter_constant(f"{scope.prefix}runs", np.ones((), np.bool_))
            made = self._turn(node, body, (number, flag, *carried), turn, scope)
            condition, carried, rows = (
                made[0],
                list(made[1 : len(carried) + 1]),
                made[len(carried) + 1 :],
            )
            parts.append(rows)
            turn += 1
        stacks = zip(*parts, strict=True) if parts else [()] * (len(node.output) - len(carried))
        return (*carried, *(self._stacked(node, each, 0, scope) for each in stacks))

    def _scanned(self, node: NodeProto, scope: _Scope) -> tuple[str, ...]:
        """Puts the body in its place once for each entry along an axis of what is scanned."""
        body = _graph_of(node, "body")
        told = {each.name: list(each.ints) or each.i for each in node.attribute}
        scans = int(told["num_scan_inputs"])  # type: ignore[arg-type]
        carried, scanned = list(node.input[:-scans]), node.input[-scans:]
        outputs = len(body.output) - len(carried)
        axes, back, out_axes, out_back = (
            told.get(f"scan_{name}") or [0] * count
            for name, count in (
                ("input_axes", scans), ("input_directions", scans),
                ("output_axes", outputs), ("output_directions", outputs),
            )
        )  # fmt: skip
        shapes = [self.types[name].shape for name in scanned]
        lengths = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
        if len(lengths) != 1:
            raise InvalidInput(f"{told_node(node)} scans what is not equally long; export it again")
        (length,) = lengths
        parts = []
        for turn in range(length):
            rows = (
                self._entry(name, axis, length - 1 - turn if reverse else turn, scope)
                for name, axis, reverse in zip(scanned, axes, back, strict=True)
            )
            made = self._turn(node, body, (*carried, *rows), turn, scope)
            carried = list(made[: len(carried)])
            parts.append(made[len(carried) :])
        stacks = zip(*parts, strict=True) if parts else [()] * outputs
        return (
            *carried,
            *(
                self._stacked(node, each[::-1] if reverse else each, axis, scope)
                for each, axis, reverse in zip(stacks, out_axes, out_back, strict=True)
            ),
        )

    def _turn(
        self, node: NodeProto, body: GraphProto, given: Sequence[str], turn: int, scope: _Scope
    ) -> tuple[str, ...]:
        if turn == MAX_TURNS:
            raise _repeating(node, f"is run more than {MAX_TURNS} times")
        if len(given) != len(body.input):
            raise InvalidInput(f"{told_node(node)} has not the inputs of its body; export it again")
        inner = _Scope(
            values={info.name: name for info, name in zip(body.input, given, strict=True)},
            opsets=scope.opsets,
            prefix=f"{scope.prefix}{node.name or node.output[0]}/{turn}/",
            attributes=scope.attributes,
            depth=scope.depth + 1,
            parent=scope,
        )
        return self._outputs_of(body, inner, len(body.output))

    def _entry(self, name: str, axis: int, place: int, scope: _Scope) -> str:
        at = self.enter_constant(f"{scope.prefix}place", np.array(place, np.int64))
        gather = helper.make_node("Gather", [name, at], [f"{name}.{place}"], axis=axis)
        return self._made(gather, scope)[0]

    def _stacked(self, node: NodeProto, rows: Sequence[str], axis: int, scope: _Scope) -> str:
        """Values of one shape side by side along a new axis."""
        if not rows:
            raise _repeating(node, "is never run")
        shape = list(self.types[rows[0]].shape)
        axis += len(shape) + 1 if axis < 0 else 0
        shape.insert(axis, 1)
        wanted = self.enter_constant(f"{scope.prefix}shape", np.array(shape, np.int64))
        views = [
            self._made(helper.make_node("Reshape", [row, wanted], [f"{row}.row"]), scope)[0]
            for row in rows
        ]
        stack = helper.make_node("Concat", views, [f"{rows[0]}.rows"], axis=axis)
        return self._made(stack, scope)[0]

    def _branch_values(self, node: NodeProto, name: str, scope: _Scope) -> tuple[str, ...]:
        graph = _graph_of(node, name)
        inner = _Scope(
            values={},
            opsets=scope.opsets,
            prefix=f"{scope.prefix}{node.name or node.output[0]}/",
            attributes=scope.attributes,
            depth=scope.depth + 1,
            parent=scope,
        )
        return self._outputs_of(graph, inner, len(node.output))

    def _outputs_of(self, graph: GraphProto, inner: _Scope, count: int) -> tuple[str, ...]:
        """Carries over what the first outputs of a graph within a node need."""
        for weight in graph.initializer:
            value = self.enter_constant(inner.prefix + weight.name, entries(weight))
            inner.values[weight.name] = value
        inner.hold(graph.node)
        names = [each.name for each in graph.output[:count]]
        self.make(names, inner)
        return tuple(map(inner.found, names))

    def _chosen(
        self, node: NodeProto, then: Iterable[str], other: Iterable[str], scope: _Scope
    ) -> tuple[str, ...]:
        """One value of two for each output, by a condition of one entry."""
        prefix = f"{node.name or node.output[0]}/"
        scalar = self.enter_constant(f"{scope.prefix}{prefix}scalar", np.zeros(0, np.int64))
        reshape = helper.make_node(
            "Reshape", [node.input[0], scalar], [f"{prefix}condition"], f"{prefix}condition"
        )
        (condition,) = self._made(reshape, scope)
        return tuple(
            one if one == two
            else self._made(
                helper.make_node("Where", [condition, one, two], [name], node.name), scope
            )[0]
            for name, one, two in zip(node.output, then, other, strict=True)
        )  # fmt: skip


def _graph_of(node: NodeProto, name: str) -> GraphProto:
    graph: GraphProto | None = next((each.g for each in node.attribute if each.name == name), None)
    if graph is None or len(graph.output) < len(node.output):
        raise InvalidInput(f"{told_node(node)} has no whole {name}; export the model again")
    return graph


def _repeating(node: NodeProto, how: str) -> UnsupportedModel:
    return UnsupportedModel(
        f"{told_node(node)} {how}; export the model without loops, for one step, and repeat that "
        "in the page"
    )


def _step_of(node: NodeProto, schema: defs.OpSchema, version: int) -> Step:
    return Step(
        operator=node.op_type,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes=attributes_of(node, schema),
        label=node.name or next(filter(None, node.output)),
        version=version,
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
