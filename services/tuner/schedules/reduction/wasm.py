"""Operators on rows for wasm: each stage of a row follows the one before while it is in the cache.

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

Rows are stated rounded up to a whole number of steps. A stage that reads a parameter skips what
lies outside; a stage that keeps entries in scratch memory keeps zeros there, which no later sum
sees.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.reduction import epsilon
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES, Program
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import round_up
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.config import WasmReductionConfig
from services.tuner.tir.lowering import scheduled_program
from services.tuner.tir.tvm import Node, Schedule, te, tirx


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmReductionConfig.of(candidate)
    program = reduction_program(candidate.workload, config)
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma, vectors=1))


def reduction_program(workload: Workload, config: WasmReductionConfig) -> Program:
    """The scheduled loop nest; its parameters are those of the workload, flat."""
    extent = workload.extent
    floor = epsilon(extent) if "eps" in extent else 0.0
    stated = _stated(workload.operator.name, extent["m"], extent["n"], config.width, floor)
    schedule = _scheduled(stated, config)
    shapes = tuple(tensor.shape for tensor in workload.tensors)
    return scheduled_program(schedule, shapes, extent["m"] // config.block_m)


Value = Callable[[Node, Node, Node], Node]
"""An entry by its row, its step and its lane within the step."""


class _Row:
    """States the stages of an operator; `stages` are their names in order.

    A row is `steps` of `width` entries; to a variance, `floor` is added. `followers` are sums, each
    with the stage that keeps what it adds: they share a loop, so that every entry is added while it
    is in a register.
    """

    def __init__(self, m: int, n: int, width: int, floor: float) -> None:
        self.m, self.n, self.width, self.floor = m, n, width, floor
        self.columns = round_up(n, width)
        self.steps = self.columns // width
        self.stages: list[str] = []
        self.followers: dict[str, str] = {}
        self.parameters: list[Node] = [te.placeholder((m, self.columns), name="a")]

    def a(self, i: Node, step: Node, lane: Node) -> Node:
        return self.parameters[0][i, step * self.width + lane]

    def parameter(self, name: str) -> Callable[[Node, Node], Node]:
        """By step and lane."""
        stated = te.placeholder((self.columns,), name=name)
        self.parameters.append(stated)
        return lambda step, lane: stated[step * self.width + lane]

    def reduced(
        self, reduce: Callable[..., Node], value: Value, name: str, follows: str = ""
    ) -> Node:
        """Over the columns: first lane by lane of a step, then of a vector, then to one value."""
        step = te.reduce_axis((0, self.steps), name="step")
        vector = te.reduce_axis((0, self.width // LANES), name="vector")
        lane = te.reduce_axis((0, LANES), name="lane")
        partial = te.compute(
            (self.m, self.width),
            lambda i, j: reduce(value(i, step, j), axis=step),
            name=f"{name}_lanes",
        )
        if follows:
            self.followers[f"{name}_lanes"] = follows
        self.stages.append(f"{name}_lanes")
        if self.width > LANES:
            wide, width = partial, f"{name}_vectors"
            self.stages.append(width)
            partial = te.compute(
                (self.m, LANES),
                lambda i, j: reduce(wide[i, vector * LANES + j], axis=vector),
                name=width,
            )
        self.stages.append(name)
        return te.compute((self.m,), lambda i: reduce(partial[i, lane], axis=lane), name=name)

    def single(self, value: Callable[[Node], Node], name: str) -> Node:
        """One value for a row."""
        self.stages.append(name)
        return te.compute((self.m,), value, name=name)

    def kept(self, value: Value, name: str) -> Node:
        """An entry for every column, 0 outside of the row."""
        self.stages.append(name)
        zero = tirx.const(0, "float32")

        def entry(i: Node, step: Node, lane: Node) -> Node:
            if self.columns == self.n:
                return value(i, step, lane)
            inside = step * self.width + lane < self.n
            return tirx.if_then_else(inside, value(i, step, lane), zero)

        return te.compute((self.m, self.steps, self.width), entry, name=name)

    def result(self, value: Value) -> Node:
        def entry(i: Node, j: Node) -> Node:
            return value(i, j // self.width, j % self.width)

        return te.compute((self.m, self.columns), entry, name="c")


def _constant(value: float) -> Node:
    return tirx.const(value, "float32")


def _softmax(row: _Row) -> Node:
    largest = row.reduced(te.max, row.a, "largest")
    power = row.kept(lambda i, s, j: te.exp(row.a(i, s, j) - largest[i]), "power")
    total = row.reduced(te.sum, lambda i, s, j: power[i, s, j], "total", follows="power")
    share = row.single(lambda i: _constant(1) / total[i], "share")
    return row.result(lambda i, s, j: power[i, s, j] * share[i])


def _layer_norm(row: _Row) -> Node:
    gamma, beta = row.parameter("gamma"), row.parameter("beta")
    n = _constant(1 / row.n)
    total = row.reduced(te.sum, row.a, "total")
    mean = row.single(lambda i: total[i] * n, "mean")
    rest = row.kept(lambda i, s, j: row.a(i, s, j) - mean[i], "rest")
    square = row.reduced(
        te.sum, lambda i, s, j: rest[i, s, j] * rest[i, s, j], "square", follows="rest"
    )
    root = row.single(lambda i: te.rsqrt(square[i] * n + _constant(row.floor)), "factor")
    return row.result(lambda i, s, j: rest[i, s, j] * root[i] * gamma(s, j) + beta(s, j))


def _rms_norm(row: _Row) -> Node:
    gamma = row.parameter("gamma")
    square = row.reduced(te.sum, lambda i, s, j: row.a(i, s, j) * row.a(i, s, j), "square")
    mean = _constant(1 / row.n)
    root = row.single(lambda i: te.rsqrt(square[i] * mean + _constant(row.floor)), "factor")
    return row.result(lambda i, s, j: row.a(i, s, j) * root[i] * gamma(s, j))


def _reduction(reduce: Callable[..., Node], *, mean: bool = False) -> Callable[[_Row], Node]:
    def state(row: _Row) -> Node:
        total = row.reduced(reduce, row.a, "total")
        factor = _constant(1 / row.n if mean else 1)
        return te.compute((row.m,), lambda i: total[i] * factor, name="c")

    return state


_OPERATORS: dict[str, Callable[[_Row], Node]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "row_sum": _reduction(te.sum),
    "row_mean": _reduction(te.sum, mean=True),
    "row_max": _reduction(te.max),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """`stages` in order, without the result; `followers` as in `_Row`."""

    function: Node
    stages: tuple[str, ...]
    followers: Mapping[str, str]


@lru_cache(maxsize=256)
def _stated(name: str, m: int, n: int, width: int, floor: float) -> _Stated:
    row = _Row(m, n, width, floor)
    result = _OPERATORS[name](row)
    return _Stated(
        function=te.create_prim_func([*row.parameters, result]),
        stages=tuple(row.stages),
        followers=row.followers,
    )


def _scheduled(stated: _Stated, config: WasmReductionConfig) -> Node:
    schedule = Schedule(stated.function, debug_mask="none", enable_check=False)
    # 1. Blocks of rows; all stages of a row stand inside of its loop.
    rows, *columns = schedule.get_loops(schedule.get_sblock("c"))
    _, row = schedule.split(rows, [None, config.block_m], preserve_unit_iters=True)
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
    kind = stage.rpartition("_")[2]
    if stage in stated.followers:
        _follow(schedule, stage, stated.followers[stage])
    elif kind == "lanes":
        _by_vectors(schedule, stage, unrolled=False)
    elif kind == "vectors":
        _by_vectors(schedule, stage, unrolled=True)
    elif f"{stage}_lanes" in stated.stages:
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
