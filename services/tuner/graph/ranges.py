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

Several dimensions may be open, and an extent may grow with more than one. It is so many times each
and some more, and an input says what is spare of that: of the keys of a decoder, what is spare of
its cache and of the tokens of a run.

    past = 60, sequence = 16        past = 56, sequence = 16        becomes
    k[j: 76] = past[j] if j < 60    k[j: 72] = past[j] if j < 56    j < 60 - spare_1_0[0]
    places = [60, 61, … 75]         places = [56, 57, … 71]         places[i] - spare_1_0[0]
    seen[i, j] = j <= i + 60        seen[i, j] = j <= i + 56        seen[i, j + spare_1_0[0]]

A kernel leaves out what is spare of its output, also of each head (`Workload.spare_parts`), but
where an axis is several. Those compute the largest extent, as does whoever makes integers:
rows are chosen by them, and those that nobody wants must be there, too.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, inf, isclose, prod
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
    parts,
    rebuilt,
)
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.plan import OpenPlace, PlanAxis, PlanSum, PortDType
from kernelzoo.domain.workload import SPARE, ProgramWorkload, Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.operators import NUMPY_DTYPES, Array
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
SAMPLES = 3
"""Extents at which a model is imported for one range: two tell how an extent grows, the third
agrees. A range more takes another one."""
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

    def less(self, steps: int, farthest: int) -> int:
        """An extent so many steps below the largest, where another is `farthest` below. Raises
        InvalidInput for a range that is too short for them."""
        step = STEP if self.has_steps(farthest) else 1
        if self.most <= max(farthest, SAMPLES):
            extents = ",".join(map(str, range(self.least, self.most + 1)))
            raise InvalidInput(
                f"--dim {self.name}={self.least}..{self.most} is a short range; write its extents "
                f"one by one, as in --dim {self.name}={extents}"
            )
        return self.most - step * steps

    def has_steps(self, farthest: int) -> bool:
        """Returns whether an extent so many steps of whole vectors below the largest is as many as
        a vector has, at least."""
        return self.most >= STEP * (farthest + 1)

    @property
    def middle(self) -> int:
        """An extent of another remainder by `STEP` than those of samples and next to the ends."""
        middle = (self.least + self.most) // 2
        return max(self.least, middle - (middle - (self.most - 2)) % STEP)


Extents: TypeAlias = tuple[int, ...]
"""An extent of each range, in their order."""


@dataclass(frozen=True, slots=True)
class ExtentRanges:
    """The dimensions of which one plan serves every extent, independent of one another."""

    ranges: tuple[ExtentRange, ...]

    @property
    def most(self) -> Extents:
        return tuple(each.most for each in self.ranges)

    @property
    def samples(self) -> tuple[Extents, ...]:
        """The extents at which a model is imported: the largest, those of which one is smaller, and
        one of which all are. Raises InvalidInput for a range that is too short for them."""
        # Others in each, so that no sum or product of them is what it would be by chance, where
        # they have room for whole vectors.
        farthest = [
            2 + place if each.has_steps(2 + place) or not each.has_steps(2) else 2
            for place, each in enumerate(self.ranges)
        ]
        smaller = [each.less(1, far) for each, far in zip(self.ranges, farthest, strict=True)]
        apart = [
            (*self.most[:place], less, *self.most[place + 1 :])
            for place, less in enumerate(smaller)
        ]
        together = tuple(
            each.less(far, far) for each, far in zip(self.ranges, farthest, strict=True)
        )
        return self.most, *apart, together

    def shown(self, extents: Extents) -> str:
        named = zip(self.ranges, extents, strict=True)
        return " and ".join(f"{each.name}={extent}" for each, extent in named)

    @property
    def tried(self) -> tuple[Extents, ...]:
        """Extents at which the plan is compared with the model: the ends of ranges and their
        middles, with every remainder by `STEP`, as `samples` have the same one."""
        least = tuple(each.least for each in self.ranges)
        middles = [
            (*least[:place], each.middle, *least[place + 1 :])
            for place, each in enumerate(self.ranges)
        ]
        odd = [
            tuple(
                max(each.least, each.most - less)
                for each, less in zip(self.ranges, pair, strict=False)
            )
            for pair in ((1, 3, 1), (3, 1, 3))
        ]
        return tuple(sorted({least, *middles, *odd}))

    def refusal(self, why: str) -> UnsupportedModel:
        """The error for ranges that no one plan serves."""
        shown = " and ".join(f"{each.name}={each.least}..{each.most}" for each in self.ranges)
        few = " ".join(
            f"--dim {each.name}="
            + ",".join(map(str, sorted({max(each.least, each.most // 4), each.most})))
            for each in self.ranges
        )
        return UnsupportedModel(
            f"no one plan serves {shown}: {why}. Give the extents that you need one by one, as in "
            f"{few}"
        )


def ranged(graphs: Sequence[Graph], ranges: ExtentRanges) -> Graph:
    """Lowered graphs of a model at the `samples` of ranges, as one. Raises UnsupportedModel where
    they differ by more than extents."""
    return _Overlay(graphs, ranges).graph()


_Direction: TypeAlias = tuple[int, ...]
"""A sum of open extents: (0, 1) is the second, (1, 1) the sum of both."""


@dataclass(frozen=True, slots=True)
class _Growth:
    """An extent that is so many times each open one, and so many more."""

    steps: tuple[int, ...]
    more: int

    @property
    def step(self) -> int:
        """Counts how many times `direction` it grows; 0 where it does not."""
        return gcd(*self.steps)

    @property
    def direction(self) -> _Direction:
        return tuple(each // self.step for each in self.steps)


class _Overlay:
    def __init__(self, graphs: Sequence[Graph], ranges: ExtentRanges) -> None:
        self._graphs = graphs
        self._range = ranges
        self._samples = ranges.samples
        self._largest = graphs[0]
        self._names: list[dict[str, str]] = [{} for _ in graphs]
        self._scattered: set[str] = set()
        self._values = dict(self._largest.values)
        self._moved: dict[str, str] = {}
        self._moving: list[Node] = []
        self._spare: dict[_Direction, Value] = {}
        for direction in _alone(len(ranges.ranges)):
            self._spare_of(direction)

    def graph(self) -> Graph:
        largest = self._largest
        inputs = self._ports([graph.inputs for graph in self._graphs])
        self._refuse_untold(inputs)
        if len({len(graph.nodes) for graph in self._graphs}) > 1:
            raise self._range.refusal("the model has other operators for other extents")
        nodes: list[Node] = []
        for same in zip(*(graph.nodes for graph in self._graphs), strict=True):
            node = self._node(*same)
            nodes += (*self._moving, node)
            self._moving.clear()
        outputs = self._ports([graph.outputs for graph in self._graphs])
        nodes += self._moving
        ranges = self._range.ranges
        ports = tuple(
            GraphPort(f"{SPARE} {self._label(direction)}", PortDType.INT32, value.name)
            for direction, value in self._spare.items()
        )
        return replace(
            largest,
            inputs=(*inputs, *ports),
            outputs=outputs,
            values=self._values,
            nodes=tuple(nodes),
            axes=tuple(
                PlanAxis(name=each.name, least=each.least, most=each.most, input=number)
                for number, each in enumerate(ranges, len(inputs))
            ),
            sums=tuple(
                PlanSum(factors=direction, input=number)
                for number, direction in enumerate(self._spare, len(inputs))
                if sum(direction) > 1
            ),
        )

    def _label(self, direction: _Direction) -> str:
        names = zip(direction, (each.name for each in self._range.ranges), strict=True)
        return "+".join(f"{n}*{name}" if n > 1 else name for n, name in names if n)

    def _refuse_untold(self, inputs: Sequence[GraphPort]) -> None:
        """Raises UnsupportedModel where a page could not tell an extent from its feeds."""
        places = [Counter(each.place for each in port.open) for port in inputs]
        alone = {
            each.axis
            for port, count in zip(inputs, places, strict=True)
            for each in port.open
            if count[each.place] == 1
        }
        for axis, range_ in enumerate(self._range.ranges):
            if axis not in alone:
                raise self._range.refusal(f"no input has {range_.name} as an axis of its own")

    # What is spare of the sum of some dimensions.

    def _spare_of(self, direction: _Direction) -> Value:
        if direction not in self._spare:
            wanted = SPARE if len(direction) == 1 else f"{SPARE} {self._label(direction)}"
            self._spare[direction] = self._added(wanted, DType.I32, (1,))
        return self._spare[direction]

    def _added(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Value:
        while name in self._values:
            name += "'"
        self._values[name] = Value(name, dtype, shape)
        return self._values[name]

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
            names = [port.value for port in same]
            value, shapes = self._read(names, what), self._pair(names, what)
            growths = [self._growth(extents, what) for extents in zip(*shapes, strict=True)]
            opened = tuple(
                OpenPlace(place=place, axis=axis, step=step)
                for place, growth in enumerate(growths)
                for axis, step in enumerate(growth.steps)
                if step
            )
            if opened and same[0].value in self._scattered:
                raise self._range.refusal(f"{what} has that axis and another one as one")
            made.append(replace(same[0], value=value, open=opened))
        return tuple(made)

    def _pair(self, names: Sequence[str], what: str) -> list[tuple[int, ...]]:
        """Notes that values are one, and returns their shapes."""
        for known, name in zip(self._names, names, strict=True):
            if known.setdefault(names[0], name) != name:
                raise self._range.refusal(f"{what} reads another tensor for other extents")
        return [graph.values[n].shape for graph, n in zip(self._graphs, names, strict=True)]

    def _read(self, names: Sequence[str], what: str) -> str:
        """Names what a node reads of values that are one. It is that of the largest extent, or in
        place of a constant that depends on the extent what a node makes of that."""
        self._pair(names, what)
        name = names[0]
        pairs = zip(self._graphs, names, strict=True)
        entries = [found for graph, n in pairs if (found := graph.constants.get(n)) is not None]
        if not entries or name in self._moved:
            return self._moved.get(name, name)
        if len(entries) < len(names):
            raise self._range.refusal(f"{what} reads a constant for some extents alone")
        given = zip(entries, self._samples, strict=True)
        if not all(each is entries[0] or self._begins(entries[0], each, at) for each, at in given):
            stage = self._less(name, entries) or self._shifted(name, entries)
            if stage is None:
                raise self._range.refusal(f"{what} reads constants that depend on the extent")
            self._moved[name] = self._made_of(name, stage)
        return self._moved.get(name, name)

    def _made_of(self, constant: str, stage: Stage) -> str:
        """Adds a node that computes a stage of a constant and of what is spare."""
        value = self._values[constant]
        read = {each.tensor for each in _reads(stage.value)}
        told = [each for each in self._spare if _told_name(each) in read]
        inputs = (
            Input("x", value.dtype, value.shape),
            *(Input(_told_name(each), DType.I32, (1,)) for each in told),
        )
        made = self._added(f"{constant} moved", value.dtype, value.shape)
        workload = Workload.of_program("moved", Program(inputs=inputs, stages=(stage,)))
        names = (constant, *(self._spare_of(each).name for each in told))
        self._moving.append(Node(workload, names, made.name))
        return made.name

    def _less(self, name: str, entries: Sequence[Array]) -> Stage | None:
        """A constant of integers from which so many times what is spare is taken, as places that
        follow those of a cache are."""
        value, axes = self._values[name], _axes(entries[0].shape)
        if value.dtype is not DType.I32:
            return None
        if not all(_is_within(each, entries[0]) for each in entries):
            return None
        less = [entries[0][_first(each.shape)].astype(np.int64) - each for each in entries]
        if any(np.ptp(each) for each in less):
            return None
        steps = self._steps_of([-int(each.flat[0]) for each in less])
        if steps is None:
            return None
        made = self._without_spare(Read("x", axes), steps)
        # What all extents have in common stays so for what nobody wants.
        for op, ends in (
            (BinaryOp.MAX, {int(each.min()) for each in entries}),
            (BinaryOp.MIN, {int(each.max()) for each in entries}),
        ):
            if len(ends) == 1:
                made = Binary(op, made, Integer(ends.pop()))
        return Stage("c", axes, made, dtype=DType.I32)

    def _shifted(self, name: str, entries: Sequence[Array]) -> Stage | None:
        """A constant whose first entries stand further on in that of the largest extent by so many
        times what is spare, as those of a mask do behind a cache."""
        largest = entries[0]
        for place in range(largest.ndim):
            shifts = [_shift(largest, each, place) for each in entries]
            found = [each for each in shifts if each is not None]
            growth = self._grown([-each for each in found]) if len(found) == len(shifts) else None
            if growth is None:
                continue
            axes = _axes(largest.shape)
            spare = self._read_spare(growth.direction) * growth.step
            moved = _inside(axes[place] + spare, largest.shape[place])
            at = (*axes[:place], moved, *axes[place + 1 :])
            return Stage("c", axes, Read("x", at), dtype=self._values[name].dtype)
        return None

    def _begins(self, largest: Array, entries: Array, own: Extents) -> bool:
        """Returns whether a constant of a sample has the first entries of that of the largest
        extent along each axis. An axis may be several of them: [4096] may be [64, 64], and [128]
        may be [2, 64]."""
        if entries.ndim != largest.ndim:
            return False
        pairs = [(largest, entries)]
        most = self._range.most
        for some in _sums(len(most)):
            shapes = [
                _split(each.shape, [_dot(of, extents) for of in some])
                for each, extents in ((largest, most), (entries, own))
            ]
            if all(shapes):
                pairs.append((largest.reshape(shapes[0]), entries.reshape(shapes[1])))
        return any(
            whole.ndim == part.ndim
            and np.array_equal(whole[_first(part.shape)], part, equal_nan=part.dtype.kind == "f")
            for whole, part in pairs
        )

    def _grown(self, extents: Sequence[int]) -> _Growth | None:
        """Returns how an extent grows; None where that is unevenly, as if it is the product of
        two open axes."""
        steps = self._steps_of(extents)
        if steps is None or min(steps) < 0:
            return None
        return _Growth(steps, extents[0] - _dot(steps, self._range.most))

    def _steps_of(self, numbers: Sequence[int]) -> tuple[int, ...] | None:
        """Counts how many times each open extent numbers grow; None where that is unevenly."""
        most, *apart, _ = self._samples
        steps = []
        for place, (extents, number) in enumerate(zip(apart, numbers[1:], strict=False)):
            step, rest = divmod(numbers[0] - number, most[place] - extents[place])
            if rest:
                return None
            steps.append(step)
        more = numbers[0] - _dot(steps, most)
        samples = zip(self._samples, numbers, strict=True)
        grows = all(_dot(steps, extents) + more == number for extents, number in samples)
        return tuple(steps) if grows else None

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

    # Nodes.

    def _node(self, *nodes: Node) -> Node:
        node, ops = nodes[0], [each.op for each in nodes]
        what = f"node {node.label or node.output!r}"
        if len({(type(each.op), len(each.inputs)) for each in nodes}) > 1:
            raise self._range.refusal(f"{what} is another operation for other extents")
        read_names = tuple(
            self._read(names, what) for names in zip(*(each.inputs for each in nodes), strict=True)
        )
        node = replace(node, inputs=read_names)
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
        op, told = self._workload(workloads, what, is_scattered=is_scattered)
        names = (self._spare_of(direction).name for direction in told)
        return replace(node, op=op, inputs=(*node.inputs, *names))

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

        def opened(of: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], int]]:
            """The open axes, each with the entries that it has behind it."""
            found = []
            for place, growth in enumerate(self._growths(of, what)):
                if growth is None or growth.step:
                    behind = prod(of[0][place + 1 :])
                    steps = growth.steps if growth else (-1,)
                    found.append((tuple(step * behind for step in steps), prod(of[0][:place])))
            return found

        return opened(before) != opened(shapes)

    def _workload(
        self, workloads: Sequence[Workload], what: str, *, is_scattered: bool
    ) -> tuple[Workload, Sequence[_Direction]]:
        """The workload of the whole range, and of which sums it is told what is spare."""
        largest = workloads[0]
        if len({each.key for each in workloads}) == 1:
            return largest, ()
        if len({(w.operator.name, w.epilogue, w.constant) for w in workloads}) > 1:
            raise self._range.refusal(f"{what} is another operation for other extents")
        attending = [attention_of(each.program) for each in workloads]
        if attending[0] is not None:
            return self._attention(workloads, what)
        programs = [each.program for each in workloads]
        steps = self._steps(programs, what)
        whole = self._bounded(self._computing(programs, what), steps, what)
        parts = None if is_scattered else self._parts(programs[0], steps)
        along = parts and parts.direction
        if whole == programs[0] and not parts:
            return largest, ()
        is_named = whole == programs[0] and not isinstance(largest, ProgramWorkload)
        if is_named and parts and parts.blocks == 1:
            return replace(largest, spare=parts.count), (parts.direction,)
        name = largest.name if isinstance(largest, ProgramWorkload) else largest.operator.name
        read = {each.tensor for stage in whole.stages for each in _reads(stage.value)}
        # The last one says what is spare of the output.
        told = [each for each in self._spare if each != along and _told_name(each) in read]
        told += [along] if along else []
        inputs = (*whole.inputs, *(Input(_told_name(each), DType.I32, (1,)) for each in told))
        spare = Spare(_told_name(along), parts.count, parts.blocks) if parts and along else None
        return Workload.of_program(name, replace(whole, inputs=inputs, spare=spare)), told

    def _attention(
        self, workloads: Sequence[Workload], what: str
    ) -> tuple[Workload, Sequence[_Direction]]:
        given = [found for each in workloads if (found := attention_of(each.program)) is not None]
        rows = self._growth([each.m for each in given], what)
        keys = self._growth([each.n for each in given], what)
        alike = {replace(each, m=given[0].m, n=given[0].n) for each in given}
        if len(given) < len(workloads) or len(alike) > 1 or {rows.step, keys.step} - {0, 1}:
            raise self._range.refusal(f"{what} attends otherwise for other extents")
        told = dict.fromkeys(each.direction for each in (keys, rows) if each.step)
        made = replace(
            given[0],
            spare_keys=bool(keys.step),
            spare_rows=bool(rows.step),
            spare_apart=len(told) > 1,
        )
        return Workload.of_program("attention", attention(made)), tuple(told)

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
            steps = self._steps_of(whole) if len(whole) == len(values) else None
            near = all(isclose(a, b, rel_tol=1e-6) for a, b in zip(whole, numbers, strict=True))
            if steps is None or not near:
                continue
            found = self._without_spare(Integer(whole[0]), steps)
            if isinstance(values[0], int):
                return found
            return Real(1.0) / Cast(found) if is_inverse else Cast(found)
        return None

    def _without_spare(self, number: Expression, steps: tuple[int, ...]) -> Expression:
        """A number at the largest extents as that at those of a run, which grows by so much."""
        if min(steps) >= 0:
            growth = _Growth(steps, 0)
            return number - self._read_spare(growth.direction) * growth.step
        for direction, step in zip(_alone(len(steps)), steps, strict=True):
            if step:
                number = number - self._read_spare(direction) * step
        return number

    def _read_spare(self, direction: _Direction) -> Read:
        """Reads what is spare of a sum, in an expression."""
        self._spare_of(direction)
        return Read(_told_name(direction), (Integer(0),))

    def _steps(self, programs: Sequence[Program], what: str) -> "_Steps":
        """Maps a stage and an axis of it that grows, by their names, to its growth."""
        steps: dict[tuple[str, str], _Growth] = {}
        for stages in zip(*(each.stages for each in programs), strict=True):
            axes = zip(*((*stage.axes, *stage.over) for stage in stages), strict=True)
            for same in axes:
                growth = self._grown([_number(axis) for axis in same])
                if growth is None and same[0] in stages[0].over:
                    raise self._range.refusal(f"{what} reduces along several of that axis at once")
                if growth is not None and growth.step:
                    steps[stages[0].name, same[0].name] = growth
        return steps

    def _bounded(self, program: Program, steps: "_Steps", what: str) -> Program:
        """Terms of reductions that are beyond an open axis count for nothing."""
        stages = tuple(self._bounded_stage(stage, steps, what) for stage in program.stages)
        return replace(program, stages=stages)

    def _bounded_stage(self, stage: Stage, steps: "_Steps", what: str) -> Stage:
        opened = [
            (axis, growth) for axis in stage.over if (growth := steps.get((stage.name, axis.name)))
        ]
        if not opened:
            return stage
        if stage.reducer in RUNNING:
            # What is there comes before what is spare.
            return stage
        neutral = NEUTRAL.get((stage.reducer, stage.dtype)) if stage.reducer else None
        if neutral is None or stage.is_ordered:
            raise self._range.refusal(f"{what} takes values along that axis one after another")
        are_there = []
        for axis, growth in opened:
            spare: Expression = self._read_spare(growth.direction)
            spare = spare * growth.step if growth.step > 1 else spare
            are_there.append(Comparison(CompareOp.LT, axis + spare, axis.extent))
        return replace(stage, value=Choice(tuple(are_there), stage.value, neutral))

    def _parts(self, program: Program, steps: "_Steps") -> "_Parts | None":
        """None where all of the output is computed."""
        output = program.output
        in_order = program.is_ordered or is_recurrent(program)
        if output.dtype is DType.I32 or program.updates or in_order:
            return None
        opened = [
            (place, growth)
            for place, axis in enumerate(output.axes)
            if (growth := steps.get((output.name, axis.name)))
        ]
        if not opened:
            return None
        (place, growth), *others = opened
        extent = output.shape[place]
        alone = not others or growth.direction not in (each.direction for _, each in others)
        if extent % growth.step or not alone:
            return None
        return _Parts(extent // growth.step, prod(output.shape[:place]), growth.direction)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of an output of which some may be spare, as the sum of dimensions says: so many of
    each of its blocks."""

    count: int
    blocks: int
    direction: _Direction


_Steps: TypeAlias = Mapping[tuple[str, str], _Growth]


def widened(ranges: ExtentRanges, imported_at: Callable[..., Graph]) -> ExtentRanges:
    """The ranges up to the next multiples of 4, where the model attends and can be imported for
    them: attention is one kernel where rows of scores are whole vectors. A range that is too short
    for samples of whole vectors is as long as they need where attention depends on it."""

    def attentions(most: Extents) -> int:
        try:
            nodes = fused(imported_at(*most)).nodes
        except (InvalidInput, UnsupportedModel):
            return 0
        programs = (node.op.program for node in nodes if isinstance(node.op, Workload))
        return sum(attention_of(each) is not None for each in programs)

    wide = tuple(replace(each, most=each.most + -each.most % STEP) for each in ranges.ranges)
    short = [place for place, each in enumerate(wide) if not each.has_steps(SAMPLES - 1)]
    if wide == ranges.ranges and not short:
        return ranges
    most = tuple(each.most for each in wide)
    joined = attentions(most)
    if not joined:
        return ranges
    longer = list(wide)
    for place in short:
        if attentions((*most[:place], most[place] - 1, *most[place + 1 :])) != joined:
            longer[place] = replace(wide[place], most=STEP * SAMPLES)
    served = ExtentRanges(tuple(longer))
    return served if attentions(served.most) else ExtentRanges(wide)


def refuse_wrong_extent(
    graph: Graph, imported: Graph, extents: Extents, ranges: ExtentRanges
) -> None:
    """Raises UnsupportedModel where the graph of ranges computes something else for some extents
    than the model that was imported for them. What inputs have beyond them is no number, or the
    least that chooses a row; what kernels leave out is no number, either."""
    spare = tuple(most - own for most, own in zip(ranges.most, extents, strict=True))
    shown = str(*extents) if len(extents) == 1 else ranges.shown(extents)
    own = {port.name: imported.values[port.value].shape for port in imported.outputs}
    for port in graph.outputs:
        shape = list(graph.values[port.value].shape)
        for each in port.open:
            shape[each.place] -= each.step * spare[each.axis]
        if own.get(port.name) != tuple(shape):
            raise ranges.refusal(f"an extent of output {port.name!r} is another one at {shown}")
    for way in Way:
        feeds = seeded_feeds(imported, way)
        right = evaluate(imported, feeds)
        made = _evaluated(graph, feeds, spare)
        for name, wanted in right.items():
            if _is_off(made[name], wanted, ROUNDED[way]):
                node = _first_wrong(graph, fused(imported), feeds, spare)
                due = f", as node {node} does something else there" if node else ""
                raise ranges.refusal(f"output {name!r} would be wrong at {shown}{due}")


def _is_off(entries: Array, right: Array, tolerance: float = TOLERANCE) -> bool:
    first = entries[_first(right.shape)]
    return first.shape != right.shape or entries_off(first, right, tolerance) > 0


def _first_wrong(
    graph: Graph, own: Graph, feeds: Mapping[str, Array], spare: Extents
) -> str | None:
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
        alike = is_first or all(a - b in (0, *spare, sum(spare)) for a, b in extents)
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
    spare: Extents,
    computed: list[tuple[Node, Array]] | None = None,
) -> dict[str, Array]:
    """Outputs, and in `computed` what each node makes."""
    of_axes = zip((axis.input for axis in graph.axes), spare, strict=True)
    told = dict((*of_axes, *((each.input, _dot(each.factors, spare)) for each in graph.sums)))
    of_values = {graph.inputs[place].value: number for place, number in told.items()}
    padded = {
        port.name: np.array([told[place]], np.int32)
        if place in told
        else _padded(feeds.get(port.name), graph, port)
        for place, port in enumerate(graph.inputs)
    }
    noting = _noting([] if computed is None else computed)

    def left_out(node: Node, entries: Array) -> Array:
        op = node.op
        if not isinstance(op, Workload) or not op.spare_parts:
            return noting(node, entries)
        made, parts = np.array(entries, order="C"), op.spare_parts
        by_part = made.reshape(op.spare_blocks, parts, -1)
        by_part[:, parts - of_values[node.inputs[-1]] :] = np.nan
        return noting(node, made)

    with np.errstate(invalid="ignore"):
        return evaluate(graph, padded, seen=left_out)


def _padded(entries: Array | None, graph: Graph, port: GraphPort) -> Array:
    """None for an input that has no entries, such as an empty cache."""
    value = graph.values[port.value]
    real = value.dtype is not DType.I32
    beyond = np.nan if real else (port.rows or (0, 0))[0]
    made: Array = np.full(value.shape, beyond, NUMPY_DTYPES[value.dtype])
    if entries is not None:
        made[_first(entries.shape)] = entries
    return made


def _dot(factors: Sequence[int], extents: Sequence[int]) -> int:
    return sum(n * extent for n, extent in zip(factors, extents, strict=True))


def _told_name(direction: _Direction) -> str:
    """The input of a program that says what is spare of a sum of dimensions."""
    return SPARE if len(direction) == 1 else "_".join((SPARE, *map(str, direction)))


def _reads(expression: Expression) -> Iterator[Read]:
    return (part for part in parts(expression) if isinstance(part, Read))


def _axes(shape: tuple[int, ...]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{n}", Integer(extent)) for n, extent in enumerate(shape))


def _first(shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(0, extent) for extent in shape)


def _is_within(entries: Array, largest: Array) -> bool:
    """Returns whether one tensor has as many axes as another, none of them longer."""
    return entries.ndim == largest.ndim and all(
        few <= many for few, many in zip(entries.shape, largest.shape, strict=True)
    )


def _shift(largest: Array, entries: Array, place: int) -> int | None:
    """Tells how far on along an axis a constant stands in that of the largest extent; None where it
    does not."""
    if not _is_within(entries, largest):
        return None
    for shift in range(largest.shape[place] - entries.shape[place] + 1):
        at = list(_first(entries.shape))
        at[place] = slice(shift, shift + entries.shape[place])
        if np.array_equal(largest[tuple(at)], entries, equal_nan=entries.dtype.kind == "f"):
            return shift
    return None


def _alone(count: int) -> list[_Direction]:
    """Each of so many dimensions by itself."""
    return [tuple(int(place == each) for each in range(count)) for place in range(count)]


def _sums(count: int) -> Iterator[tuple[_Direction, ...]]:
    """Sums of so many dimensions that axes may have, which may be one axis: one alone, and two."""
    each = [*_alone(count), *([(1,) * count] if count > 1 else [])]
    yield from ((one,) for one in each)
    yield from product(each, repeat=2)


def _split(shape: tuple[int, ...], extents: Sequence[int]) -> tuple[int, ...] | None:
    """A shape of one axis as `[rest, *extents]`; None where it is no such."""
    rest, more = divmod(prod(shape), prod(extents))
    return None if more or len(shape) != 1 else (rest, *extents)


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
