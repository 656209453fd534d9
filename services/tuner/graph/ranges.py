"""One graph for a range of extents: that of the largest, in which what is spare is left out.

A model is imported and fused for a few extents near the largest, and the graphs are laid over one
another. They are the same but for extents, which have to grow with the open one:

    s = 128                                   s = 124                                   becomes
    matmul:f32:m128k384n1536                  matmul:f32:m124k384n1536                  m: s
    x[i: 128, j: 128] = max over k: 128 …     x[i: 124, j: 124] = max over k: 124 …     i, j, k: s

Every tensor lies as in the graph of the largest extent, and is right as far as the open one goes:
an expression that is the same for all extents reads the same places of the same tensors. What else
has to change are reductions over an open axis, whose terms beyond it count for nothing. How many
places are spare, an input of the graph says, i32[1]:

    total[i: 128] = sum over k: 128 of (x[i, k] if k + spare[0] < 128 else 0.0)

Where the open axis is the outermost of an output, its kernel leaves out what is spare
(`Workload.spare_parts`). All others compute the largest extent, as does whoever makes integers:
rows are chosen by them, and those that nobody wants must be there, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isclose, prod
from typing import TypeAlias, TypeGuard

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.attention import attention, attention_of
from kernelzoo.domain.operators.expressions import (
    RUNNING,
    Axis,
    Binary,
    BinaryOp,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Spare,
    Stage,
    rebuilt,
)
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.plan import OpenPlace, PlanAxis, PortDType
from kernelzoo.domain.workload import SPARE, ProgramWorkload, Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.operators import Array
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.golden import TOLERANCE, Way, entries_off, seeded_feeds
from services.tuner.graph.graph import Graph, GraphPort, Node, Value, View

_Neutral: TypeAlias = "Real | Integer"

NEUTRAL: Mapping[tuple[Reducer, str], _Neutral] = {
    (Reducer.SUM, DType.F32): Real(0.0),
    (Reducer.PROD, DType.F32): Real(1.0),
    (Reducer.MAX, DType.F32): Real(-inf),
    (Reducer.MIN, DType.F32): Real(inf),
    (Reducer.SUM, DType.I32): Integer(0),
    (Reducer.PROD, DType.I32): Integer(1),
    (Reducer.MAX, DType.I32): Integer(-(2**31)),
    (Reducer.MIN, DType.I32): Integer(2**31 - 1),
}
"""A term of a reduction that changes nothing."""
TOLD = Input(SPARE, DType.I32, (1,))
"""The last input of a program that is told what is spare."""
SAMPLES = 3
"""Extents at which a model is imported: two tell how an extent grows, the third agrees."""
STEP = 4
"""Between samples, so that rows that are whole vectors are so in all of them."""


ROUNDED: Mapping[Way, float] = {**dict.fromkeys(Way, TOLERANCE), Way.NUMBERS: 1e-2}
"""Outputs may be off by so much of their largest magnitude. A mask of any integers hides words by
hundred thousands beside scores of 1, and behind six such layers rounding alone makes 2e-4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentRange:
    """The extents of a dimension that one plan serves."""

    name: str
    least: int
    most: int

    @property
    def samples(self) -> tuple[int, ...]:
        """The extents at which a model is imported, the largest first. Raises InvalidInput for a
        range that is too short for them."""
        step = STEP if self.most > STEP * SAMPLES else 1
        if self.most <= SAMPLES:
            extents = ",".join(map(str, range(self.least, self.most + 1)))
            raise InvalidInput(
                f"--dim {self.name}={self.least}..{self.most} is a short range; write its extents "
                f"one by one, as in --dim {self.name}={extents}"
            )
        return tuple(self.most - step * place for place in range(SAMPLES))

    @property
    def tried(self) -> tuple[int, ...]:
        """Extents at which the plan is compared with the model: the ends of the range and its
        middle, with every remainder by `STEP`, as `samples` have the same one."""
        middle = (self.least + self.most) // 2
        middle -= (middle - (self.most - 2)) % STEP
        extents = {self.least, middle, self.most - 1, self.most - 3}
        return tuple(sorted(each for each in extents if self.least <= each <= self.most))

    def refusal(self, why: str) -> UnsupportedModel:
        """The error for a range that no one plan serves."""
        name, most = self.name, self.most
        few = sorted({max(self.least, most // 4), most})
        return UnsupportedModel(
            f"no one plan serves {name}={self.least}..{most}: {why}. Give the extents that you "
            f"need one by one, as in --dim {name}={','.join(map(str, few))}"
        )


def ranged(graphs: Sequence[Graph], range_: ExtentRange) -> Graph:
    """Lowered graphs of a model at the `samples` of a range, as one. Raises UnsupportedModel where
    they differ by more than extents."""
    return _Overlay(graphs, range_).graph()


@dataclass(frozen=True, slots=True)
class _Growth:
    """An extent that is `step` times the open one, and so many more."""

    step: int
    more: int


class _Overlay:
    def __init__(self, graphs: Sequence[Graph], range_: ExtentRange) -> None:
        self._graphs = graphs
        self._range = range_
        self._largest = graphs[0]
        self._names: list[dict[str, str]] = [{} for _ in graphs]
        self._scattered: set[str] = set()
        name = SPARE
        while name in self._largest.values:
            name += "'"
        self._spare = Value(name, DType.I32, (1,))

    def graph(self) -> Graph:
        largest = self._largest
        inputs = self._ports([graph.inputs for graph in self._graphs])
        if len({len(graph.nodes) for graph in self._graphs}) > 1:
            raise self._range.refusal("the model has other operators for other extents")
        nodes = tuple(map(self._node, *(graph.nodes for graph in self._graphs)))
        outputs = self._ports([graph.outputs for graph in self._graphs])
        port = GraphPort(f"{SPARE} {self._range.name}", PortDType.INT32, self._spare.name)
        range_ = self._range
        return replace(
            largest,
            inputs=(*inputs, port),
            outputs=outputs,
            values={**largest.values, self._spare.name: self._spare},
            nodes=nodes,
            axes=(
                PlanAxis(name=range_.name, least=range_.least, most=range_.most, input=len(inputs)),
            ),
        )

    # Values that are the same in all graphs.

    def _ports(self, ports: Sequence[tuple[GraphPort, ...]]) -> tuple[GraphPort, ...]:
        if len({tuple((p.name, p.dtype) for p in each) for each in ports}) > 1:
            raise self._range.refusal("its inputs and outputs are others for other extents")
        for same in zip(*ports, strict=True):
            if len({port.rows for port in same}) > 1:
                raise self._range.refusal(f"{same[0].name!r} chooses entries along that axis")
        made = []
        for same in zip(*ports, strict=True):
            what = f"{same[0].name!r}"
            shapes = self._pair([port.value for port in same], what)
            growths = [self._growth(extents, what) for extents in zip(*shapes, strict=True)]
            opened = [
                OpenPlace(place=place, axis=0, step=growth.step)
                for place, growth in enumerate(growths)
                if growth.step
            ]
            if len(opened) > 1:
                raise self._range.refusal(f"{what} has that axis more than once")
            is_first = opened and self._is_prefix(shapes[0], opened[0].place, 1)
            if opened and (not is_first or same[0].value in self._scattered):
                raise self._range.refusal(
                    f"{what} has that axis behind another of several entries; give the other one "
                    "the extent 1, or have it behind"
                )
            made.append(replace(same[0], open=opened[0] if opened else None))
        return tuple(made)

    def _pair(self, names: Sequence[str], what: str) -> list[tuple[int, ...]]:
        """Notes that values are one, and returns their shapes. Constants of fewer entries must be
        the first ones of the others."""
        for known, name in zip(self._names, names, strict=True):
            if known.setdefault(names[0], name) != name:
                raise self._range.refusal(f"{what} reads another tensor for other extents")
        largest = self._largest.constants.get(names[0])
        for graph, name in zip(self._graphs, names, strict=True):
            entries = graph.constants.get(name)
            if (entries is None) is not (largest is None):
                raise self._range.refusal(f"{what} reads a constant for some extents alone")
            if entries is None or largest is None or entries is largest:
                continue
            if not self._begins(largest, entries, graph):
                raise self._range.refusal(f"{what} reads constants that depend on the extent")
        return [graph.values[n].shape for graph, n in zip(self._graphs, names, strict=True)]

    def _begins(self, largest: Array, entries: Array, graph: Graph) -> bool:
        """Returns whether a constant has the first entries of that of the largest extent along each
        axis. An axis may be several of them: [4096] may be [64, 64], and [128] may be [2, 64]."""
        if entries.ndim != largest.ndim:
            return False
        pairs = [(largest, entries)]
        most, own = (
            self._range.samples[self._graphs.index(each)] for each in (self._largest, graph)
        )
        for axes in (1, 2):
            shapes = [_split(each.shape, n, axes) for each, n in ((largest, most), (entries, own))]
            if all(shapes):
                pairs.append((largest.reshape(shapes[0]), entries.reshape(shapes[1])))
        return any(
            whole.ndim == part.ndim
            and np.array_equal(
                whole[tuple(slice(0, extent) for extent in part.shape)],
                part,
                equal_nan=part.dtype.kind == "f",
            )
            for whole, part in pairs
        )

    def _grown(self, extents: Sequence[int]) -> _Growth | None:
        """Returns how an extent grows; None where that is unevenly, as if it is the product of
        two open axes."""
        one, two, *_ = self._range.samples
        step, rest = divmod(extents[0] - extents[1], one - two)
        more = extents[0] - step * one
        grows = all(
            step * open_ + more == extent
            for open_, extent in zip(self._range.samples, extents, strict=True)
        )
        return None if rest or step < 0 or not grows else _Growth(step, more)

    def _growth(self, extents: Sequence[int], what: str) -> _Growth:
        growth = self._grown(extents)
        if growth is None:
            raise self._range.refusal(f"an extent of {what} does not grow evenly with it")
        return growth

    def _growths(self, shapes: Sequence[tuple[int, ...]], what: str) -> list[_Growth | None]:
        if len(set(map(len, shapes))) > 1:
            raise self._range.refusal(f"{what} has another number of axes for other extents")
        return [self._grown(extents) for extents in zip(*shapes, strict=True)]

    def _joins(self, shapes: Sequence[tuple[int, ...]], what: str) -> bool:
        """True if an axis is several, one of which is open: two heads of 64 rows as 128."""
        return any(each is None or each.step > 1 for each in self._growths(shapes, what))

    def _is_prefix(self, shape: tuple[int, ...], place: int, count: int) -> bool:
        """Returns whether what is there are the first entries."""
        return count == 1 and prod(shape[:place]) == 1

    # Nodes.

    def _node(self, *nodes: Node) -> Node:
        node, ops = nodes[0], [each.op for each in nodes]
        what = f"node {node.label or node.output!r}"
        if len({(type(each.op), len(each.inputs)) for each in nodes}) > 1:
            raise self._range.refusal(f"{what} is another operation for other extents")
        for names in zip(*(each.inputs for each in nodes), strict=True):
            self._pair(names, what)
        shapes = self._pair([each.output for each in nodes], what)
        if isinstance(node.op, View):
            may_be = node.inputs[0] in self._scattered or self._is_moved(nodes, shapes, what)
            if may_be and self._joins(shapes, what):
                self._scattered.add(node.output)
            return node
        read = self._scattered.intersection(node.inputs)
        is_scattered = self._is_scattered(shapes, what, is_read=bool(read))
        if is_scattered:
            self._scattered.add(node.output)
        workloads = [op for op in ops if isinstance(op, Workload)]
        op = self._workload(workloads, what, is_scattered=is_scattered)
        told = len(op.tensors) > len(workloads[0].tensors)
        return replace(node, op=op, inputs=(*node.inputs, *((self._spare.name,) if told else ())))

    def _is_scattered(self, shapes: Sequence[tuple[int, ...]], what: str, *, is_read: bool) -> bool:
        """True if what is there of an output may lie elsewhere than along its axes from 0 on."""
        grows = self._growths(shapes, what)
        return any(each is None for each in grows) or (is_read and self._joins(shapes, what))

    def _is_moved(
        self, nodes: Sequence[Node], shapes: Sequence[tuple[int, ...]], what: str
    ) -> bool:
        """A view has the same entries in the same order for all extents. What is there lies side by
        side before and after, or the axes are the same; where neither is so, heads and rows may
        have become one axis, and that the view is right is what trying it shows."""
        before = [g.values[n.inputs[0]].shape for g, n in zip(self._graphs, nodes, strict=True)]

        def opened(of: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
            """The open axes, each with the entries that it has behind it."""
            return [
                ((growth.step if growth else -1) * prod(of[0][place + 1 :]), prod(of[0][:place]))
                for place, growth in enumerate(self._growths(of, what))
                if growth is None or growth.step
            ]

        return opened(before) != opened(shapes)

    def _workload(
        self, workloads: Sequence[Workload], what: str, *, is_scattered: bool
    ) -> Workload:
        largest = workloads[0]
        if len({each.key for each in workloads}) == 1:
            return largest
        if len({(w.operator.name, w.epilogue, w.constant) for w in workloads}) > 1:
            raise self._range.refusal(f"{what} is another operation for other extents")
        attending = [attention_of(each.program) for each in workloads]
        if attending[0] is not None:
            return self._attention(workloads, what)
        programs = [each.program for each in workloads]
        steps = self._steps(programs, what)
        whole = self._bounded(self._computing(programs, what), steps, what)
        parts = 0 if is_scattered else self._parts(programs[0], steps)
        if whole == programs[0] and not parts:
            return largest
        if whole == programs[0] and not isinstance(largest, ProgramWorkload):
            return replace(largest, spare=parts)
        name = largest.name if isinstance(largest, ProgramWorkload) else largest.operator.name
        inputs = (*whole.inputs, TOLD)
        spare = Spare(SPARE, parts) if parts else None
        return Workload.of_program(name, replace(whole, inputs=inputs, spare=spare))

    def _attention(self, workloads: Sequence[Workload], what: str) -> Workload:
        given = [found for each in workloads if (found := attention_of(each.program)) is not None]
        rows = self._growth([each.m for each in given], what)
        keys = self._growth([each.n for each in given], what)
        alike = {replace(each, m=given[0].m, n=given[0].n) for each in given}
        if len(given) < len(workloads) or len(alike) > 1 or {rows.step, keys.step} - {0, 1}:
            raise self._range.refusal(f"{what} attends otherwise for other extents")
        made = replace(given[0], spare_keys=bool(keys.step), spare_rows=bool(rows.step))
        return Workload.of_program("attention", attention(made))

    def _computing(self, programs: Sequence[Program], what: str) -> Program:
        """The program of the largest extent, in which numbers that depend on the extent are
        computed from what is spare: a mean divides by it."""
        like = [_with_axes_of(each, programs[0]) for each in programs]
        shapes = {each.name: each.shape for each in programs[0].inputs}
        shapes |= {each.name: each.shape for each in programs[0].stages}
        stages = [
            replace(same[0], value=self._told([stage.value for stage in same], shapes, what))
            for same in zip(*(each.stages for each in like), strict=False)
        ]
        made = replace(programs[0], stages=tuple(stages))
        if len({len(each.stages) for each in like}) > 1 or any(
            replace(each, stages=made.stages) != made for each in like
        ):
            raise self._range.refusal(f"{what} is another operation for other extents")
        return made

    def _told(
        self, values: Sequence[Expression], shapes: Mapping[str, tuple[int, ...]], what: str
    ) -> Expression:
        """One expression for those of all extents. Places of which nobody reads what is there stay
        inside of the tensor, as when the rows of the largest extent are taken from the last one
        on."""
        first = values[0]
        if all(each == first for each in values):
            return first
        if all(isinstance(each, Real | Integer) for each in values):
            made = self._number_told([each.value for each in values if _is_number(each)])
            if made is None or len(set(map(type, values))) > 1:
                raise self._range.refusal(f"{what} computes with the extent itself")
            return made
        operands = [_operands(each) for each in values]
        remade = [self._told(same, shapes, what) for same in zip(*operands, strict=False)]
        bare = {rebuilt(each, lambda _: Integer(0)) for each in values}
        if len(bare) > 1 or len(set(map(len, operands))) > 1:
            raise self._range.refusal(f"{what} computes with the extent itself")
        if isinstance(first, Read):
            at = zip(first.at, remade, shapes[first.tensor], strict=True)
            return Read(
                first.tensor, tuple(new if new == old else _inside(new, n) for old, new, n in at)
            )
        following = iter(remade)
        return rebuilt(first, lambda _: next(following))

    def _number_told(self, values: Sequence[float]) -> Expression | None:
        """A number that is so many times the extent and some more, or one divided by that."""
        inverses = [1 / each for each in values if each]
        for numbers, is_inverse in ((values, False), (inverses, True)):
            whole = [round(each) for each in numbers]
            growth = self._grown(whole) if len(whole) == len(values) else None
            near = all(isclose(a, b, rel_tol=1e-6) for a, b in zip(whole, numbers, strict=True))
            if growth is None or not near:
                continue
            spare = Read(SPARE, (Integer(0),))
            found = Integer(whole[0]) - spare * growth.step
            if isinstance(values[0], int):
                return found
            return Real(1.0) / Cast(found) if is_inverse else Cast(found)
        return None

    def _steps(self, programs: Sequence[Program], what: str) -> dict[tuple[str, str], int]:
        """Maps a stage and an axis of it that grows, by their names, to its step."""
        steps: dict[tuple[str, str], int] = {}
        for stages in zip(*(each.stages for each in programs), strict=True):
            axes = zip(*((*stage.axes, *stage.over) for stage in stages), strict=True)
            for same in axes:
                growth = self._grown([_number(axis) for axis in same])
                if growth is None and same[0] in stages[0].over:
                    raise self._range.refusal(f"{what} reduces along several of that axis at once")
                if growth is not None and growth.step:
                    steps[stages[0].name, same[0].name] = growth.step
        return steps

    def _bounded(
        self, program: Program, steps: Mapping[tuple[str, str], int], what: str
    ) -> Program:
        """Terms of reductions that are beyond an open axis count for nothing."""
        stages = tuple(self._bounded_stage(stage, steps, what) for stage in program.stages)
        return replace(program, stages=stages)

    def _bounded_stage(
        self, stage: Stage, steps: Mapping[tuple[str, str], int], what: str
    ) -> Stage:
        opened = [
            (axis, step) for axis in stage.over if (step := steps.get((stage.name, axis.name)))
        ]
        if not opened:
            return stage
        if stage.reducer in RUNNING:
            # What is there comes before what is spare.
            return stage
        neutral = NEUTRAL.get((stage.reducer, stage.dtype)) if stage.reducer else None
        if neutral is None or stage.is_ordered:
            raise self._range.refusal(f"{what} takes values along that axis one after another")
        spare = Read(SPARE, (Integer(0),))
        are_there = tuple(
            Comparison(CompareOp.LT, axis + (spare * step if step > 1 else spare), axis.extent)
            for axis, step in opened
        )
        return replace(stage, value=Choice(are_there, stage.value, neutral))

    def _parts(self, program: Program, steps: Mapping[tuple[str, str], int]) -> int:
        """The parts of the output of which some may be spare; 0 where all of it is computed."""
        output = program.output
        in_order = program.is_ordered or is_recurrent(program)
        if output.dtype is DType.I32 or program.updates or in_order:
            return 0
        opened = [
            (place, step)
            for place, axis in enumerate(output.axes)
            if (step := steps.get((output.name, axis.name)))
        ]
        if not opened:
            return 0
        (place, step), *others = opened
        extent = output.shape[place]
        if extent % step or not self._is_prefix(output.shape, place, 1 + len(others)):
            return 0
        return extent // step


def widened(range_: ExtentRange, imported_at: Callable[[int], Graph]) -> ExtentRange:
    """The range up to the next multiple of 4, where the model attends and can be imported for it:
    attention is one kernel where rows of scores are whole vectors."""
    wide = replace(range_, most=range_.most + -range_.most % STEP)
    if wide == range_:
        return range_
    try:
        graph = fused(imported_at(wide.most))
    except (InvalidInput, UnsupportedModel):
        return range_
    programs = (node.op.program for node in graph.nodes if isinstance(node.op, Workload))
    return wide if any(map(attention_of, programs)) else range_


def refuse_wrong_extent(graph: Graph, imported: Graph, extent: int, range_: ExtentRange) -> None:
    """Raises UnsupportedModel where the graph of a range computes something else for an extent than
    the model that was imported for it. What inputs have beyond it is no number, or the least that
    chooses a row; what kernels leave out is no number, either."""
    spare = range_.most - extent
    own = {port.name: imported.values[port.value].shape for port in imported.outputs}
    for port in graph.outputs:
        shape = list(graph.values[port.value].shape)
        if port.open is not None:
            shape[port.open.place] -= port.open.step * spare
        if own.get(port.name) != tuple(shape):
            raise range_.refusal(f"an extent of output {port.name!r} is another one at {extent}")
    for way in Way:
        feeds = seeded_feeds(imported, way)
        right = evaluate(imported, feeds)
        made = _evaluated(graph, feeds, spare)
        for name, wanted in right.items():
            if _is_off(made[name], wanted, ROUNDED[way]):
                node = _first_wrong(graph, fused(imported), feeds, spare)
                due = f", as node {node} does something else there" if node else ""
                raise range_.refusal(f"output {name!r} would be wrong at {extent}{due}")


def _is_off(entries: Array, right: Array, tolerance: float = TOLERANCE) -> bool:
    first = entries[tuple(slice(0, each) for each in right.shape)]
    return first.shape != right.shape or entries_off(first, right, tolerance) > 0


def _first_wrong(graph: Graph, own: Graph, feeds: Mapping[str, Array], spare: int) -> str | None:
    """Names the first node of the graph of a range that computes something else than the graph for
    one extent; None where that is none that both have. What may not lie in the first entries, as
    where heads and rows are one axis, is not compared."""
    made: list[tuple[Node, Array]] = []
    right: list[tuple[Node, Array]] = []
    _evaluated(graph, feeds, spare, made)
    evaluate(own, feeds, seen=_noting(right))
    own_entries = {node.output: entries for node, entries in right}
    for node, entries in made:
        wanted = own_entries.get(node.output)
        if wanted is None or entries.ndim != wanted.ndim:
            continue
        extents = zip(entries.shape, wanted.shape, strict=True)
        is_first = isinstance(node.op, Workload) and node.op.spare_parts
        alike = is_first or all(a - b in (0, spare) for a, b in extents)
        if alike and _is_off(entries, wanted):
            return repr(node.label or node.output)
    return None


def _noting(computed: list[tuple[Node, Array]]) -> Callable[[Node, Array], Array]:
    def seen(node: Node, entries: Array) -> Array:
        computed.append((node, entries))
        return entries

    return seen


def _evaluated(
    graph: Graph,
    feeds: Mapping[str, Array],
    spare: int,
    computed: list[tuple[Node, Array]] | None = None,
) -> dict[str, Array]:
    """Outputs, and in `computed` what each node makes."""
    axis = graph.axes[0]
    padded = {
        port.name: _padded(feeds[port.name], graph, port)
        for place, port in enumerate(graph.inputs)
        if place != axis.input
    }
    noting = _noting([] if computed is None else computed)

    def left_out(node: Node, entries: Array) -> Array:
        parts = node.op.spare_parts if isinstance(node.op, Workload) else 0
        if not parts:
            return noting(node, entries)
        made = np.array(entries, order="C")
        made.reshape(parts, -1)[parts - spare :] = np.nan
        return noting(node, made)

    told = {graph.inputs[axis.input].name: np.array([spare], np.int32)}
    with np.errstate(invalid="ignore"):
        return evaluate(graph, {**padded, **told}, seen=left_out)


def _padded(entries: Array, graph: Graph, port: GraphPort) -> Array:
    shape = graph.values[port.value].shape
    real = entries.dtype.kind == "f"
    beyond = np.nan if real else (port.rows or (0, 0))[0]
    made = np.full(shape, beyond, entries.dtype)
    made[tuple(slice(0, extent) for extent in entries.shape)] = entries
    return made


def _split(shape: tuple[int, ...], extent: int, axes: int) -> tuple[int, ...] | None:
    """A shape of one axis as [rest, extent] or [rest, extent, extent]; None where it is no such."""
    rest, more = divmod(prod(shape), extent**axes)
    return None if more or len(shape) != 1 else (rest, *(extent,) * axes)


def _inside(place: Expression, extent: int) -> Expression:
    low = Binary(BinaryOp.MAX, place, Integer(0))
    return Binary(BinaryOp.MIN, low, Integer(extent - 1))


def _is_number(expression: Expression) -> TypeGuard[Real | Integer]:
    return isinstance(expression, Real | Integer)


def _operands(expression: Expression) -> list[Expression]:
    operands: list[Expression] = []

    def noted(part: Expression) -> Expression:
        operands.append(part)
        return part

    rebuilt(expression, noted)
    return operands


def _number(axis: Axis) -> int:
    assert isinstance(axis.extent, Integer)
    return axis.extent.value


def _with_axes_of(program: Program, other: Program) -> Program:
    """The program with the shapes of inputs and the extents of axes that another one has; itself
    where that has other stages."""
    if [len(program.inputs), *map(_axis_names, program.stages)] != [
        len(other.inputs),
        *map(_axis_names, other.stages),
    ]:
        return program
    inputs = (
        replace(own, shape=theirs.shape)
        for own, theirs in zip(program.inputs, other.inputs, strict=True)
    )
    stages = map(_stage_with_axes_of, program.stages, other.stages)
    return replace(program, inputs=tuple(inputs), stages=tuple(stages))


def _axis_names(stage: Stage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(axis.name for axis in stage.axes), tuple(axis.name for axis in stage.over)


def _stage_with_axes_of(stage: Stage, other: Stage) -> Stage:
    axes = {axis.name: axis for axis in (*other.axes, *other.over)}

    def change(part: Expression) -> Expression:
        return axes.get(part.name, part) if isinstance(part, Axis) else rebuilt(part, change)

    return replace(stage, axes=other.axes, over=other.over, value=change(stage.value))
