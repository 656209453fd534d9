"""Nodes as stages that read values of the graph by their names, so that one can go into another.

    transposed[i0: 12, i1: 384, i2: 64] = encoded[i1, i0 * 64 + i2]

A view is such a stage, too: it reads its input at the place of the same number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Choice,
    Expression,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Stage,
    parts,
    rebuilt,
)
from services.tuner.graph.edit import Edit
from services.tuner.graph.graph import Node, Value, View
from services.tuner.graph.places import (
    flat,
    is_known,
    is_plain,
    plain_shape,
    simplified,
    unflat,
    viewed,
)

Values = Mapping[str, Value]


def axes_of(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{n}", Integer(extent)) for n, extent in enumerate(shape))


def stages_of(node: Node, values: Values) -> tuple[Stage, ...]:
    """The stages of a program or a view. Inputs are called by their values, the last stage by the
    node's output; stages before it have names that no value has."""
    match node.op:
        case View():
            (source,) = node.inputs
            value = values[node.output]
            axes = axes_of(value.shape)
            at = viewed(axes, value.shape, values[source].shape)
            dtype = value.dtype.compute_dtype
            return (Stage(node.output, axes, Read(source, at), dtype=dtype),)
        case Program():
            program = node.op.normalised()
            names = {
                each.name: name for each, name in zip(program.inputs, node.inputs, strict=True)
            }
            names |= {stage.name: f"{node.output}\n{stage.name}" for stage in program.stages}
            names[program.output.name] = node.output
            return tuple(
                replace(stage, name=names[stage.name], value=renamed(stage.value, names))
                for stage in program.stages
            )
    raise TypeError(f"{node.output} is made by {node.op}, which is no program")


def single_stage(node: Node, values: Values) -> Stage | None:
    """The stage of a node that computes every entry by itself; None for any other node."""
    if isinstance(node.op, View):
        return stages_of(node, values)[0]
    if isinstance(node.op, Program) and len(node.op.stages) == 1 and not node.op.output.reducer:
        return stages_of(node, values)[0]
    return None


def node_of(stages: Sequence[Stage], values: Values, label: str) -> Node:
    """The inverse of `stages_of`; a stage that copies its only input is a view."""
    output = stages[-1]
    made = {stage.name for stage in stages}
    names = list(dict.fromkeys(read.tensor for read in reads(stages) if read.tensor not in made))
    if len(stages) == 1 and is_view(output, values):
        return Node(View(), tuple(names), output.name, label)
    inputs = tuple(Input(name, values[name].dtype, values[name].shape) for name in names)
    makes_f16 = _dtype(output, values) is DType.F16
    program = Program(inputs, tuple(stages), makes_f16=makes_f16).normalised()
    return Node(program, tuple(names), output.name, label)


def _dtype(stage: Stage, values: Values) -> DType:
    """The dtype in which the entries of a stage are stored, where it is a value of the graph."""
    return values[stage.name].dtype if stage.name in values else stage.dtype


def is_view(stage: Stage, values: Values) -> bool:
    """Returns whether its entries are those of one value in their order."""
    match stage.value:
        case Read(tensor, at) if stage.reducer is None:
            source = values[tensor]
            same = source.elements == prod(stage.shape) and source.dtype is _dtype(stage, values)
            return same and flat(at, source.shape) == flat(stage.axes, stage.shape)
    return False


def is_movement(stage: Stage) -> bool:
    """Returns whether it only reads entries of one value, in whatever order."""
    return isinstance(stage.value, Read) and stage.reducer is None


def reads(stages: Iterable[Stage]) -> Iterator[Read]:
    for stage in stages:
        yield from (part for part in parts(stage.value) if isinstance(part, Read))


def reads_of(stages: Iterable[Stage], tensor: str) -> tuple[Read, ...]:
    return tuple(dict.fromkeys(read for read in reads(stages) if read.tensor == tensor))


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    def change(part: Expression) -> Expression:
        match rebuilt(part, change):
            case Read(tensor, at):
                return Read(names.get(tensor, tensor), at)
            case other:
                return other

    return change(expression)


def replaced(expression: Expression, old: Expression, new: Expression) -> Expression:
    def change(part: Expression) -> Expression:
        return new if part == old else rebuilt(part, change)

    return change(expression)


def at_places(stage: Stage, at: Sequence[Expression]) -> Expression:
    """The value of a stage's entry at a place."""
    places = dict(zip(stage.axes, at, strict=True))

    def change(part: Expression) -> Expression:
        match part:
            case Axis():
                return places.get(part, part)
            case Read(tensor, inner):
                return Read(tensor, tuple(simplified(change(place)) for place in inner))
        return rebuilt(part, change)

    return change(stage.value)


def inlined(consumer: Stage, producer: Stage) -> Stage:
    """The consumer with the producer's value in the place of every read of it."""

    def change(part: Expression) -> Expression:
        match rebuilt(part, change):
            case Read(tensor, at) if tensor == producer.name:
                return at_places(producer, at)
            case other:
                return other

    return replace(consumer, value=change(consumer.value))


_NEUTRAL = {(BinaryOp.ADD, 0.0), (BinaryOp.SUB, 0.0), (BinaryOp.MUL, 1.0), (BinaryOp.DIV, 1.0)}
"""Operations that leave the left operand as it is, but for the sign of a zero."""


def tidied(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages without operations that do nothing, choices that are known, and without stages
    that no other reads then.

        s0[i0: 3] = sum over i1: 4 of a[i1, i0]
        c[i0: 3] = s0[i0] if 1 < 1 else b[i0]        is    c[i0: 3] = b[i0]
    """
    kept: list[Stage] = []
    wanted = {stages[-1].name}
    for stage in reversed([_tidied(stage) for stage in stages]):
        if stage.name in wanted:
            kept.append(stage)
            wanted |= {read.tensor for read in reads([stage])}
    made = tuple(reversed(kept))
    # A program has inputs; one that none of its entries needs stays as it is.
    return made if any(True for _ in reads(made)) else tuple(stages)


def _tidied(stage: Stage) -> Stage:
    def change(part: Expression) -> Expression:
        match rebuilt(part, change):
            case Choice(conditions, then, otherwise):
                told = {each: is_known(each) for each in conditions}
                if False in told.values():
                    return otherwise
                left = tuple(each for each in conditions if told[each] is None)
                return Choice(left, then, otherwise) if left else then
            case Binary(op, left, Real(value)) if (op, value) in _NEUTRAL:
                return left
            case Binary(BinaryOp.ADD | BinaryOp.MUL as op, Real(value), right) if (
                op,
                value,
            ) in _NEUTRAL:
                return right
            case other:
                return other

    return replace(stage, value=change(stage.value))


def is_plainly_read(stage: Stage, values: Values) -> bool:
    """Returns whether no place that it reads needs a division, if the tensor may have another
    shape."""
    return all(all(map(is_plain, read.at)) or _plain_shape(read, values) for read in reads([stage]))


def plainly_read(stage: Stage, edit: Edit) -> Stage:
    """The stage with views of what it would otherwise read at places that need divisions."""
    value = stage.value
    for read in dict.fromkeys(reads([stage])):
        shape = _plain_shape(read, edit.values)
        if shape and not all(map(is_plain, read.at)):
            at = unflat(flat(read.at, edit.values[read.tensor].shape), shape)
            value = replaced(value, read, Read(edit.shaped(read.tensor, shape), at))
    return replace(stage, value=value)


def _plain_shape(read: Read, values: Values) -> tuple[int, ...] | None:
    source = values.get(read.tensor)
    if source is None:
        return None
    return plain_shape(flat(read.at, source.shape), source.elements)


def reads_in_place(stage: Stage, tensor: str, shape: Sequence[int]) -> bool:
    """Returns whether each entry is made from the entry of `tensor` that has the same number."""
    own = flat(stage.axes, stage.shape)
    return all(flat(read.at, shape) == own for read in reads_of([stage], tensor))


def size(expression: Expression) -> int:
    """Parts that it is made of."""
    return sum(1 for _ in parts(expression))
