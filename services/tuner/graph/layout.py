"""Images lie channels-last wherever programs make them, as convolutions read and write them.

    c  [1, 56, 56, 64]   conv2d                     c   [1, 56, 56, 64]   conv2d
    n  [1, 64, 56, 56]   c[i0, i2, i3, i1]          n'  [1, 56, 56, 64]   c[i0, i1, i2, i3], a view
    r  [1, 64, 56, 56]   max(n[…], 0)               r'  [1, 56, 56, 64]   max(n'[…], 0)
    t  [1, 56, 56, 64]   r[i0, i3, i1, i2]          t   [1, 56, 56, 64]   r'[i0, i1, i2, i3], a view

A program can write its output, and read its inputs, in any order of axes. So all images that
programs connect change together, and the transposes between them become views.
"""

from collections.abc import Iterator
from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Expression,
    Program,
    Read,
    Stage,
    rebuilt,
)
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import axes_of, node_of, single_stage, stages_of
from services.tuner.graph.graph import Graph, Node, Value

RANK = 4
TO_LAST = (0, 2, 3, 1)
"""Axis n of the image channels-last is this axis of the image as ONNX has it."""
TO_FIRST = (0, 3, 1, 2)


def channels_last(graph: Graph) -> Graph:
    """Whoever else reads such an image, as an output of the model, gets a copy as it was."""
    images = _images(graph)
    edit = Edit(graph)
    last = {name: edit.value(name, DType.F32, _last(graph.values[name])) for name in images}
    outputs = {port.value for port in graph.outputs}
    for node in graph.nodes:
        if not isinstance(node.op, Program):
            edit.nodes.append(node)
            continue
        stages = [_reading(stage, last) for stage in stages_of(node, graph.values)]
        if node.output in last:
            stages[-1] = _turned(stages[-1], last[node.output])
        edit.nodes.append(node_of(stages, edit.values, node.label))
        if node.output in last and (node.output in outputs or _is_read_elsewhere(graph, node)):
            edit.nodes.append(_restored(edit, node, last[node.output]))
    return edit.finished()


def _last(value: Value) -> tuple[int, ...]:
    return tuple(value.shape[axis] for axis in TO_LAST)


def _images(graph: Graph) -> set[str]:
    """Values made by programs that are connected, by programs, to a transpose of channels."""
    near: dict[str, set[str]] = {}
    seeds: set[str] = set()
    for node in graph.nodes:
        if not isinstance(node.op, Program):
            continue
        made = {name for name in (node.output, *node.inputs) if _may_be_image(graph, name)}
        for name in made:
            near.setdefault(name, set()).update(made)
        seeds.update(_seeds(graph, node))
    found: set[str] = set()
    todo = [name for name in seeds if name in near]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(near[name])
    programs = {node.output for node in graph.nodes if isinstance(node.op, Program)}
    transposed = {node.output for node in graph.nodes if _order(graph, node) == TO_LAST}
    return (found & programs) - transposed


def _may_be_image(graph: Graph, name: str) -> bool:
    value = graph.values[name]
    return len(value.shape) == RANK and value.dtype is DType.F32 and name not in graph.constants


def _seeds(graph: Graph, node: Node) -> Iterator[str]:
    """What a transpose has on its side where the channels are second."""
    order = _order(graph, node)
    if order == TO_LAST:
        yield node.inputs[0]
    if order == TO_FIRST:
        yield node.output


def _order(graph: Graph, node: Node) -> tuple[int, ...]:
    """Which axis of its input each axis of a transpose of rank 4 is; () for other nodes."""
    stage = single_stage(node, graph.values) if isinstance(node.op, Program) else None
    if stage is None or len(stage.axes) != RANK:
        return ()
    match stage.value:
        case Read(tensor, at) if graph.values[tensor].elements == graph.values[stage.name].elements:
            order = tuple(at.index(axis) if axis in at else -1 for axis in stage.axes)
            return order if -1 not in order else ()
    return ()


def _reading(stage: Stage, last: dict[str, str]) -> Stage:
    """The stage with images read where they now lie."""

    def change(part: Expression) -> Expression:
        match rebuilt(part, change):
            case Read(tensor, at) if tensor in last:
                return Read(last[tensor], tuple(at[axis] for axis in TO_LAST))
            case other:
                return other

    return replace(stage, value=change(stage.value))


def _turned(stage: Stage, name: str) -> Stage:
    return replace(stage, name=name, axes=tuple(stage.axes[axis] for axis in TO_LAST))


def _is_read_elsewhere(graph: Graph, node: Node) -> bool:
    users = (other for other in graph.nodes if node.output in other.inputs)
    return any(not isinstance(user.op, Program) for user in users)


def _restored(edit: Edit, node: Node, last: str) -> Node:
    value = edit.values[node.output]
    axes = axes_of(value.shape)
    copied = Stage(value.name, axes, Read(last, tuple(axes[axis] for axis in TO_LAST)))
    return node_of([copied], edit.values, node.label)
