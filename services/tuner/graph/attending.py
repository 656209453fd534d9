"""Both products of an attention and the softmax between them become one program.

    s = batch_matmul_nt+scale+mask(q, k)            c[i, h, e] = attention(x)
    p = softmax(s)                                  o[h, i, e] = c[i, h, e]
    o = batch_matmul(p, v)

Where q, k and v are columns of a matrix x, the program reads them there, so that nothing moves
them before. Where keys and values are repeated for several heads, it reads what is repeated. What
it makes lies row by row, as the product behind it wants to read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import (
    NAME,
    SCORED,
    HeadsOperand,
    ManyRowsAttention,
    attention,
)
from kernelzoo.domain.operators.expressions import Program, Read, Stage
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Edit, readers_of
from services.tuner.graph.formulas import at_places, axes_of, node_of, single_stage
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import flat, viewed


def attention_joined(graph: Graph) -> Graph:
    edit = Edit(graph)
    joining = _Joining(edit, {node.output: node for node in graph.nodes}, readers_of(graph))
    for node in graph.nodes:
        found = joining.found(node)
        if found is None or not joining.join(found):
            edit.nodes.append(node)
    return edit.finished()


@dataclass(frozen=True, slots=True)
class _Found:
    """The product that makes scores, by its node and workload, and the one that mixes values."""

    scores: Node
    scored: Workload
    mixing: Node
    mixed: Workload


@dataclass(frozen=True, slots=True)
class _Joining:
    edit: Edit
    makers: Mapping[str, Node]
    readers: Mapping[str, set[str]]

    def found(self, node: Node) -> _Found | None:
        """The attention that ends in a product, where nothing else reads its scores."""
        mixed = _workload(node, "batch_matmul")
        softmax = self._only_maker(node.inputs[0]) if mixed else None
        rows = _workload(softmax, "softmax")
        scores = self._only_maker(softmax.inputs[0]) if softmax and rows else None
        scored = _workload(scores, "batch_matmul_nt")
        if not (mixed and rows and scores and scored) or mixed.epilogue:
            return None
        alike = rows.extent["n"] == scored.extent["n"] == mixed.extent["k"]
        heads = scored.extent["b"] == mixed.extent["b"]
        plain = all(name in SCORED for name in scored.epilogue)
        return _Found(scores, scored, node, mixed) if alike and heads and plain else None

    def join(self, found: _Found) -> bool:
        """Adds the program and what moves its entries to their places; False where there is no
        such program."""
        given, inputs = self._given(found)
        if not given.in_quads:
            return False
        workload = Workload.of_program(NAME, attention(given))
        try:
            workload.refuse_oversize()
        except InvalidInput:
            return False
        output, label = found.mixing.output, found.mixing.label
        made = self.edit.value(output, DType.F32, (given.m, given.heads, given.width))
        self.edit.nodes.append(Node(workload, inputs, made, found.scores.label))
        h, i, e = axes_of((given.heads, given.m, given.width))
        moved = Stage(output, (h, i, e), Read(made, (i, h, e)))
        self.edit.nodes.append(node_of([moved], self.edit.values, label))
        return True

    def _given(self, found: _Found) -> tuple[ManyRowsAttention, tuple[str, ...]]:
        """The attention, and the names of its inputs."""
        extent = found.scored.extent
        heads, m, n, head_dim = (extent[axis] for axis in ("b", "m", "n", "k"))
        width = found.mixed.extent["n"]
        names: list[str] = []
        cached = (
            (found.scores.inputs[1], (heads, n, head_dim)),
            (found.mixing.inputs[1], (heads, n, width)),
        )
        shared = self._shared(heads, cached)
        queries = self._operand(found.scores.inputs[0], (heads, m, head_dim), 1, names)
        keys, values = (self._operand(*each, shared, names) for each in cached)
        given = ManyRowsAttention(
            heads=heads,
            m=m,
            n=n,
            head_dim=head_dim,
            width=width,
            queries=queries,
            keys=keys,
            values=values,
            epilogue=found.scored.epilogue,
        )
        return given, (*names, *found.scores.inputs[2:])

    def _shared(self, heads: int, cached: Sequence[tuple[str, tuple[int, int, int]]]) -> int:
        """Counts the heads for which both keys and values are repeated, given by name and shape."""
        divisors = (each for each in range(2, heads + 1) if heads % each == 0)
        alike = (each for each in divisors if all(self._place(*one, each) for one in cached))
        return next(alike, 1)

    def _operand(
        self, name: str, shape: tuple[int, int, int], shared: int, names: list[str]
    ) -> HeadsOperand:
        """Finds where an operand lies; the name of its input is added to `names`."""
        source, place = self._place(name, shape, shared) or (name, HeadsOperand(place=0))
        read = self.edit.shaped(source, place.shape(*shape))
        if read not in names:
            names.append(read)
        return replace(place, place=names.index(read))

    def _place(
        self, name: str, shape: tuple[int, int, int], shared: int
    ) -> tuple[str, HeadsOperand] | None:
        """The value that has the operand as columns, or once for so many heads, and where."""
        maker = self._maker(name)
        stage = None
        if maker is not None and isinstance(maker.op, Program):
            stage = single_stage(maker, self.edit.values)
        if stage is None:
            return None
        heads, rows, entries = shape
        own_heads = heads // shared
        split = (own_heads, shared, rows, entries)
        h, _, i, e = axes = axes_of(split)
        value = at_places(stage, viewed(axes, split, stage.shape))
        if not isinstance(value, Read):
            return None
        source = self.edit.values[value.tensor]
        form = flat(value.at, source.shape)
        columns = source.elements // rows

        def lies(of_head: int, of_row: int) -> bool:
            steps = ((h, of_head, own_heads), (i, of_row, rows), (e, 1, entries))
            return dict(form.terms) == {axis: step for axis, step, extent in steps if extent > 1}

        inside = 0 <= form.constant <= columns - own_heads * entries
        if lies(entries, columns) and source.elements % rows == 0 and inside:
            first = form.constant
            operand = HeadsOperand(place=0, columns=columns, first=first, shared=shared)
            return value.tensor, operand
        alone = source.elements == own_heads * rows * entries
        if shared > 1 and lies(rows * entries, entries) and alone and not form.constant:
            return value.tensor, HeadsOperand(place=0, shared=shared)
        return None

    def _maker(self, name: str) -> Node | None:
        """Finds the node that makes the entries of a value."""
        maker = self.makers.get(name)
        while maker is not None and isinstance(maker.op, View):
            maker = self.makers.get(maker.inputs[0])
        return maker

    def _only_maker(self, name: str) -> Node | None:
        """Finds the node that makes the entries of a value, if one node alone reads it."""
        maker = self._maker(name)
        once = maker is not None and len(self.readers[maker.output]) == 1
        return maker if once else None


def _workload(node: Node | None, operator: str) -> Workload | None:
    """Returns the workload of a node that carries out the operator, with no weights that stay the
    same."""
    if node is None or not isinstance(node.op, Workload) or node.op.constant:
        return None
    return node.op if node.op.operator.name == operator else None
