"""Elementwise chains and movements become one program each.

    t0[i0: 4] = a[i0] * 0.5          y[i0: 4] = max(a[i0] * 0.5, b[i0])
    y[i0: 4] = max(t0[i0], b[i0])

A value that several nodes read is computed once. Views are free: a program reads through them where
the place then needs no division. A program that takes values in order stays alone.
"""

from dataclasses import replace

from kernelzoo.domain.operators.expressions import (
    Call,
    Function,
    Program,
    Read,
    Stage,
    depth,
    parts,
)
from services.tuner.graph.building import MOST_OPERANDS
from services.tuner.graph.edit import Edit, readers_of
from services.tuner.graph.formulas import (
    at_places,
    axes_of,
    inlined,
    is_movement,
    is_plainly_read,
    is_view,
    node_of,
    plainly_read,
    reads,
    reads_in_place,
    reads_of,
    replaced,
    single_stage,
    size,
    stages_of,
    tidied,
)
from services.tuner.graph.graph import Graph, Node, View
from services.tuner.graph.places import flat, unflat

OF_SOME = frozenset((Function.SQRT, Function.RSQRT, Function.LOG, Function.LOG1P))
"""These functions are not defined on all numbers: of sums of what a check draws, from -1/2 to 1/2,
they may hardly have an entry that can be checked."""
MAX_SIZE = 400
"""Parts of the expressions of one program, so that kernels stay small."""
MOST_DEPTH = 80
"""Expressions within one another. Programs may have some more (`checking.MAX_DEPTH`), which later
rules add: epilogues, and casts of f16."""


def elementwise_merged(graph: Graph) -> Graph:
    """Programs that compute entries from entries of the same number are merged. What moves entries
    stays apart, so that a contraction can take what follows it."""
    return _merged(graph, movements=False)


def movements_merged(graph: Graph) -> Graph:
    """Programs of one stage are merged into those that read them, from whatever place; a program
    that reduces takes what is done to each entry of its output."""
    return _merged(graph, movements=True)


def _merged(graph: Graph, *, movements: bool) -> Graph:
    merging = _Merging(graph, movements=movements)
    for node in graph.nodes:
        merging.add(node)
    return merging.edit.finished()


class _Merging:
    """Nodes in their order; producers are merged before those that read them."""

    def __init__(self, graph: Graph, *, movements: bool) -> None:
        self.edit = Edit(graph)
        self._values = self.edit.values
        self._readers = readers_of(graph)
        self._movements = movements
        self._made: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        if isinstance(node.op, View) or (isinstance(node.op, Program) and not node.op.is_ordered):
            stages = stages_of(node, self._values)
            while found := self._step(stages) or self._in_producers_shape(stages):
                stages = found
            before = len(self.edit.nodes)
            plain = [plainly_read(stage, self.edit) for stage in tidied(stages)]
            self._made |= {view.output: view for view in self.edit.nodes[before:]}
            made = node_of(plain, self._values, node.label)
            if made.output != node.output:
                self._append(made)
                made = Node(View(), (made.output,), node.output, node.label)
            node = made
        self._append(node)

    def _append(self, node: Node) -> None:
        self._made[node.output] = node
        self.edit.nodes.append(node)

    def _step(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...] | None:
        """One producer further, or None where nothing can be merged any more."""
        for name in dict.fromkeys(read.tensor for read in reads(stages)):
            producer = self._made.get(name)
            if producer is not None and isinstance(producer.op, Program | View):
                made = self._joined(stages, producer)
                if made and self._is_small(made):
                    if isinstance(producer.op, Program):
                        self._hand_over(producer, stages[-1].name)
                    return made
        return None

    def _in_producers_shape(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...] | None:
        """A stage that reads the output of a program of several stages entry by entry under another
        shape, in that program's shape, so that it can go into it. The stage has another name then:
        the node's output is a view of it. So does what follows a convolution in groups, whose
        channels are two axes of the sum."""
        (stage, *more) = stages
        if more or stage.reducer or is_view(stage, self._values):
            return None
        if any(isinstance(part, Call) and part.function in OF_SOME for part in parts(stage.value)):
            return None
        for name in dict.fromkeys(read.tensor for read in reads(stages)):
            producer = self._made.get(name)
            if producer is None or not self._takes_what_follows(producer, stage):
                continue
            shape = self._values[name].shape
            axes = axes_of(shape)
            value = at_places(stage, unflat(flat(axes, shape), stage.shape))
            own = replace(stage, axes=axes, value=value)
            made = (*stages_of(producer, self._values), own)
            if is_plainly_read(own, self._values) and self._is_small(made):
                fresh = self.edit.value(stage.name, self._values[stage.name].dtype, shape)
                self._readers[fresh] = set(self._readers[stage.name])
                return (replace(own, name=fresh),)
        return None

    def _takes_what_follows(self, producer: Node, stage: Stage) -> bool:
        """Returns whether it is a program of several stages, or of a reduction, whose output the
        stage alone reads, each entry once, and has in another shape."""
        if not isinstance(producer.op, Program) or producer.op.is_ordered:
            return False
        made, own = self._values[producer.output], self._values[stage.name]
        return (
            single_stage(producer, self._values) is None
            and made.elements == own.elements
            and made.shape != stage.shape
            and self._is_read_once(producer.output)
            and reads_in_place(stage, producer.output, made.shape)
        )

    def _hand_over(self, producer: Node, reader: str) -> None:
        """Lets the node that the producer is now part of read what the producer read."""
        todo = list(producer.inputs)
        while todo:
            name = todo.pop()
            readers = self._readers.setdefault(name, set())
            readers.discard(producer.output)
            readers.add(reader)
            maker = self._made.get(name)
            if maker is not None and isinstance(maker.op, View):
                todo += maker.inputs

    def _is_read_once(self, name: str) -> bool:
        return len(self._readers[name]) == 1

    def _joined(self, stages: tuple[Stage, ...], producer: Node) -> tuple[Stage, ...] | None:
        if isinstance(producer.op, Program) and producer.op.is_ordered:
            return None
        source = single_stage(producer, self._values)
        if source is None:
            return self._appended(stages, producer)
        if not self._allowed(stages, source, producer):
            return None
        made = tuple(inlined(stage, source) for stage in stages)
        return made if all(is_plainly_read(stage, self._values) for stage in made) else None

    def _allowed(self, stages: tuple[Stage, ...], source: Stage, producer: Node) -> bool:
        """Returns whether nothing is computed more often than before."""
        if isinstance(producer.op, View):
            return len(stages) == 1
        if not self._is_read_once(source.name) or len(stages) > 1 or stages[0].reducer:
            return False
        (stage,) = stages
        if is_view(stage, self._values):
            return False
        if not self._movements:
            value = self._values[source.name]
            same = value.elements == self._values[stage.name].elements
            in_place = reads_in_place(stage, source.name, source.shape)
            return same and not is_movement(source) and in_place
        return is_movement(source) or (
            self._values[stage.name].elements <= self._values[source.name].elements
        )

    def _appended(self, stages: tuple[Stage, ...], producer: Node) -> tuple[Stage, ...] | None:
        """After a program of several stages, of which this uses each entry once, in place."""
        name = producer.output
        (stage, *more) = stages
        if is_view(stage, self._values):
            return None
        shape = self._values[name].shape
        if more or stage.reducer or not self._is_read_once(name) or stage.shape != shape:
            return None
        if not reads_in_place(stage, name, shape):
            return None
        value = stage.value
        for read in reads_of(stages, name):
            # An axis of one entry is read at 0 as well.
            value = replaced(value, read, Read(name, stage.axes))
        return *stages_of(producer, self._values), replace(stage, value=value)

    def _is_small(self, stages: tuple[Stage, ...]) -> bool:
        made = {stage.name for stage in stages}
        inputs = {read.tensor for read in reads(stages)} - made
        return (
            len(inputs) <= MOST_OPERANDS
            and sum(size(each.value) for each in stages) <= MAX_SIZE
            and all(depth(each.value) <= MOST_DEPTH for each in stages)
        )
