"""Reductions of rows for wasm: each stage of a row follows the one before while that is cached.

Shapes, named by the settings of `WasmReductionConfig`:

    range         blocks of block_m rows
    row           ⌈n / (4 · vectors)⌉ steps of 4 · vectors entries
    sum           [4 · vectors] lane by lane, then [4], then one value

What it makes of softmax:f32:m4n16 with vectors=2 and block_m=2:

    for i2 < 2 range:
      for i1 < 2:                                            1. all stages of one row
        largest_lanes[8] = max(largest_lanes, a[i, 8·step …])     for step < 2: 4.
        largest_vectors[4] = max(largest_lanes[0 …], largest_lanes[4 …])
        largest = max of its four lanes                      5.
        for step < 2:                                        3. kept and summed in one loop
          power[8·step …] = exp(a[i, 8·step …] − largest)
          total_lanes[8] += power[8·step …]
        total_vectors[4], total = …
        share = 1 / total
        c[i, 8·step …] = power[8·step …] · share             2. vectors of the result

Which stages a program has, `rows.py` tells. Rows are stated rounded up to a whole number of steps.
A stage that reads a parameter skips what lies outside; a stage that keeps entries in scratch memory
keeps zeros there, which no later sum sees, or the smallest number, which no later maximum sees.
Rows of several axes, of which some tensor has only a few, are several loops: the longest is the
range.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Expression,
    Read,
    Reducer,
    Stage,
    parts,
    rebuilt,
)
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.operators.lowering import LARGEST_NUMBER, REDUCERS, value_of
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import round_up
from services.tuner.schedules.base.reducers import NEUTRAL
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.config import WasmReductionConfig
from services.tuner.schedules.reduction.rows import Rows, rows_of, size_of
from services.tuner.tir.lowering import scheduled_program
from services.tuner.tir.tvm import Node, Schedule, te, tirx

RESULT = "c"


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmReductionConfig.of(candidate)
    program = reduction_program(candidate.workload, config)
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma, vectors=1))


def reduction_program(workload: Workload, config: WasmReductionConfig) -> ir.Program:
    """The scheduled loop nest; its parameters are those of the workload, flat."""
    rows = rows_of(workload)
    named = dict(rows.inputs)
    inputs = tuple((each.name, named.get(each.name, ())) for each in workload.program.inputs)
    schedule = _scheduled(_stated(rows, inputs, config.width), rows, config)
    output = (*rows.axes, rows.column) if rows.has_columns else rows.axes
    shapes = tuple(tuple(map(size_of, axes)) or (1,) for axes in (*dict(inputs).values(), output))
    return scheduled_program(schedule, shapes, rows.slices // config.block_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """`stages` are names in order, without the result; `totals` those whose lanes are added up.
    `followers` are sums, each with the stage that keeps what it adds: they share a loop, so that
    every entry is added while it is in a register."""

    function: Node
    stages: tuple[str, ...]
    totals: frozenset[str]
    followers: Mapping[str, str]


class _Row:
    """States the stages of a row of `steps` of `width` entries."""

    def __init__(
        self, rows: Rows, inputs: tuple[tuple[str, tuple[Axis, ...]], ...], width: int
    ) -> None:
        self.rows, self.width = rows, width
        self.columns = round_up(rows.n, width)
        self.steps = self.columns // width
        self.sizes = tuple(map(size_of, rows.axes))
        self.stages: list[str] = []
        self.totals: set[str] = set()
        self.followers: dict[str, str] = {}
        self.outside: dict[str, float] = {}
        self.parameters = {name: self._placeholder(name, axes) for name, axes in inputs}
        self._kept: dict[str, Node] = {}
        self._of_row: dict[Expression, Node] = {}

    def stated(self) -> _Stated:
        rows, values = self.rows, self.rows.values_of_row
        wanted = values(*(s.value for s in rows.stages), *([rows.output] * rows.has_columns))
        for stage in rows.stages:
            if not stage.reducer:
                self._keep(stage)
                continue
            self._of_row[Read(stage.name, stage.axes)] = self._reduced(stage)
            # What of a row needs this pass, once for all columns.
            for part in wanted:
                if part not in self._of_row and self._passes_of(part) <= self._of_row.keys():
                    self._single(part)
        result = self._result()
        return _Stated(
            function=te.create_prim_func([*self.parameters.values(), result]),
            stages=tuple(self.stages),
            totals=frozenset(self.totals),
            followers=self.followers,
        )

    def _passes_of(self, value: Expression) -> set[Expression]:
        passes = {stage.name for stage in self.rows.passes}
        return {p for p in parts(value) if isinstance(p, Read) and p.tensor in passes}

    def _placeholder(self, name: str, axes: tuple[Axis, ...]) -> Node:
        column = self.rows.column
        shape = tuple(self.columns if axis == column else size_of(axis) for axis in axes)
        return te.placeholder(shape or (1,), name=name)

    def _entry(self, value: Expression, at: tuple[Node, ...], step: Node, lane: Node) -> Node:
        """A value at a row, and at a lane of a step of it."""
        rows = self.rows

        def read(tensor: str) -> Callable[..., Node]:
            def entry(*places: Node) -> Node:
                if tensor in self._kept:
                    return self._kept[tensor][(*at, step, lane)]
                if tensor in self.parameters:
                    return self.parameters[tensor][places or (0,)]
                return self._known[tensor][at]

            return entry

        tensors = {name: read(name) for name in (*self.parameters, *self._kept, *self._known)}
        places = dict(zip((axis.name for axis in rows.axes), at, strict=True))
        places[rows.column.name] = step * self.width + lane
        return value_of(self._with_singles(value), places, tensors)

    @property
    def _known(self) -> dict[str, Node]:
        """Values of a row, by the names that `_with_singles` gives them."""
        return {_name(part, n): node for n, (part, node) in enumerate(self._of_row.items())}

    def _with_singles(self, value: Expression) -> Expression:
        names = {part: _name(part, n) for n, part in enumerate(self._of_row)}

        def inside(part: Expression) -> Expression:
            if part in names:
                return Read(names[part], self.rows.axes)
            return rebuilt(part, inside)

        return inside(value)

    def _keep(self, stage: Stage) -> None:
        """An entry for every column; outside of the row what changes nothing where reduced."""
        reducers = (p.reducer for p in self.rows.passes if stage.name in _reads(p.value))
        outside = NEUTRAL[next((each for each in reducers if each), Reducer.SUM)]
        self.stages.append(stage.name)
        self.outside[stage.name] = outside

        def entry(*at: Node) -> Node:
            *row, step, lane = at
            value = self._entry(stage.value, tuple(row), step, lane)
            return self._inside(value, step, lane, outside)

        names = [*self._names, "step", "lane"]
        shape = (*self.sizes, self.steps, self.width)
        made = te.compute(shape, entry, name=stage.name, varargs_names=names)
        self._kept[stage.name] = made

    def _inside(self, value: Node, step: Node, lane: Node, outside: float) -> Node:
        if self.columns == self.rows.n:
            return value
        inside = step * self.width + lane < self.rows.n
        return tirx.if_then_else(inside, value, tirx.const(outside, "float32"))

    @property
    def _names(self) -> list[str]:
        return ["i"] if len(self.sizes) == 1 else [f"i{n}" for n in range(len(self.sizes))]

    def _reduced(self, stage: Stage) -> Node:
        """Over the columns: first lane by lane of a step, then of a vector, then to one value."""
        assert stage.reducer is not None
        drops_nan, name = self.rows.may_drop_nan(stage), stage.name
        reduce = LARGEST_NUMBER if drops_nan else REDUCERS[stage.reducer]
        step = te.reduce_axis((0, self.steps), name="step")
        vector = te.reduce_axis((0, self.width // ir.LANES), name="vector")
        lane = te.reduce_axis((0, ir.LANES), name="lane")
        skips = self._skips(stage)

        def lanes(*at: Node) -> Node:
            *row, j = at
            value = self._entry(stage.value, tuple(row), step, j)
            if not skips:
                value = self._inside(value, step, j, NEUTRAL[stage.reducer or Reducer.SUM])
            return reduce(value, axis=[step])

        names = [*self._names, "j"]
        partial = te.compute(
            (*self.sizes, self.width), lanes, name=f"{name}_lanes", varargs_names=names
        )
        sources = [each for each in self._kept if each in _reads(stage.value)]
        if sources and sources[-1] not in self.followers.values():
            self.followers[f"{name}_lanes"] = sources[-1]
        self.stages.append(f"{name}_lanes")
        if self.width > ir.LANES:
            wide = partial
            self.stages.append(f"{name}_vectors")
            partial = te.compute(
                (*self.sizes, ir.LANES),
                lambda *at: reduce(wide[(*at[:-1], vector * ir.LANES + at[-1])], axis=[vector]),
                name=f"{name}_vectors",
                varargs_names=names,
            )
        self.stages.append(name)
        self.totals.add(name)
        return te.compute(
            self.sizes,
            lambda *at: reduce(partial[(*at, lane)], axis=[lane]),
            name=name,
            varargs_names=self._names,
        )

    def _skips(self, stage: Stage) -> bool:
        """Returns whether what lies outside of the row changes nothing: a statement that reads a
        parameter there is skipped, and kept entries are neutral there."""
        if any(self.rows.column in axes for axes in self._input_axes(stage.value)):
            return True
        return self._neutral(stage.value) == NEUTRAL[stage.reducer or Reducer.SUM]

    def _input_axes(self, value: Expression) -> list[tuple[Axis, ...]]:
        named = dict(self.rows.inputs)
        return [named[name] for name in _reads(value) if name in named]

    def _neutral(self, value: Expression) -> float | None:
        """Returns what a value is outside of the row, where that is certain."""
        match value:
            case Read(tensor):
                return self.outside.get(tensor)
            case Binary(BinaryOp.MUL, left, right):
                return 0.0 if 0.0 in (self._neutral(left), self._neutral(right)) else None
        return None

    def _single(self, value: Expression) -> None:
        name = f"single{sum(not isinstance(part, Read) for part in self._of_row)}"
        self.stages.append(name)
        zero = tirx.const(0, "int32")
        self._of_row[value] = te.compute(
            self.sizes,
            lambda *at: self._entry(value, at, zero, zero),
            name=name,
            varargs_names=self._names,
        )

    def _result(self) -> Node:
        output, zero = self.rows.output, tirx.const(0, "int32")
        if not self.rows.has_columns:
            return te.compute(
                self.sizes,
                lambda *at: self._entry(output, at, zero, zero),
                name=RESULT,
                varargs_names=self._names,
            )

        def entry(*at: Node) -> Node:
            *row, j = at
            return self._entry(output, tuple(row), j // self.width, j % self.width)

        shape = (*self.sizes, self.columns)
        return te.compute(shape, entry, name=RESULT, varargs_names=[*self._names, "j"])


def _name(part: Expression, place: int) -> str:
    """Names a value of a row among tensors: a pass has its own name."""
    return part.tensor if isinstance(part, Read) else f"single{place}"


def _reads(value: Expression) -> set[str]:
    return {part.tensor for part in parts(value) if isinstance(part, Read)}


@lru_cache(maxsize=256)
def _stated(rows: Rows, inputs: tuple[tuple[str, tuple[Axis, ...]], ...], width: int) -> _Stated:
    return _Row(rows, inputs, width).stated()


def _scheduled(stated: _Stated, rows: Rows, config: WasmReductionConfig) -> Node:
    schedule = Schedule(stated.function, debug_mask="none", enable_check=False)
    # 1. Blocks of rows; all stages of a row stand inside of its loop.
    loops = schedule.get_loops(schedule.get_sblock(RESULT))
    others, columns = list(loops[: len(rows.axes)]), loops[len(rows.axes) :]
    sliced = others.pop(rows.sliced)
    blocks, row = schedule.split(sliced, [None, config.block_m], preserve_unit_iters=True)
    if others:
        schedule.reorder(blocks, *others, row, *columns)
    # 2. Vectors of the result, where it has columns.
    for column in columns:
        _, lane = schedule.split(column, [None, config.width], preserve_unit_iters=True)
        schedule.vectorize(lane)
    # The last stage first: each is placed before the stages that read it.
    for stage in reversed(stated.stages):
        block = schedule.get_sblock(stage)
        schedule.compute_at(block, row, preserve_unit_loops=True)
    # 3 to 5. The loops of each stage.
    for stage in stated.stages:
        _place(schedule, stage, stated)
    return schedule


def _place(schedule: Node, stage: str, stated: _Stated) -> None:
    """3. A stage that keeps entries gets the loops of the sum that follows it; 4. sums are vectors
    in registers; 5. whose lanes are added up at last."""
    name, _, kind = stage.rpartition("_")
    if stage in stated.followers:
        _follow(schedule, stage, stated.followers[stage])
    elif name in stated.totals:
        _by_vectors(schedule, stage, unrolled=kind == "vectors")
    elif stage in stated.totals:
        _total(schedule, stage)


def _by_vectors(schedule: Node, stage: str, *, unrolled: bool) -> None:
    block = schedule.get_sblock(stage)
    *_, lane, step = schedule.get_loops(block)
    schedule.set_scope(block, 0, "local")
    schedule.reorder(step, lane)
    schedule.vectorize(lane)
    if unrolled:
        schedule.unroll(step)
    first = schedule.decompose_reduction(block, step)
    schedule.vectorize(schedule.get_loops(first)[-1])


def _follow(schedule: Node, stage: str, source: str) -> None:
    """Every entry is summed where it is made."""
    block = schedule.get_sblock(stage)
    schedule.set_scope(block, 0, "local")
    *_, step, lane = schedule.get_loops(schedule.get_sblock(source))
    schedule.reverse_compute_at(block, lane, preserve_unit_loops=False)
    schedule.vectorize(lane)
    first = schedule.decompose_reduction(block, step)
    schedule.vectorize(schedule.get_loops(first)[-1])


def _total(schedule: Node, stage: str) -> None:
    block = schedule.get_sblock(stage)
    lane = schedule.get_loops(block)[-1]
    schedule.set_scope(block, 0, "local")
    schedule.unroll(lane)
    schedule.decompose_reduction(block, lane)
