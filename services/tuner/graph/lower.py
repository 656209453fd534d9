"""Every node becomes a workload: what is left of programs gets the key of a program.

A program of single entries is written with as few axes as it needs, so that the same computation
has one key wherever it stands:

    c[i0: 1, i1: 16, i2: 64] = x0[i0, i1, i2] + x1[i2]    c[i0: 16, i1: 64] = x0[i0, i1] + x1[i1]
    c[i0: 1, i1: 16, i2: 64] = x0[i0, i1, i2] * 2.0       c[i0: 1024] = x0[i0] * 2.0
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelzoo.domain.operators.expressions import (
    SCATTER,
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Expression,
    Integer,
    Program,
    Read,
    Scatter,
    Stage,
    parts,
    rebuilt,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import (
    axes_of,
    is_movement,
    node_of,
    reads,
    replaced,
    single_stage,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import Form, flat, plain_shape, unflat

MAX_NAME = 40


def lowered(graph: Graph) -> Graph:
    """A graph of workloads and views alone; no constant is viewed."""
    edit = Edit(graph)
    for node in graph.nodes:
        stage = single_stage(node, edit.values) if isinstance(node.op, Program) else None
        fewer = collapsed(stage, edit) if stage else None
        if stage and fewer:
            name = edit.value(node.output, edit.values[node.output].dtype, fewer.shape)
            _enter(edit, node_of([replace(fewer, name=name)], edit.values, node.label))
            _enter(edit, Node(View(), (name,), node.output, node.label))
        else:
            _enter(edit, node)
    return edit.finished()


def _enter(edit: Edit, node: Node) -> None:
    """A program with fewer axes may turn out to read every entry where it stands: a view."""
    match node.op:
        case View() if node.inputs[0] in edit.constants:
            shape = edit.values[node.output].shape
            edit.constants[node.output] = edit.constants[node.inputs[0]].reshape(shape)
        case Program():
            try:
                workload = Workload.of_program(program_name(node.op), node.op)
            except InvalidInput as error:
                raise InvalidInput(
                    f"node {node.label or node.output!r} becomes a program that no page can run: "
                    f"{error}. Give smaller dimensions, as by --dim, or divide it in the model"
                ) from error
            edit.nodes.append(replace(node, op=workload))
        case _:
            edit.nodes.append(node)


def collapsed(stage: Stage, edit: Edit) -> Stage | None:
    """The stage with neighbouring axes as one wherever all tensors lie so that this can be; None
    where nothing is to be won. Views are added for tensors that have another shape then."""
    if any(isinstance(inner, Read) for read in reads([stage]) for inner in parts_of_place(read)):
        return None
    forms = {read: flat(read.at, edit.values[read.tensor].shape) for read in reads([stage])}
    groups = _groups(stage, list(forms.values()))
    if len(groups) == len(stage.axes):
        return None
    axes = axes_of([_extent(group) for group in groups] or [1])
    value = stage.value
    for read, before in forms.items():
        form = _joined(before, groups, axes)
        shape = plain_shape(form, edit.values[read.tensor].elements)
        if shape is None:
            return None
        at = unflat(form, shape)
        value = replaced(value, read, Read(edit.shaped(read.tensor, shape), at))
    return replace(stage, axes=axes, value=_renamed_axes(value, groups, axes))


def parts_of_place(read: Read) -> Iterator[Expression]:
    for place in read.at:
        yield from parts(place)


def _groups(stage: Stage, forms: list[Form]) -> list[list[Axis]]:
    """Axes that can be one, the outermost first; axes of one entry are in none."""
    fixed = _fixed(stage, forms)
    groups: list[list[Axis]] = []
    for axis in stage.axes:
        if _extent([axis]) == 1:
            continue
        before = groups[-1][-1] if groups else None
        if before and not {before, axis} & fixed and _joins(before, axis, forms):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _fixed(stage: Stage, forms: list[Form]) -> set[Expression]:
    """Axes that are used otherwise than as a term of a place in a tensor."""
    terms = (atom for form in forms for atom in form.terms if not isinstance(atom, Axis))
    used = [inner for atom in terms for inner in parts(atom)]
    outside = stage.value
    for read in set(reads([stage])):
        outside = replaced(outside, read, Integer(0))
    return {part for part in (*used, *parts(outside)) if isinstance(part, Axis)}


def _joins(before: Axis, axis: Axis, forms: list[Form]) -> bool:
    extent = _extent([axis])
    return all(form.terms.get(before, 0) == form.terms.get(axis, 0) * extent for form in forms)


def _extent(group: list[Axis]) -> int:
    extent = 1
    for axis in group:
        assert isinstance(axis.extent, Integer)
        extent *= axis.extent.value
    return extent


def _joined(form: Form, groups: list[list[Axis]], axes: tuple[Axis, ...]) -> Form:
    terms = {
        _renamed_axes(atom, groups, axes): times
        for atom, times in form.terms.items()
        if not isinstance(atom, Axis)
    }
    for group, axis in zip(groups, axes, strict=False):
        if group[-1] in form.terms:
            terms[axis] = form.terms[group[-1]]
    return Form(terms, form.constant)


def _renamed_axes(
    value: Expression, groups: list[list[Axis]], axes: tuple[Axis, ...]
) -> Expression:
    """Axes that stay alone are called anew, and the one place along an axis of one entry is 0; the
    others are gone from the expression."""
    names = {group[0]: axis for group, axis in zip(groups, axes, strict=False) if len(group) == 1}

    def change(part: Expression) -> Expression:
        if isinstance(part, Read):
            return part
        if not isinstance(part, Axis):
            return rebuilt(part, change)
        return names.get(part, Integer(0) if _extent([part]) == 1 else part)

    return change(value)


# Names.

_WORDS = {
    BinaryOp.ADD: "add",
    BinaryOp.SUB: "sub",
    BinaryOp.MUL: "mul",
    BinaryOp.DIV: "div",
    BinaryOp.MIN: "min",
    BinaryOp.MAX: "max",
    BinaryOp.POW: "pow",
}


def program_name(program: Program) -> str:
    """Names what a program does, in the order in which it is done: `transpose`, `add_mul`,
    `mean`."""
    words: list[str] = []
    for stage in program.stages:
        if is_movement(stage):
            words.append(_movement(stage))
        else:
            words += [*_words(stage.value), *([f"{stage.reducer}"] if stage.reducer else [])]
    short = [word for word, before in zip(words, ["", *words], strict=False) if word != before]
    name = ""
    for word in short:
        if len(name) + 1 + len(word) > MAX_NAME:
            break
        name = f"{name}_{word}" if name else word
    return name or "copy"


def _movement(stage: Stage) -> str:
    assert isinstance(stage.value, Read)
    at = stage.value.at
    if any(isinstance(part, Read) for part in parts_of_place(stage.value)):
        return "gather"
    if at == stage.axes:
        return "cast"
    if set(map(str, at)) == {axis.name for axis in stage.axes}:
        return "transpose"
    return "slice" if len(at) == len(stage.axes) else "move"


def _words(expression: Expression) -> Iterator[str]:
    match expression:
        case Binary(op, left, right):
            yield from _words(left)
            yield from _words(right)
            if op in _WORDS:
                yield _WORDS[op]
        case Call(function, argument):
            yield from _words(argument)
            yield str(function)
        case Cast(argument):
            yield from _words(argument)
            yield "cast"
        case Choice(_, then, otherwise):
            yield from _words(then)
            yield from _words(otherwise)
            yield "where"
        case Scatter():
            yield SCATTER
