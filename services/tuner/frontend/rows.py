"""Operators on rows: each stage of a row follows the one before while the row is in the cache.

Rows are stated rounded up to a whole number of steps. A stage that reads a parameter skips what
lies outside; a stage that keeps entries in scratch memory keeps zeros there, which no later sum
sees.
"""

from collections.abc import Callable
from functools import lru_cache

from tvm import te, tirx

from kernelzoo.domain.workload import Workload
from services.tuner.extents import round_up
from services.tuner.frontend.definitions import VARIANCE_FLOOR
from services.tuner.frontend.expressions import Node
from services.tuner.frontend.lowering import scheduled_program
from services.tuner.frontend.schedules import Schedule
from services.tuner.ir.nodes import Program
from services.tuner.rows import RowsConfig


def rows_program(workload: Workload, config: RowsConfig) -> Program:
    """The scheduled loop nest; its parameters are those of the workload, flat."""
    extent = workload.extent
    function, stages = _stated(workload.operator.name, extent["m"], extent["n"], config.width)
    schedule = _scheduled(function, stages, config)
    shapes = tuple(tensor.shape for tensor in workload.tensors)
    return scheduled_program(schedule, shapes, extent["m"] // config.block_m)


class _Row:
    """States the stages of an operator; `stages` are their names in order."""

    def __init__(self, m: int, n: int, width: int) -> None:
        self.m, self.n, self.width = m, n, width
        self.columns = round_up(n, width)
        self.stages: list[str] = []
        self.a = te.placeholder((m, self.columns), name="a")

    def parameter(self, name: str) -> Node:
        return te.placeholder((self.columns,), name=name)

    def reduced(
        self, reduce: Callable[..., Node], value: Callable[[Node, Node], Node], name: str
    ) -> Node:
        """Over the columns: first lane by lane, then over the lanes."""
        step = te.reduce_axis((0, self.columns // self.width), name="step")
        lane = te.reduce_axis((0, self.width), name="lane")
        partial = te.compute(
            (self.m, self.width),
            lambda i, j: reduce(value(i, step * self.width + j), axis=step),
            name=f"{name}_lanes",
        )
        self.stages += [f"{name}_lanes", name]
        return te.compute((self.m,), lambda i: reduce(partial[i, lane], axis=lane), name=name)

    def single(self, value: Callable[[Node], Node], name: str) -> Node:
        """One value for a row."""
        self.stages.append(name)
        return te.compute((self.m,), value, name=name)

    def kept(self, value: Callable[[Node, Node], Node], name: str) -> Node:
        """An entry for every column, 0 outside of the row."""
        self.stages.append(name)
        zero = tirx.const(0, "float32")

        def entry(i: Node, j: Node) -> Node:
            if self.columns == self.n:
                return value(i, j)
            return tirx.if_then_else(j < self.n, value(i, j), zero)

        return te.compute((self.m, self.columns), entry, name=name)

    def result(self, value: Callable[[Node, Node], Node]) -> Node:
        return te.compute((self.m, self.columns), value, name="c")


def _constant(value: float) -> Node:
    return tirx.const(value, "float32")


def _softmax(row: _Row) -> list[Node]:
    a = row.a
    largest = row.reduced(te.max, lambda i, j: a[i, j], "largest")
    power = row.kept(lambda i, j: te.exp(a[i, j] - largest[i]), "power")
    total = row.reduced(te.sum, lambda i, j: power[i, j], "total")
    share = row.single(lambda i: _constant(1) / total[i], "share")
    return [a, row.result(lambda i, j: power[i, j] * share[i])]


def _layer_norm(row: _Row) -> list[Node]:
    a, gain, shift = row.a, row.parameter("gain"), row.parameter("shift")
    n = _constant(1 / row.n)
    total = row.reduced(te.sum, lambda i, j: a[i, j], "total")
    mean = row.single(lambda i: total[i] * n, "mean")
    rest = row.kept(lambda i, j: a[i, j] - mean[i], "rest")
    square = row.reduced(te.sum, lambda i, j: rest[i, j] * rest[i, j], "square")
    root = row.single(lambda i: te.rsqrt(square[i] * n + _constant(VARIANCE_FLOOR)), "factor")
    return [a, gain, shift, row.result(lambda i, j: rest[i, j] * root[i] * gain[j] + shift[j])]


def _rms_norm(row: _Row) -> list[Node]:
    a, gain = row.a, row.parameter("gain")
    square = row.reduced(te.sum, lambda i, j: a[i, j] * a[i, j], "square")
    mean = _constant(1 / row.n)
    root = row.single(lambda i: te.rsqrt(square[i] * mean + _constant(VARIANCE_FLOOR)), "factor")
    return [a, gain, row.result(lambda i, j: a[i, j] * root[i] * gain[j])]


def _reduction(reduce: Callable[..., Node], *, mean: bool = False) -> Callable[[_Row], list[Node]]:
    def state(row: _Row) -> list[Node]:
        total = row.reduced(reduce, lambda i, j: row.a[i, j], "total")
        factor = _constant(1 / row.n if mean else 1)
        return [row.a, te.compute((row.m,), lambda i: total[i] * factor, name="c")]

    return state


_OPERATORS: dict[str, Callable[[_Row], list[Node]]] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "row_sum": _reduction(te.sum),
    "row_mean": _reduction(te.sum, mean=True),
    "row_max": _reduction(te.max),
}


@lru_cache(maxsize=256)
def _stated(name: str, m: int, n: int, width: int) -> tuple[Node, tuple[str, ...]]:
    row = _Row(m, n, width)
    tensors = _OPERATORS[name](row)
    return te.create_prim_func(tensors), tuple(row.stages)


def _scheduled(function: Node, stages: tuple[str, ...], config: RowsConfig) -> Node:
    """Every stage inside the loop over rows, the last first, as each follows its readers."""
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    rows = schedule.get_loops(schedule.get_sblock("c"))[0]
    _, row = schedule.split(rows, [None, config.block_m], preserve_unit_iters=True)
    for stage in reversed(stages):
        block = schedule.get_sblock(stage)
        schedule.compute_at(block, row, preserve_unit_loops=True)
    for stage in stages:
        if stage.endswith("_lanes"):
            _lanes(schedule, stage)
            _total(schedule, stage.removesuffix("_lanes"))
    return schedule


def _lanes(schedule: Node, stage: str) -> None:
    block = schedule.get_sblock(stage)
    *_, lane, step = schedule.get_loops(block)
    schedule.set_scope(block, 0, "local")
    schedule.reorder(step, lane)
    schedule.vectorize(lane)
    first = schedule.decompose_reduction(block, step)
    schedule.vectorize(schedule.get_loops(first)[-1])


def _total(schedule: Node, stage: str) -> None:
    block = schedule.get_sblock(stage)
    lane = schedule.get_loops(block)[-1]
    schedule.set_scope(block, 0, "local")
    schedule.unroll(lane)
    schedule.decompose_reduction(block, lane)
