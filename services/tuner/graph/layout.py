"""Images lie channels-last wherever programs make them, as convolutions read and write them.

    c  [1, 56, 56, 64]   conv2d                     c   [1, 56, 56, 64]   conv2d
    n  [1, 64, 56, 56]   c[i0, i2, i3, i1]          n'  [1, 56, 56, 64]   c[i0, i1, i2, i3], a view
    r  [1, 64, 56, 56]   max(n[…], 0)               r'  [1, 56, 56, 64]   max(n'[…], 0)
    t  [1, 56, 56, 64]   r[i0, i3, i1, i2]          t   [1, 56, 56, 64]   r'[i0, i1, i2, i3], a view

A program can write its output, and read its inputs, in any order of axes, unless it takes values
one after another. So all images that programs connect change together, and the transposes between
them become views. Signals [b, c, n] beside a convolution over one axis lie so, too.
"""

from collections.abc import Mapping
from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Expression,
    Program,
    Read,
    Stage,
    rebuilt,
)
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.workload import Workload
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import axes_of, node_of, single_stage, stages_of
from services.tuner.graph.graph import Graph, Node, Value, View

RANK = 4
TO_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}
"""Axis n of the image channels-last is this axis of the image as ONNX has it, by the rank: of an
image with rows, or of a signal."""
TO_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2)}
_DTYPES = (DType.F32, DType.I32)
"""Images are of real numbers, or of bytes that these are made of."""


def channels_last(graph: Graph) -> Graph:
    """Whoever else reads such an image, as an output of the model, gets a copy as it was."""
    images = _images(graph)
    edit = Edit(graph)
    held = {name: graph.values[name] for name in images}
    last = {name: edit.value(name, each.dtype, _last(each)) for name, each in held.items()}
    outputs = {port.value for port in graph.outputs}
    for node in graph.nodes:
        if not _has_any_layout(node):
            edit.nodes.append(node)
            continue
        stages = [_reading(stage, last) for stage in stages_of(node, graph.values)]
        if node.output in last:
            stages[-1] = _transposed(stages[-1], last[node.output])
        edit.nodes.append(node_of(stages, edit.values, node.label))
        if node.output in last and (node.output in outputs or _is_read_elsewhere(graph, node)):
            edit.nodes.append(_restored(edit, node, last[node.output]))
    return edit.finished()


_POOLS = {"row_mean": "avg_pool2d", "row_max": "max_pool2d"}


def pooling_channels_last(graph: Graph) -> Graph:
    """A mean or the largest over whole images is pooling, which reads them channels-last."""
    images = _images(graph)
    makers = {node.output: node for node in graph.nodes}
    edit = Edit(graph)
    for node in graph.nodes:
        image = _whole_image(graph, makers, node)
        if image not in images:
            edit.nodes.append(node)
            continue
        assert isinstance(node.op, Workload)
        b, h, w, c = shape = _last(graph.values[image])
        axes = axes_of(shape)
        last = edit.value(image, DType.F32, shape)
        stage = Stage(last, axes, Read(image, tuple(axes[axis] for axis in TO_FIRST[RANK])))
        key = f"{_POOLS[node.op.operator.name]}:f32:b{b}h{h}w{w}c{c}kh{h}kw{w}stride1pad0"
        averaged = edit.value(node.output, DType.F32, (b, 1, 1, c))
        edit.nodes.append(node_of([stage], edit.values, node.label))
        edit.nodes.append(Node(Workload.parse(key), (last,), averaged, node.label))
        edit.nodes.append(Node(View(), (averaged,), node.output, node.label))
    return edit.finished()


def _whole_image(graph: Graph, makers: Mapping[str, Node], node: Node) -> str:
    """The image of which each row is a channel; '' for other nodes."""
    if not isinstance(node.op, Workload) or node.op.operator.name not in _POOLS:
        return ""
    name = node.inputs[0]
    while name in makers and isinstance(makers[name].op, View):
        (name,) = makers[name].inputs
        shape = graph.values[name].shape
        if len(shape) == RANK and node.op.extents == (shape[0] * shape[1], shape[2] * shape[3]):
            return name
    return ""


def _last(value: Value) -> tuple[int, ...]:
    return tuple(value.shape[axis] for axis in TO_LAST[len(value.shape)])


def _has_any_layout(node: Node) -> bool:
    """Returns whether it reads and writes tensors in whatever order of axes: a recurrence has its
    steps along the first, and a program that takes values in order has each in its place."""
    if not isinstance(node.op, Program):
        return False
    return not (node.op.is_ordered or is_recurrent(node.op))


def _images(graph: Graph) -> set[str]:
    """Values made by programs that are connected, by programs, to what a transpose has on its side
    where the channels are second."""
    near: dict[str, set[str]] = {}
    seeds: set[str] = set()
    signals = _signals(graph)
    for node in graph.nodes:
        if not _has_any_layout(node):
            continue
        order = _order(graph, node)
        if order in (TO_LAST[RANK], TO_FIRST[RANK]):
            seeds.add(node.inputs[0] if order == TO_LAST[RANK] else node.output)
            continue
        if len(order) == 3:
            # It reads a signal in any layout, and makes what need be none.
            seeds.update(signals & {node.inputs[0], node.output})
            continue
        rank = len(graph.values[node.output].shape)
        made = {name for name in (node.output, *node.inputs) if _may_be_image(graph, name, rank)}
        for name in made:
            near.setdefault(name, set()).update(made)
    found: set[str] = set()
    todo = list(seeds)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(near.get(name, ()))
    made_in_any = {node.output for node in graph.nodes if _has_any_layout(node)}
    return {name for name in found & made_in_any if _may_be_image(graph, name)}


def _signals(graph: Graph) -> set[str]:
    """Values [b, c, n] that a transpose makes of, or makes to, a signal [b, n, c] which is an image
    of rows under another shape, or is so after one more program, as a bias or a pad."""
    views = [node for node in graph.nodes if isinstance(node.op, View)]
    rows = {name for node in views for name in _rows(graph, node)}
    programs = [node for node in graph.nodes if _has_any_layout(node)]
    transposes = [node for node in programs if _order(graph, node) == TO_LAST[3]]
    made = {node.output for node in programs if rows & set(node.inputs)}
    read = {name for node in programs if node.output in rows for name in node.inputs}
    found = {node.output for node in transposes if node.inputs[0] in rows | made}
    return found | {node.inputs[0] for node in transposes if node.output in rows | read}


def _rows(graph: Graph, view: Node) -> set[str]:
    """The signal [b, n, c] on one side of a view that has an image [b, h, w, c] on the other."""
    names = (view.inputs[0], view.output)
    found = set()
    for signal, image in (names, names[::-1]):
        shape, whole = graph.values[signal].shape, graph.values[image].shape
        if len(shape) == 3 and len(whole) == RANK and (shape[0], shape[2]) == (whole[0], whole[3]):
            found.add(signal)
    return found


def _may_be_image(graph: Graph, name: str, rank: int | None = None) -> bool:
    """Returns whether it is one of that rank, or of any that images have."""
    value = graph.values[name]
    ranks = TO_LAST if rank is None else (rank,)
    is_image = len(value.shape) in TO_LAST and len(value.shape) in ranks
    return is_image and value.dtype in _DTYPES and name not in graph.constants


def _order(graph: Graph, node: Node) -> tuple[int, ...]:
    """Says which axis of its input each axis of a transpose of an image is; () for other nodes."""
    stage = single_stage(node, graph.values) if isinstance(node.op, Program) else None
    if stage is None or len(stage.axes) not in TO_LAST:
        return ()
    match stage.value:
        case Read(tensor, at) if graph.values[tensor].elements == graph.values[stage.name].elements:
            order = tuple(at.index(axis) if axis in at else -1 for axis in stage.axes)
            return order if -1 not in order and len(at) == len(order) else ()
    return ()


def _reading(stage: Stage, last: dict[str, str]) -> Stage:
    """The stage with images read where they now lie."""

    def change(part: Expression) -> Expression:
        match rebuilt(part, change):
            case Read(tensor, at) if tensor in last:
                return Read(last[tensor], tuple(at[axis] for axis in TO_LAST[len(at)]))
            case other:
                return other

    return replace(stage, value=change(stage.value))


def _transposed(stage: Stage, name: str) -> Stage:
    return replace(
        stage, name=name, axes=tuple(stage.axes[axis] for axis in TO_LAST[len(stage.axes)])
    )


def _is_read_elsewhere(graph: Graph, node: Node) -> bool:
    users = (other for other in graph.nodes if node.output in other.inputs)
    return not all(map(_has_any_layout, users))


def _restored(edit: Edit, node: Node, last: str) -> Node:
    value = edit.values[node.output]
    axes = axes_of(value.shape)
    at = tuple(axes[axis] for axis in TO_LAST[len(axes)])
    copied = Stage(value.name, axes, Read(last, at), dtype=value.dtype)
    return node_of([copied], edit.values, node.label)
