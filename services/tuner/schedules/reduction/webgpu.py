"""Reductions of rows for WebGPU: sums, means, norms, softmax, and what is fused to them.

Shapes, named by the settings of `WebgpuReductionConfig`:

    dispatch    ⌈m / block_m⌉ workgroups
    workgroup   block_m rows × threads_per_row threads: thread = own · threads_per_row + lane
    thread      units lane, lane + threads_per_row, … of its row, `vectors` of them to a step; a
                unit is a vector of four entries, or one entry where n is no multiple of four

    workgroup memory, for each value that is reduced, `shared`
      tree        of level l [block_m][threads_per_row / radix^l], until a row has at most `radix`
      subgroups   [block_m][threads_per_row], where subgroups are smaller than a row's threads

A program is passes over its rows (`rows.py`), each of which reduces the row to one value. The steps
below are numbered in their order. What they make of softmax:f32:m6n36 with threads_per_row=8,
block_m=4, vectors=2 and radix=4 (a thread has at most two vectors, which stay in registers):

    entries_0 = a[lane + row * 9u];                                // 3  the thread's part
    part0_0 = max(part0_0, entries_0);
    shared0_0[lane + own * 8u] = max(max(part0_0.x, …), …);        // 4  the tree: 8 values of a row
    workgroupBarrier();
    if (lane < 2u) {                                               //    then 2
      shared0_1[lane + own * 2u] = max(max(shared0_0[lane + own * 8u], …[… + 2u]), max(…, …));
    }
    workgroupBarrier();
    let single0_0 = max(shared0_1[own * 2u], shared0_1[own * 2u + 1u]);   // then the row's largest
    entries_0 = exp((entries_0 - vec4<f32>(single0_0)));           // 3  of the second pass
    …
    c[lane + row * 9u] = (entries_0 * vec4<f32>(single1_0));       // 5  the row's second pass
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import expressions as domain
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    f32_buffer,
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
    Expression,
    IndexValue,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
    SubgroupReduce,
)
from services.tuner.operators.direct import value_of
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.reducers import JOINS, NEUTRAL
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.rows import Rows, rows_of, size_of
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig, width_of

FOUR = Affine.variable("four")


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = reduction_programs(candidate.workload, WebgpuReductionConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def reduction_programs(workload: Workload, config: WebgpuReductionConfig) -> tuple[Program, ...]:
    """One dispatch; its parameters are those of the workload, flat."""
    rows, frame = rows_of(workload), Frame()
    m, n, width = rows.m, rows.n, width_of(workload)
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
    entries = f32_buffer("entries", config.vectors * width, Scope.LOCAL) if steps == 1 else None
    row = frame.clamped("row", unclamped, m, 1)
    parameters = parameters_of(workload)
    kernel = _Kernel(
        config=config,
        parameters=parameters,
        tensors={each.name: each for each in parameters[:-1]},
        rows=rows,
        n=n,
        width=width,
        steps=steps,
        row=row,
        row_of=_rows_of_inputs(frame, rows, row),
        own=own,
        lane=lane,
        entries=entries,
        local=[entries] if entries else [],
        shared=[],
    )

    # 2 to 4. The values of the row, one pass after another.
    body: Block = ()
    for place, stage in enumerate(rows.passes):
        body = (*body, *_pass(kernel, stage, place))
    # 5. The entries of the output, or the row's one value.
    body = (*body, *under(exists, _stored(kernel)))

    for buffer in kernel.local:
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in kernel.shared:
        block = (Allocate(buffer=buffer, body=block),)
    nest = loop("group", groups, LoopKind.RANGE, block)
    return (Program(parameters=kernel.parameters, body=nest),)


# Step 2: where rows lie, and what an entry is at any time.


def _rows_of_inputs(frame: Frame, rows: Rows, row: Affine) -> dict[str, Affine]:
    """The row of each input: an input may have only some of the axes of rows."""
    parts = [(axis.name, size_of(axis)) for axis in rows.axes]
    whole = {axis for axis in rows.axes if size_of(axis) > 1}
    some = [axes for _, axes in rows.inputs if 0 < len(whole & {*axes}) < len(whole)]
    digits = frame.delinearize(row, parts) if some else []
    found = {}
    for name, axes in rows.inputs:
        if whole <= {*axes}:
            found[name] = row
            continue
        place = ZERO
        for axis, digit in zip(rows.axes, digits, strict=False):
            if axis in axes:
                place = place.times(size_of(axis)).plus(digit)
        found[name] = place
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know, and the buffers that they make. Each of `steps` reads `vectors` units of
    `width` entries of the row.

    `row_of` tells where the rows of an input are. `values` are those of the row that are known, by
    what they are. A row that is one step stays in registers, in `entries`: `held` is what they are
    after the last pass.
    """

    config: WebgpuReductionConfig
    parameters: tuple[Buffer, ...]
    tensors: Mapping[str, Buffer]
    rows: Rows
    n: int
    width: int
    steps: int
    row: Affine
    row_of: Mapping[str, Affine]
    own: Affine
    lane: Affine
    entries: Buffer | None
    local: list[Buffer]
    shared: list[Buffer]
    values: dict[domain.Expression, Load] = field(default_factory=dict)
    held: list[domain.Expression] = field(default_factory=list)

    def new_local(self, name: str, size: int) -> Buffer:
        self.local.append(f32_buffer(name, size, Scope.LOCAL))
        return self.local[-1]

    def new_shared(self, name: str, size: int) -> Buffer:
        self.shared.append(f32_buffer(name, size, Scope.WORKGROUP))
        return self.shared[-1]

    def unit(self, store: Store) -> Statement:
        """The store for the entries of a unit, by "four"."""
        return vector("four", store) if self.width == LANES else unrolled("four", 1, store)


# Step 3: the part of a row that one thread reduces.


def _pass(kernel: _Kernel, stage: domain.Stage, place: int) -> Block:
    """What makes the values of a row that need this pass, and those before."""
    reducer = stage.reducer or domain.Reducer.SUM
    op = BinaryOp.MAX if kernel.rows.may_drop_nan(stage) else JOINS[reducer]
    holds = _held_in(kernel.rows, stage)
    part = kernel.new_local(f"part{place}", kernel.width)
    start = kernel.unit(Store(buffer=part, index=FOUR, value=number(NEUTRAL[reducer])))
    before = kernel.held[-1:]

    def reduced(v: Affine, unit: Affine) -> Block:
        kept: Block = ()
        held = before
        if kernel.entries is not None:
            here = v.times(kernel.width).plus(FOUR)
            entry = _value(kernel, holds, v, unit, held)
            kept = (kernel.unit(Store(buffer=kernel.entries, index=here, value=entry)),)
            held = [holds]
        term = _value(kernel, stage.value, v, unit, held)
        value = binary(op, Load(buffer=part, index=FOUR), term)
        return (*kept, kernel.unit(Store(buffer=part, index=FOUR, value=value)))

    units = _each_unit(kernel, reduced)
    lanes = [Load(buffer=part, index=Affine(constant=lane)) for lane in range(part.size)]
    value, tree = _of_all_threads(kernel, op, _pairwise(op, lanes), str(place))
    kernel.held.append(holds)
    return (start, *units, *tree, *_singles(kernel, stage, place, value))


def _held_in(rows: Rows, stage: domain.Stage) -> domain.Expression:
    """What stays in registers: the one tensor of entries that a pass reads, or what it reduces."""
    read = {
        part: None
        for part in domain.parts(stage.value)
        if isinstance(part, domain.Read) and rows.column in part.at
    }
    return next(iter(read)) if len(read) == 1 else stage.value


def _singles(kernel: _Kernel, stage: domain.Stage, place: int, value: Expression) -> Block:
    """The values of the row that this pass is the last to be needed for; that of the pass itself
    where others need it."""
    rows = kernel.rows
    own = domain.Read(stage.name, stage.axes)
    passes = [each.name for each in rows.passes]

    def last(part: domain.Expression) -> int:
        read = (each.tensor for each in domain.parts(part) if isinstance(each, domain.Read))
        return max(passes.index(name) for name in read if name in passes)

    wanted = rows.values_of_row(*(each.value for each in rows.stages), rows.output)
    later = [part for part in wanted if last(part) > place and own in domain.parts(part)]
    found: list[domain.Expression] = [own] if later else []
    found += [part for part in wanted if last(part) == place and part not in found]
    stores: list[Statement] = []
    for count, part in enumerate(found):
        single = kernel.new_local(f"single{place}" + (f"_{count}" if count else ""), 1)
        made = _value(kernel, part, ZERO, ZERO, [], reduced={own: value})
        stores.append(Store(buffer=single, index=ZERO, value=made))
        kernel.values[part] = Load(buffer=single, index=ZERO)
        value = kernel.values[part] if part == own else value
    return tuple(stores)


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


def _value(
    kernel: _Kernel,
    wanted: domain.Expression,
    v: Affine,
    unit: Affine,
    held: list[domain.Expression],
    reduced: Mapping[domain.Expression, Expression] | None = None,
) -> Expression:
    """An expression at the entries of a unit: read from storage and computed again, apart from what
    is `held` in registers, and from values of the row."""
    rows = kernel.rows
    column = unit.times(kernel.width).plus(FOUR)
    known = {**kernel.values, **(reduced or {})}
    if kernel.entries is not None and held:
        known[held[-1]] = Load(buffer=kernel.entries, index=v.times(kernel.width).plus(FOUR))
    entries, inputs = rows.entries, dict(rows.inputs)

    def place(tensor: str) -> Affine:
        row = kernel.row_of[tensor]
        return row.times(kernel.n).plus(column) if rows.column in inputs[tensor] else row

    def found(part: domain.Expression) -> Expression | domain.Expression | None:
        """What an operand is, or the expression to take for it; None for its own operation."""
        if part in known:
            return known[part]
        match part:
            case domain.Read(tensor) if tensor in entries:
                return entries[tensor]
            case domain.Read(tensor):
                return Load(buffer=kernel.tensors[tensor], index=place(tensor))
        return None

    return value_of(wanted, found)


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
        shared=kernel.new_shared(f"shared{name}", config.threads),
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
        kernel.new_shared(f"shared{name}.{n}", count * config.block_m)
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


def _stored(kernel: _Kernel) -> Block:
    """Every entry of the row's output, or by the first thread of the row its one value."""
    output, result = kernel.parameters[-1], kernel.rows.output
    held = kernel.held[-1:]
    if not kernel.rows.has_columns:
        first = (Bound(index=kernel.lane, limit=1),) if kernel.lane.terms else ()
        value = _value(kernel, result, ZERO, ZERO, held)
        return under(first, (Store(buffer=output, index=kernel.row, value=value),))

    def body(v: Affine, unit: Affine) -> Block:
        value = _value(kernel, result, v, unit, held)
        place = kernel.row.times(kernel.n).plus(unit.times(kernel.width).plus(FOUR))
        return (kernel.unit(Store(buffer=output, index=place, value=value)),)

    return _each_unit(kernel, body)
