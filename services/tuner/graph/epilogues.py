"""Makes what follows a contraction its epilogue: bias, residual, mask, scale, relu, gelu, …

    c = matmul(a, b)                                     y = matmul+bias+gelu(a, b, bias)
    y = 0.5 * (c + bias) * (1 + erf((c + bias) * 0.7071))

Constants that scale and shift the columns of c go into constant weights and one bias, as those of
batch norms do.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import EPILOGUES
from kernelzoo.domain.operators.expressions import Expression, Program, Read, Stage
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Edit
from services.tuner.graph.formulas import (
    inlined,
    node_of,
    plainly_read,
    reads,
    reads_in_place,
    replaced,
    single_stage,
    size,
    stages_of,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import flat, remainder
from services.tuner.graph.steps import (
    Add,
    Apply,
    Divide,
    EntryStep,
    Multiply,
    Row,
    Subtract,
    affine_of,
    operand_of,
    steps_of,
)

WEIGHTS = 1
"""This operand of a contraction may be constant."""
SCALES = "b_scale"
"""Products of bytes have this operand, which takes what would scale weights of f32."""
MAX_SIZE = 120
"""Parts of an expression that is looked through."""


def epilogues_fused(graph: Graph, *, affine: bool = True) -> Graph:
    """Programs go, as far as they can be an epilogue, into a contraction that only they read.
    `affine` says whether constants may go into weights."""
    taken = _taken(graph)
    edit = Edit(graph)
    gone = {match.anchor.output for match in taken.values()}
    for node in graph.nodes:
        if node.output in taken:
            taken[node.output].absorb(edit, affine=affine)
        elif node.output not in gone:
            edit.nodes.append(node)
    return edit.finished()


def _taken(graph: Graph) -> dict[str, "_Match"]:
    """By the output of a program what takes it: the last contraction of which it is the only
    reader. Where a program adds two contractions, the other stays as it is."""
    uses = Counter(name for node in graph.nodes for name in dict.fromkeys(node.inputs))
    uses.update(port.value for port in graph.outputs)
    views = {node.output: node for node in graph.nodes if isinstance(node.op, View)}
    anchors: dict[str, Node] = {}
    taken: dict[str, _Match] = {}
    for node in graph.nodes:
        if isinstance(node.op, Workload) and node.op.operator.takes_epilogue:
            anchors[node.output] = node
            continue
        stage = single_stage(node, graph.values) if isinstance(node.op, Program) else None
        if stage is None or stage.dtype is not DType.F32 or size(stage.value) > MAX_SIZE:
            continue
        stage = _through_views(graph, views, uses, stage)
        named = {read.tensor for read in reads([stage])}
        for name in [name for name in reversed(anchors) if name in named and uses[name] == 1]:
            match = _Match.of(graph, anchors[name], node, stage)
            if match:
                taken[node.output] = match
                del anchors[name]
                break
    return taken


def _through_views(
    graph: Graph, views: Mapping[str, Node], uses: Mapping[str, int], stage: Stage
) -> Stage:
    """The stage reading what is viewed for it alone."""
    while True:
        named = {read.tensor for read in reads([stage])}
        name = next((name for name in named if name in views and uses[name] == 1), None)
        if name is None:
            return stage
        (viewed,) = stages_of(views[name], graph.values)
        stage = inlined(stage, viewed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A contraction, the program behind it, and the first steps of that program."""

    graph: Graph
    anchor: Node
    workload: Workload
    node: Node
    stage: Stage
    start: Read
    steps: tuple[EntryStep, ...]

    @staticmethod
    def of(graph: Graph, anchor: Node, node: Node, stage: Stage) -> "_Match | None":
        """None where the program does not begin with an epilogue."""
        value = graph.values[anchor.output]
        start, *others = (read for read in reads([stage]) if read.tensor == anchor.output)
        same = value.elements == prod(stage.shape) and all(other == start for other in others)
        if not same or not reads_in_place(stage, anchor.output, value.shape):
            return None
        assert isinstance(anchor.op, Workload)
        match = _Match(
            graph=graph,
            anchor=anchor,
            workload=anchor.op,
            node=node,
            stage=stage,
            start=start,
            steps=tuple(steps_of(stage.value, start)),
        )
        first = match.steps[0] if match.steps else None
        return match if first and (match._row(first) is not None or match._name(first)) else None

    def absorb(self, edit: Edit, *, affine: bool) -> None:
        """Adds the contraction with its epilogue, and what of the program is left: a view, if all
        of it is done."""
        operands = list(self.anchor.inputs)
        workload, steps = self.workload, list(self.steps)
        done: Expression = self.start
        if affine and self._has_own_weights(edit):
            workload, done = self._folded(edit, workload, operands, steps)
        while steps:
            step = steps.pop(0)
            name = self._name(step)
            try:
                workload = with_epilogue(workload, name)
            except InvalidInput:
                break
            operands += self._operands(edit, step, workload, name)
            done = step.whole
        edit.nodes.append(replace(self.anchor, op=workload, inputs=tuple(operands)))
        rest = replace(self.stage, value=replaced(self.stage.value, done, self.start))
        edit.nodes.append(node_of([plainly_read(rest, edit)], edit.values, self.node.label))

    def _has_own_weights(self, edit: Edit) -> bool:
        weights = self.anchor.inputs[_scaled_operand(self.workload)]
        own = weights in self.graph.constants and edit.uses[weights] == 1
        return own and not self.workload.epilogue and _columns_axis(self.workload) is not None

    def _folded(
        self, edit: Edit, workload: Workload, operands: list[str], steps: list[EntryStep]
    ) -> tuple[Workload, Expression]:
        """Takes the constant steps: weights times `scale`, and `shift` as the bias. Steps that
        leave the numbers of f32, as a division by 0, are none of the weights."""
        place = _scaled_operand(workload)
        weights = self.graph.constants[operands[place]]
        with np.errstate(all="ignore"):
            found = affine_of(steps, self._row)
            scale, shift = found.scale, found.shift
            along = scale[:, None] if _columns_axis(workload) == 0 and scale.size > 1 else scale
            scaled = weights * along if (scale != 1).any() else None
        if not np.isfinite(shift).all() or not (scaled is None or np.isfinite(scaled).all()):
            return workload, self.start
        if scaled is not None:
            operands[place] = edit.constant(operands[place], scaled)
        done = steps[found.steps - 1].whole if found.steps else self.start
        del steps[: found.steps]
        if shift.any():
            workload = with_epilogue(workload, "bias")
            columns = workload.output.shape[-1]
            bias = np.broadcast_to(shift, (columns,)).astype(np.float32)
            operands.append(edit.constant(f"{self.anchor.output}.bias", bias))
        return workload, done

    def _row(self, step: EntryStep) -> Row | None:
        """Returns what a step adds or multiplies by in each column, if it never changes."""
        operand = operand_of(step)
        if isinstance(operand, float):
            return np.array([operand], np.float32)
        if operand is None or operand.tensor not in self.graph.constants:
            return None
        entries = self.graph.constants[operand.tensor].reshape(-1)
        is_row = entries.size == 1 or self._shape_of(operand) == "column"
        return entries.astype(np.float32) if is_row else None

    def _shape_of(self, read: Read) -> str:
        """Says which entries a read takes: one, that of the column, that of the place within the
        last two axes, or that of the same number."""
        value = self.graph.values[read.tensor]
        if value.dtype is not DType.F32:
            return ""
        shape = self.workload.output.shape
        place = flat(read.at, value.shape)
        entry = flat(self.stage.axes, self.stage.shape)
        if value.elements == 1:
            return "scalar"
        if value.elements == shape[-1] and place == remainder(entry, shape[-1]):
            return "column"
        if value.elements == prod(shape) and place == entry:
            return "entry"
        matrix = prod(shape[-2:])
        if value.elements == matrix and place == remainder(entry, matrix):
            return "matrix"
        return ""

    def _name(self, step: EntryStep) -> str:
        """The epilogue that a step is; '' if it is none."""
        match step:
            case Apply(_, function):
                return function
            case Add(_, float()):
                return "bias"
            case Multiply(_, float()):
                return "scale"
            case Add(_, Read() as read):
                return _ADDED.get(self._shape_of(read), "")
            case Multiply(_, Read() as read):
                return _MULTIPLIED.get(self._shape_of(read), "")
            case Subtract() | Divide() if self._row(step) is not None:
                return "bias" if isinstance(step, Subtract) else "scales"
        return ""

    def _operands(self, edit: Edit, step: EntryStep, workload: Workload, name: str) -> list[str]:
        """The value that the epilogue added last reads, in the shape that it has there."""
        if isinstance(step, Apply):
            return []
        shape = workload.tensors[-2].shape
        if isinstance(step, Add | Multiply) and isinstance(step.operand, Read):
            return [edit.shaped(step.operand.tensor, shape)]
        row = self._row(step)
        assert row is not None
        if isinstance(step, Subtract | Divide):
            with np.errstate(divide="ignore"):
                row = -row if isinstance(step, Subtract) else np.reciprocal(row)
        entries = np.broadcast_to(row, shape).astype(np.float32)
        return [edit.constant(f"{self.anchor.output}.{name}", entries)]


_ADDED = {"column": "bias", "entry": "residual", "matrix": "mask"}
_MULTIPLIED = {"scalar": "scale", "column": "scales"}


def with_epilogue(workload: Workload, name: str) -> Workload:
    """Raises InvalidInput for an epilogue that there is not, or not there."""
    if name not in EPILOGUES:
        raise InvalidInput(f"{name!r} is no epilogue")
    operators = "+".join((workload.operator.name, *workload.epilogue, name))
    return Workload.of(operators, workload.extents, workload.dtype, workload.constant)


def _scaled_operand(workload: Workload) -> int:
    """The place of the operand that constant scales of columns go into."""
    names = [name for name, _ in workload.operator.inputs]
    return names.index(SCALES) if SCALES in names else WEIGHTS


def _columns_axis(workload: Workload) -> int | None:
    """The axis of the weights that the columns of the output lie along."""
    weights = workload.operator.inputs[_scaled_operand(workload)][1]
    output = workload.operator.output[1]
    if output[-1] == weights[-1]:
        return -1
    return 0 if output[-1] == weights[0] else None
