"""What products read: transposed operands as they lie; and several products of a value in one.

t[i0: 12, i1: 64, i2: 384] = k[i2, i0 * 64 + i1]         u[i0: 12, i1: 384, i2: 64] = k[…]
s = batch_matmul(q, t)                                   s = batch_matmul_nt(q, u)
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Axis, Integer, Program, Read, Stage
from kernelzoo.domain.workload import Workload
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import (
    at_places,
    axes_of,
    node_of,
    plainly_read,
    reads,
    single_stage,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import flat, viewed

_TRANSPOSED = {"matmul": "matmul_nt", "batch_matmul": "batch_matmul_nt"}
MAX_TOGETHER = 3
"""Queries, keys and values. More would move weights far before the call that needs them."""


def transposes_folded(graph: Graph) -> Graph:
    """A product reads its right operand transposed where its entries then lie side by side."""
    edit = Edit(graph)
    makers = {node.output: node for node in graph.nodes}
    for node in graph.nodes:
        turned = _turned(edit, makers, node)
        edit.nodes.append(turned or node)
    return edit.finished()


def _turned(edit: Edit, makers: Mapping[str, Node], node: Node) -> Node | None:
    """The product with its right operand transposed, which is added; None where nothing is won."""
    if not isinstance(node.op, Workload) or node.op.operator.name not in _TRANSPOSED:
        return None
    workload = node.op
    if workload.extent["m"] == 1 or workload.constant:
        return None
    maker = makers.get(node.inputs[1])
    while maker and isinstance(maker.op, View):
        maker = makers.get(maker.inputs[0])
    stage = single_stage(maker, edit.values) if maker and isinstance(maker.op, Program) else None
    if maker is None or stage is None or edit.uses[stage.name] > 1:
        return None
    shape = workload.tensors[1].shape
    *batch, k, n = axes = axes_of(shape)
    at = viewed(axes, shape, stage.shape)
    whole = Stage(node.inputs[1], axes, at_places(stage, at), dtype=stage.dtype)
    if not _side_by_side(edit, whole, k) or _side_by_side(edit, whole, n):
        return None
    turned = (*shape[:-2], shape[-1], shape[-2])
    name = edit.value(stage.name, DType.F32, turned)
    plain = plainly_read(replace(whole, name=name, axes=(*batch, n, k)), edit)
    edit.nodes.append(node_of([plain], edit.values, maker.label))
    operators = "+".join((_TRANSPOSED[workload.operator.name], *workload.epilogue))
    made = Workload.of(operators, workload.extents, workload.dtype)
    return replace(node, op=made, inputs=(node.inputs[0], name, *node.inputs[2:]))


def _side_by_side(edit: Edit, stage: Stage, axis: Axis) -> bool:
    """Whether what it reads along an axis is consecutive."""
    forms = [flat(read.at, edit.values[read.tensor].shape) for read in reads([stage])]
    largest = [form for form in forms if axis in form.terms]
    return bool(largest) and all(form.terms[axis] == 1 for form in largest)


def products_joined(graph: Graph) -> Graph:
    """Products of one value with several constant weights become one product, of which programs
    read a part each."""
    edit = Edit(graph)
    makers = {node.output: node for node in graph.nodes}
    groups = _groups(graph, makers)
    joined = {node.output for group in groups.values() for node in group}
    for node in graph.nodes:
        if node.output in groups:
            _join(edit, groups[node.output])
        elif node.output not in joined:
            edit.nodes.append(node)
    return edit.finished()


def _groups(graph: Graph, makers: Mapping[str, Node]) -> dict[str, list[Node]]:
    """Products that may be one, by the output of the first."""
    readers = _readers(graph)
    alike: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if _may_join(graph, readers, node):
            assert isinstance(node.op, Workload)
            root = node.inputs[0]
            while root in makers and isinstance(makers[root].op, View):
                (root,) = makers[root].inputs
            extent = node.op.extent
            alike[root, extent["m"], extent["k"], node.op.epilogue].append(node)
    parts = (
        group[start : start + MAX_TOGETHER]
        for group in alike.values()
        for start in range(0, len(group), MAX_TOGETHER)
    )
    return {group[0].output: group for group in parts if len(group) > 1}


def _readers(graph: Graph) -> dict[str, list[Node | None]]:
    """The nodes that read a value, through views too; None for an output of the model."""
    readers: dict[str, list[Node | None]] = defaultdict(list)
    for port in graph.outputs:
        readers[port.value].append(None)
    for node in reversed(graph.nodes):
        for name in dict.fromkeys(node.inputs):
            readers[name] += readers[node.output] if isinstance(node.op, View) else [node]
    return readers


def _may_join(graph: Graph, readers: Mapping[str, list[Node | None]], node: Node) -> bool:
    """Whether it has constant weights, perhaps a constant bias, and programs read it."""
    if not isinstance(node.op, Workload) or node.op.operator.name != "matmul":
        return False
    weights = all(name in graph.constants for name in node.inputs[1:])
    if not weights or node.op.epilogue not in ((), ("bias",)):
        return False
    return all(
        reader is not None
        and isinstance(reader.op, Program)
        and single_stage(reader, graph.values) is not None
        for reader in readers[node.output]
    )


def _join(edit: Edit, group: list[Node]) -> None:
    first = group[0]
    assert isinstance(first.op, Workload)
    m, k, _ = first.op.extents
    operands = [first.inputs[0]]
    for number in range(1, len(first.inputs)):
        entries = [edit.constants[node.inputs[number]] for node in group]
        operands.append(edit.constant(first.inputs[number], np.concatenate(entries, axis=-1)))
    columns = [edit.values[node.output].shape[-1] for node in group]
    operators = "+".join(("matmul", *first.op.epilogue))
    workload = Workload.of(operators, (m, k, sum(columns)), constant=first.op.constant)
    made = edit.value(first.output, DType.F32, (m, sum(columns)))
    edit.nodes.append(Node(workload, tuple(operands), made, first.label))
    start = 0
    for node, size in zip(group, columns, strict=True):
        i, j = axes_of((m, size))
        column = j + Integer(start) if start else j
        part = Stage(node.output, (i, j), Read(made, (i, column)))
        edit.nodes.append(node_of([part], edit.values, node.label))
        start += size
