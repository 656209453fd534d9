"""Lets products read transposed operands as they lie, and makes one of several products of a value.

t[i0: 12, i1: 64, i2: 384] = k[i2, i0 * 64 + i1]         u[i0: 12, i1: 384, i2: 64] = k[…]
s = batch_matmul(q, t)                                   s = batch_matmul_nt(q, u)
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Axis, Integer, Program, Read, Stage
from kernelzoo.domain.workload import Workload
from services.tuner.graph.edit import Edit, readers_of
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
from services.tuner.graph.tables import is_piece

_TRANSPOSED = {"matmul": "matmul_nt", "batch_matmul": "batch_matmul_nt"}
COLUMNS: Mapping[str, Mapping[int, int]] = {
    "matmul": {1: -1},
    "matmul_u8i8": {1: 0, 4: -1, 5: -1},
    "matmul_u8i7": {1: 0, 4: -1, 5: -1},
}
"""Products that may be one: the places of their constant operands, each with the axis that columns
lie along. Others that are one read the same at other places."""
MAX_TOGETHER = 3
MAX_APART = 4
"""Queries, keys and values of one layer: how many, and how many calls from one to the next. More
would move weights far before the call that needs them."""


def transposes_folded(graph: Graph) -> Graph:
    """A product reads its right operand transposed where its entries then lie side by side."""
    edit = Edit(graph)
    makers = {node.output: node for node in graph.nodes}
    readers = readers_of(graph)
    for node in graph.nodes:
        transposed = _transposed(edit, makers, readers, node)
        edit.nodes.append(transposed or node)
    return edit.finished()


def _transposed(
    edit: Edit, makers: Mapping[str, Node], readers: Mapping[str, set[str]], node: Node
) -> Node | None:
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
    if maker is None or stage is None or len(readers[stage.name]) > 1:
        return None
    shape = workload.tensors[1].shape
    *batch, k, n = axes = axes_of(shape)
    at = viewed(axes, shape, stage.shape)
    whole = Stage(node.inputs[1], axes, at_places(stage, at), dtype=stage.dtype)
    if not _side_by_side(edit, whole, k) or _side_by_side(edit, whole, n):
        return None
    transposed = (*shape[:-2], shape[-1], shape[-2])
    name = edit.value(stage.name, DType.F32, transposed)
    plain = plainly_read(replace(whole, name=name, axes=(*batch, n, k)), edit)
    edit.nodes.append(node_of([plain], edit.values, maker.label))
    operators = "+".join((_TRANSPOSED[workload.operator.name], *workload.epilogue))
    made = Workload.of(operators, workload.extents, workload.dtype)
    return replace(node, op=made, inputs=(node.inputs[0], name, *node.inputs[2:]))


def _side_by_side(edit: Edit, stage: Stage, axis: Axis) -> bool:
    """Returns whether what it reads along an axis is consecutive."""
    forms = [flat(read.at, edit.values[read.tensor].shape) for read in reads([stage])]
    largest = [form for form in forms if axis in form.terms]
    return bool(largest) and all(form.terms[axis] == 1 for form in largest)


def products_joined(graph: Graph) -> Graph:
    """Products of one value with several constant weights become one product, of which programs
    read a part each. Those without a bias, as Whisper's keys are, have one of zeros there."""
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
    readers = readers_of(graph)
    open_groups: dict[tuple[object, ...], list[Node]] = {}
    groups: list[list[Node]] = []
    passed: dict[str, int] = {}
    for node in graph.nodes:
        if not isinstance(node.op, Workload) or len(node.inputs) < 2:
            continue
        passed[node.output] = len(passed)
        if not _may_join(graph, makers, readers[node.output], node):
            continue
        root = node.inputs[0]
        while root in makers and isinstance(makers[root].op, View):
            (root,) = makers[root].inputs
        extent = node.op.extent
        shared = _shared(node, node.op)
        kind = (node.op.operator.name, root, *shared, extent["m"], extent["k"])
        group = open_groups.get(kind, [])
        near = group and passed[node.output] - passed[group[-1].output] <= MAX_APART
        if not near or len(group) == MAX_TOGETHER or not _is_small(graph, [*group, node]):
            group = []
            groups.append(group)
            open_groups[kind] = group
        group.append(node)
    return {group[0].output: group for group in groups if len(group) > 1}


def _may_join(graph: Graph, makers: Mapping[str, Node], readers: set[str], node: Node) -> bool:
    """Returns whether it has constant weights, perhaps a constant bias, and programs read it."""
    if not isinstance(node.op, Workload) or node.op.operator.name not in COLUMNS:
        return False
    own = [*COLUMNS[node.op.operator.name], *range(_bias_place(node.op), len(node.inputs))]
    weights = all(node.inputs[place] in graph.constants for place in own)
    if not weights or node.op.epilogue not in ((), ("bias",)):
        return False
    found = [makers.get(reader) for reader in readers]
    return all(
        reader is not None
        and isinstance(reader.op, Program)
        and single_stage(reader, graph.values) is not None
        for reader in found
    )


def _bias_place(workload: Workload) -> int:
    return len(workload.operator.inputs)


def _shared(node: Node, workload: Workload) -> list[str]:
    """Operands behind the first that products which become one have in common."""
    places = range(1, _bias_place(workload))
    return [node.inputs[place] for place in places if place not in _own(workload)]


def _own(workload: Workload) -> Mapping[int, int]:
    return COLUMNS.get(workload.operator.name, {})


def _is_small(graph: Graph, group: list[Node]) -> bool:
    """Returns whether the product of all fits one workload."""
    weights = [graph.constants[node.inputs[1]] for node in group]
    columns = sum(graph.values[node.output].shape[-1] for node in group)
    return is_piece(columns, sum(each.nbytes for each in weights))


def _join(edit: Edit, group: list[Node]) -> None:
    first = group[0]
    assert isinstance(first.op, Workload)
    m, k, _ = first.op.extents
    columns = [edit.values[node.output].shape[-1] for node in group]
    behind = _bias_place(first.op)
    operands = list(first.inputs[:behind])
    for place, axis in _own(first.op).items():
        parts = [edit.constants[node.inputs[place]] for node in group]
        operands[place] = edit.constant(operands[place], np.concatenate(parts, axis=axis))
    named = [name for node in group for name in node.inputs[behind:]]
    if named:
        biases = [
            edit.constants[node.inputs[behind]]
            if node.inputs[behind:]
            else np.zeros(size, np.float32)
            for node, size in zip(group, columns, strict=True)
        ]
        operands.append(edit.constant(named[0], np.concatenate(biases, axis=-1)))
    operators = first.op.operator.name + "+bias" * bool(named)
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


MIN_TIED_BYTES = 1 << 20

UNPACKED_ROWS = 64
"""A product of so many rows reads a shared table as it lies, and copies panels of it as it goes.
The table is then in memory once: 154 MB less for GPT-2. With fewer rows copying would count."""


def tied_weights_shared(graph: Graph) -> Graph:
    """Weights that are the transpose of another constant, as of a table of embeddings, are read
    from that, so that a page fetches them once."""
    edit = Edit(graph)
    shared: set[str] = set()
    for node in graph.nodes:
        table = _table(graph, node)
        # What another product reads already is not given up for its own transpose.
        if table and node.inputs[1] not in shared:
            assert isinstance(node.op, Workload)
            shared.add(table)
            operators = "+".join(("matmul_nt", *node.op.epilogue))
            packed = node.op.extents[0] < UNPACKED_ROWS
            made = Workload.of(operators, node.op.extents, constant=("b",) if packed else ())
            edit.nodes.append(
                replace(node, op=made, inputs=(node.inputs[0], table, *node.inputs[2:]))
            )
        else:
            edit.nodes.append(node)
    return edit.finished()


def _table(graph: Graph, node: Node) -> str | None:
    if not isinstance(node.op, Workload) or node.op.operator.name != "matmul":
        return None
    weights = graph.constants.get(node.inputs[1])
    if weights is None or weights.nbytes < MIN_TIED_BYTES:
        return None
    for name, table in graph.constants.items():
        alike = table.dtype == weights.dtype and table.shape == weights.shape[::-1]
        begins = alike and name != node.inputs[1] and np.array_equal(table[0], weights[:, 0])
        if begins and np.array_equal(table, weights.T):
            return name
    return None
