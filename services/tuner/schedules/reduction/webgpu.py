"""Row-wise operators for WebGPU: sums, means, norms and softmax of the rows of a[m, n].

Shapes, named by the settings of `WebgpuReductionConfig`:

    dispatch    ⌈m / block_m⌉ workgroups
    workgroup   block_m rows × threads_per_row threads: thread = own · threads_per_row + lane
    thread      units lane, lane + threads_per_row, … of its row, `vectors` of them to a step; a
                unit is a vector of four entries, or one entry where n is no multiple of four

    workgroup memory, for each value that is reduced, `team`
      tree        of level l [block_m][threads_per_row / radix^l], until a row has at most `radix`
      subgroups   [block_m][threads_per_row], where subgroups are smaller than a row's threads

An operator is a list of stages, each of which reduces the row to one value. The steps below are
numbered in their order. What they make of softmax:f32:m6n36 with threads_per_row=8, block_m=4,
vectors=2 and radix=4 (a thread has at most two vectors, which stay in registers):

    entries_0 = a[lane + row * 9u];                                // 3  the thread's part
    part0_0 = max(part0_0, entries_0);
    team0_0[lane + own * 8u] = max(max(part0_0.x, part0_0.y), …);  // 4  the tree: 8 values of a row
    workgroupBarrier();
    if (lane < 2u) {                                               //    then 2
      team0_1[lane + own * 2u] = max(max(team0_0[lane + own * 8u], …[… + 2u]), max(…, …));
    }
    workgroupBarrier();
    let single0_0 = max(team0_1[own * 2u], team0_1[own * 2u + 1u]);   // then the row's largest
    entries_0 = exp((entries_0 - vec4<f32>(single0_0)));           // 3  of the second stage
    …
    c[lane + row * 9u] = (entries_0 * vec4<f32>(single1_0));       // 5  the row's second pass
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.convolution import LOWEST
from kernelzoo.domain.operators.reduction import epsilon
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    loop,
    number,
    serial,
    total,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Call,
    Expression,
    IndexValue,
    Load,
    LoopKind,
    MathFunction,
    Program,
    Scope,
    Statement,
    Store,
    SubgroupReduce,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig, width_of

FOUR = Affine.variable("four")


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = reduction_programs(candidate.workload, WebgpuReductionConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def reduction_programs(workload: Workload, config: WebgpuReductionConfig) -> tuple[Program, ...]:
    """One dispatch; its parameters are those of the workload, flat."""
    extent, frame = workload.extent, Frame()
    m, n, width = extent["m"], extent["n"], width_of(workload)
    groups = -(-m // config.block_m)
    steps = -(-n // (width * config.threads_per_row * config.vectors))

    # 1. Which row is the thread's. Threads beyond the last row do what its own threads do, since
    # all have to come to barriers, and store nothing.
    group = frame.variable("group", groups)
    thread = frame.variable("thread", config.threads)
    own, lane = frame.delinearize(
        thread, (("own", config.block_m), ("lane", config.threads_per_row))
    )
    unclamped = group.times(config.block_m).plus(own)
    exists = frame.undecided((Bound(index=unclamped, limit=m),))
    entries = _buffer("entries", config.vectors * width, Scope.LOCAL) if steps == 1 else None
    kernel = _Kernel(
        config=config,
        parameters=parameters_of(workload),
        operator=_row_operator(workload),
        n=n,
        width=width,
        steps=steps,
        row=frame.clamped("row", unclamped, m, 1),
        own=own,
        lane=lane,
        entries=entries,
        local=[entries] if entries else [],
        shared=[],
    )

    # 2 to 4. The values of the row, one stage after another.
    body: Block = ()
    values: list[Load] = []
    for place, stage in enumerate(kernel.operator.stages):
        value, made = _stage(kernel, stage, values, place)
        body = (*body, *made)
        values.append(value)
    # 5. The entries of the output, or the row's one value.
    body = (*body, *under(exists, _stored(kernel, values)))

    for buffer in kernel.local:
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in kernel.shared:
        block = (Allocate(buffer=buffer, body=block),)
    nest = loop("group", groups, LoopKind.RANGE, block)
    return (Program(parameters=kernel.parameters, body=nest),)


# Step 2: what an operator computes, stage by stage.


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Reduces what `term` makes of every entry by `op`, from `start` on; `single` makes one value
    of that and the length of the row. The next stage and the result see what `kept` makes of an
    entry and this value."""

    op: BinaryOp
    start: float
    term: Callable[[Expression], Expression] = lambda entry: entry
    single: Callable[[Expression, int], Expression] = lambda value, _: value
    kept: Callable[[Expression, Expression], Expression] = lambda entry, _: entry


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOperator:
    """`result` makes an entry of the output of one that the stages leave and of the parameters in
    its column, in their order; it is missing where the output is the value of the last stage."""

    stages: tuple[Stage, ...]
    result: Callable[..., Expression] | None = None


def _add(left: Expression, right: Expression) -> Expression:
    return binary(BinaryOp.ADD, left, right)


def _subtract(left: Expression, right: Expression) -> Expression:
    return binary(BinaryOp.SUB, left, right)


def _multiply(left: Expression, right: Expression) -> Expression:
    return binary(BinaryOp.MUL, left, right)


def _square(value: Expression) -> Expression:
    return _multiply(value, value)


def _reciprocal(value: Expression, _: int) -> Expression:
    return binary(BinaryOp.DIV, number(1), value)


def _mean(value: Expression, n: int) -> Expression:
    return _multiply(value, number(1 / n))


def _exp_of_difference(entry: Expression, largest: Expression) -> Expression:
    return Call(function=MathFunction.EXP, argument=_subtract(entry, largest))


def _norm(floor: float) -> Stage:
    def rsqrt_of_mean(value: Expression, n: int) -> Expression:
        mean = _add(_mean(value, n), number(floor))
        return Call(function=MathFunction.RSQRT, argument=mean)

    return Stage(op=BinaryOp.ADD, start=0, term=_square, single=rsqrt_of_mean, kept=_multiply)


def _layer_norm(floor: float) -> RowOperator:
    return RowOperator(
        stages=(Stage(op=BinaryOp.ADD, start=0, single=_mean, kept=_subtract), _norm(floor)),
        result=lambda entry, gamma, beta: _add(_multiply(entry, gamma), beta),
    )


def _rms_norm(floor: float) -> RowOperator:
    return RowOperator(stages=(_norm(floor),), result=_multiply)


NORMS = {"layer_norm": _layer_norm, "rms_norm": _rms_norm}
OPERATORS = {
    "softmax": RowOperator(
        stages=(
            Stage(op=BinaryOp.MAX, start=LOWEST, kept=_exp_of_difference),
            Stage(op=BinaryOp.ADD, start=0, single=_reciprocal, kept=_multiply),
        ),
        result=lambda entry: entry,
    ),
    "row_sum": RowOperator(stages=(Stage(op=BinaryOp.ADD, start=0),)),
    "row_mean": RowOperator(stages=(Stage(op=BinaryOp.ADD, start=0, single=_mean),)),
    "row_max": RowOperator(stages=(Stage(op=BinaryOp.MAX, start=LOWEST),)),
}


def _row_operator(workload: Workload) -> RowOperator:
    name = workload.operator.name
    return NORMS[name](epsilon(workload.extent)) if name in NORMS else OPERATORS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know, and the buffers that they make. Each of `steps` reads `vectors` units of
    `width` entries of the row. A row that is one step stays in registers, in `entries`."""

    config: WebgpuReductionConfig
    parameters: tuple[Buffer, ...]
    operator: RowOperator
    n: int
    width: int
    steps: int
    row: Affine
    own: Affine
    lane: Affine
    entries: Buffer | None
    local: list[Buffer]
    shared: list[Buffer]

    def new_local(self, name: str, size: int) -> Buffer:
        self.local.append(_buffer(name, size, Scope.LOCAL))
        return self.local[-1]

    def new_shared(self, name: str, size: int) -> Buffer:
        self.shared.append(_buffer(name, size, Scope.WORKGROUP))
        return self.shared[-1]

    def unit(self, store: Store) -> Statement:
        """The store for the entries of a unit, by "four"."""
        return vector("four", store) if self.width == LANES else unrolled("four", 1, store)


def _buffer(name: str, size: int, scope: Scope) -> Buffer:
    return Buffer(name=name, scope=scope, dtype=DType.F32, size=size)


# Step 3: the part of a row that one thread reduces.


def _stage(kernel: _Kernel, stage: Stage, before: list[Load], place: int) -> tuple[Load, Block]:
    """The one value that a stage makes of a row, and what makes it, given the values before."""
    part = kernel.new_local(f"part{place}", kernel.width)
    start = kernel.unit(Store(buffer=part, index=FOUR, value=number(stage.start)))

    def reduced(v: Affine, unit: Affine) -> Block:
        entry: Expression = _entry(kernel, before, v, unit)
        kept: Block = ()
        if kernel.entries is not None:
            here = v.times(kernel.width).plus(FOUR)
            kept = (kernel.unit(Store(buffer=kernel.entries, index=here, value=entry)),)
            entry = Load(buffer=kernel.entries, index=here)
        value = binary(stage.op, Load(buffer=part, index=FOUR), stage.term(entry))
        return (*kept, kernel.unit(Store(buffer=part, index=FOUR, value=value)))

    units = _each_unit(kernel, reduced)
    lanes = [Load(buffer=part, index=Affine(constant=lane)) for lane in range(part.size)]
    value, tree = _of_all_threads(kernel, stage.op, _pairwise(stage.op, lanes), str(place))
    single = kernel.new_local(f"single{place}", 1)
    store = Store(buffer=single, index=ZERO, value=stage.single(value, kernel.n))
    return Load(buffer=single, index=ZERO), (start, *units, *tree, store)


def _each_unit(kernel: _Kernel, body: Callable[[Affine, Affine], Block]) -> Block:
    """The body for each unit of the thread, by its number in a step and in the row. Threads side by
    side take units side by side."""
    config, units = kernel.config, kernel.n // kernel.width
    v, stride = Affine.variable("v"), config.threads_per_row * config.vectors
    unit = total(Affine.of(0, {"step": stride, "v": config.threads_per_row}), kernel.lane)
    whole = kernel.steps * stride == units
    inside = () if whole else (Bound(index=unit, limit=units),)
    step = unrolled("v", config.vectors, *under(inside, body(v, unit)))
    return serial("step", kernel.steps, (step,))


def _entry(kernel: _Kernel, values: list[Load], v: Affine, unit: Affine) -> Expression:
    """The entries of a unit as the stages of `values` leave them: read again, or from registers,
    where what the last of these stages keeps has not been applied yet."""
    stages = kernel.operator.stages[: len(values)]
    if kernel.entries is not None and values:
        held = Load(buffer=kernel.entries, index=v.times(kernel.width).plus(FOUR))
        return stages[-1].kept(held, values[-1])
    column = unit.times(kernel.width).plus(FOUR)
    place = kernel.row.times(kernel.n).plus(column)
    entry: Expression = Load(buffer=kernel.parameters[0], index=place)
    for stage, value in zip(stages, values, strict=True):
        entry = stage.kept(entry, value)
    return entry


# Step 4: one value from those of all threads of a row.


def _of_all_threads(
    kernel: _Kernel, op: BinaryOp, value: Expression, name: str
) -> tuple[Expression, Block]:
    """What every thread of the row knows once the block is done."""
    if kernel.config.threads_per_row == 1:
        return value, ()
    if kernel.config.subgroups:
        return _by_subgroups(kernel, op, value, name)
    return _by_tree(kernel, op, value, name)


def _by_subgroups(
    kernel: _Kernel, op: BinaryOp, value: Expression, name: str
) -> tuple[Expression, Block]:
    config = kernel.config
    whole = kernel.new_local(f"whole{name}", 1)
    thread = kernel.own.times(config.threads_per_row).plus(kernel.lane)
    reduced = SubgroupReduce(
        op=op,
        value=value,
        thread=IndexValue(index=thread),
        threads=config.threads_per_row,
        shared=kernel.new_shared(f"team{name}", config.threads),
    )
    return Load(buffer=whole, index=ZERO), (Store(buffer=whole, index=ZERO, value=reduced),)


def _by_tree(
    kernel: _Kernel, op: BinaryOp, value: Expression, name: str
) -> tuple[Expression, Block]:
    """A tree of radix R in workgroup memory: level 0 has a value for each thread, every next level
    1/R of them, and all threads read the last. A thread takes values that lie as far apart as its
    level has threads, so that neighbours read neighbours."""
    config, own, lane = kernel.config, kernel.own, kernel.lane
    counts = config.levels
    levels = [
        kernel.new_shared(f"team{name}.{n}", count * config.block_m)
        for n, count in enumerate(counts)
    ]

    def spread(level: int, first: Affine, apart: int) -> Expression:
        start = own.times(counts[level]).plus(first)
        places = range(0, counts[level], apart)
        values = [Load(buffer=levels[level], index=start.plus(Affine(constant=n))) for n in places]
        return _pairwise(op, values)

    place = own.times(config.threads_per_row).plus(lane)
    body: list[Statement] = [Store(buffer=levels[0], index=place, value=value), Barrier()]
    for level in range(1, len(counts)):
        count = counts[level]
        reduced = spread(level - 1, lane, count)
        store = Store(buffer=levels[level], index=own.times(count).plus(lane), value=reduced)
        body += under((Bound(index=lane, limit=count),), (store,))
        body.append(Barrier())
    return spread(len(counts) - 1, ZERO, 1), tuple(body)


def _pairwise(op: BinaryOp, parts: list[Load]) -> Expression:
    """A tree: nothing waits longer than it has to, and sums lose less."""
    values: list[Expression] = list(parts)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        values = [binary(op, *pair) for pair in pairs] + values[len(values) // 2 * 2 :]
    return values[0]


# Step 5: the row's second pass.


def _stored(kernel: _Kernel, values: list[Load]) -> Block:
    """Every entry of the row's output, or by the first thread of the row its one value."""
    output, result = kernel.parameters[-1], kernel.operator.result
    if result is None:
        first = (Bound(index=kernel.lane, limit=1),) if kernel.lane.terms else ()
        return under(first, (Store(buffer=output, index=kernel.row, value=values[-1]),))

    def body(v: Affine, unit: Affine) -> Block:
        column = unit.times(kernel.width).plus(FOUR)
        parameters = [Load(buffer=b, index=column) for b in kernel.parameters[1:-1]]
        value = result(_entry(kernel, values, v, unit), *parameters)
        place = kernel.row.times(kernel.n).plus(column)
        return (kernel.unit(Store(buffer=output, index=place, value=value)),)

    return _each_unit(kernel, body)
