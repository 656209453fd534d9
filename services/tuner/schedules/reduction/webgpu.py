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

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import expressions as domain
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.operators.direct import value_of
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.places import row_major
from services.tuner.schedules.base.reducers import JOINS, NEUTRAL
from services.tuner.schedules.base.row_threads import RowThreads, by_subgroups, by_tree
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.rows import Rows, rows_of, size_of
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig, width_of

FOUR = ir.variable("four")


def lower(candidate: Candidate) -> ScheduledProgram:
    program = reduction_program(candidate.workload, WebgpuReductionConfig.of(candidate))
    return ScheduledProgram(nests=(program,))


def reduction_program(workload: Workload, config: WebgpuReductionConfig) -> ir.Program:
    """One dispatch; its parameters are those of the workload, flat."""
    kernel = _ReductionKernel(workload, config)
    # 2 to 4. The values of the row, one pass after another.
    passes = enumerate(kernel.rows.passes)
    steps = tuple(each for place, stage in passes for each in _pass(kernel, stage, place))
    # 5. The entries of the output, or the row's one value.
    body = (*steps, *ir.under(kernel.exists, _stored(kernel)))
    sizes = (kernel.groups, config.threads)
    return kernel.frame.dispatch(
        kernel.parameters, sizes, body, local=kernel.local, shared=kernel.shared
    )


# Step 2: where rows lie, and what an entry is at any time.


def _rows_of_inputs(frame: ir.Frame, rows: Rows, row: ir.Affine) -> dict[str, ir.Affine]:
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
        own = [pair for pair in zip(rows.axes, digits, strict=False) if pair[0] in axes]
        found[name] = row_major((digit for _, digit in own), (size_of(axis) for axis, _ in own))
    return found


class _ReductionKernel:
    """All steps know these, and the buffers that they make. Each of `steps` reads `vectors` units
    of `width` entries of the row.

    `row_of` tells where the rows of an input are. `values` are those of the row that are known, by
    what they are. A row that is one step stays in registers, in `entries`: `held` is what they are
    after the last pass.
    """

    def __init__(self, workload: Workload, config: WebgpuReductionConfig) -> None:
        rows, frame = rows_of(workload), ir.Frame()
        self.config, self.rows, self.frame = config, rows, frame
        self.parameters = parameters_of(workload)
        self.tensors = {each.name: each for each in self.parameters[:-1]}
        self.n, self.width = rows.n, width_of(workload)
        self.steps = -(-rows.n // (self.width * config.threads_per_row * config.vectors))
        # 1. Which row is the thread's. Threads beyond the last row do what its own threads do,
        # since all have to come to barriers, and store nothing.
        self.groups = -(-rows.m // config.block_m)
        group = frame.variable("group", self.groups)
        thread = frame.variable("thread", config.threads)
        self.own, self.lane = frame.delinearize(
            thread, (("own", config.block_m), ("lane", config.threads_per_row))
        )
        place = group * config.block_m + self.own
        self.exists = frame.undecided((place.below(rows.m),))
        self.row = frame.clamped("row", place, rows.m, 1)
        self.row_of = _rows_of_inputs(frame, rows, self.row)
        self.local: list[ir.Buffer] = []
        self.shared: list[ir.Buffer] = []
        self.entries: ir.Buffer | None = None
        if self.steps == 1:
            self.entries = self.new_local("entries", config.vectors * self.width)
        self.values: dict[domain.Expression, ir.Load] = {}
        self.held: list[domain.Expression] = []

    def new_local(self, name: str, size: int) -> ir.Buffer:
        self.local.append(ir.local(name, size))
        return self.local[-1]

    def unit(self, store: ir.Store) -> ir.Statement:
        """The store for the entries of a unit, by "four"."""
        return ir.vector("four", store) if self.width == ir.LANES else ir.unrolled("four", 1, store)


# Step 3: the part of a row that one thread reduces.


def _pass(kernel: _ReductionKernel, stage: domain.Stage, place: int) -> ir.Block:
    """Makes the values of a row that need this pass, and those before."""
    reducer = stage.reducer or domain.Reducer.SUM
    op = ir.BinaryOp.MAX if kernel.rows.may_drop_nan(stage) else JOINS[reducer]
    holds = _held_in(kernel.rows, stage)
    part = kernel.new_local(f"part{place}", kernel.width)
    start = kernel.unit(part.store(FOUR, ir.number(NEUTRAL[reducer])))
    before = kernel.held[-1:]

    def reduced(v: ir.Affine, unit: ir.Affine) -> ir.Block:
        kept: ir.Block = ()
        held = before
        if kernel.entries is not None:
            here = v * kernel.width + FOUR
            entry = _value(kernel, holds, v, unit, held)
            kept = (kernel.unit(kernel.entries.store(here, entry)),)
            held = [holds]
        term = _value(kernel, stage.value, v, unit, held)
        value = ir.Binary(op=op, left=part[FOUR], right=term)
        return (*kept, kernel.unit(part.store(FOUR, value)))

    units = _each_unit(kernel, reduced)
    lanes = [part[lane] for lane in range(part.size)]
    value, tree = _of_all_threads(kernel, op, ir.pairwise(lanes, op), str(place))
    kernel.held.append(holds)
    return (start, *units, *tree, *_singles(kernel, stage, place, value))


def _held_in(rows: Rows, stage: domain.Stage) -> domain.Expression:
    """Returns what stays in registers: the one tensor of entries that a pass reads, or what it
    reduces."""
    read = {
        part: None
        for part in domain.parts(stage.value)
        if isinstance(part, domain.Read) and rows.column in part.at
    }
    return next(iter(read)) if len(read) == 1 else stage.value


def _singles(
    kernel: _ReductionKernel, stage: domain.Stage, place: int, value: ir.Expression
) -> ir.Block:
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
    stores: list[ir.Statement] = []
    for count, part in enumerate(found):
        single = kernel.new_local(f"single{place}" + (f"_{count}" if count else ""), 1)
        made = _value(kernel, part, ir.ZERO, ir.ZERO, [], reduced={own: value})
        stores.append(single.store(0, made))
        kernel.values[part] = single[0]
        value = kernel.values[part] if part == own else value
    return tuple(stores)


def _each_unit(
    kernel: _ReductionKernel, body: Callable[[ir.Affine, ir.Affine], ir.Block]
) -> ir.Block:
    """The body for each unit of the thread, by its number in a step and in the row. Threads side by
    side take units side by side."""
    config, units = kernel.config, kernel.n // kernel.width
    v, stride = ir.variable("v"), config.threads_per_row * config.vectors
    unit = ir.affine(step=stride, v=config.threads_per_row) + kernel.lane
    whole = kernel.steps * stride == units
    inside = () if whole else (unit.below(units),)
    step = ir.unrolled("v", config.vectors, *ir.under(inside, body(v, unit)))
    return ir.serial("step", kernel.steps, (step,))


def _value(
    kernel: _ReductionKernel,
    wanted: domain.Expression,
    v: ir.Affine,
    unit: ir.Affine,
    held: list[domain.Expression],
    reduced: Mapping[domain.Expression, ir.Expression] | None = None,
) -> ir.Expression:
    """An expression at the entries of a unit: read from storage and computed again, apart from what
    is `held` in registers, and from values of the row."""
    rows = kernel.rows
    column = unit * kernel.width + FOUR
    known = {**kernel.values, **(reduced or {})}
    if kernel.entries is not None and held:
        known[held[-1]] = kernel.entries[v * kernel.width + FOUR]
    entries, inputs = rows.entries, dict(rows.inputs)

    def place(tensor: str) -> ir.Affine:
        row = kernel.row_of[tensor]
        return row * kernel.n + column if rows.column in inputs[tensor] else row

    def found(part: domain.Expression) -> ir.Expression | domain.Expression | None:
        """Returns what an operand is, or the expression to take for it; None for its own
        operation."""
        if part in known:
            return known[part]
        match part:
            case domain.Read(tensor) if tensor in entries:
                return entries[tensor]
            case domain.Read(tensor):
                return kernel.tensors[tensor][place(tensor)]
        return None

    return value_of(wanted, found)


# Step 4: one value from those of all threads of a row.


def _of_all_threads(
    kernel: _ReductionKernel, op: ir.BinaryOp, value: ir.Expression, name: str
) -> tuple[ir.Expression, ir.Block]:
    """Returns what every thread of the row knows once the block is done."""
    config = kernel.config
    if config.threads_per_row == 1:
        return value, ()
    sharing = RowThreads(
        threads=config.threads_per_row,
        rows=config.block_m,
        own=kernel.own,
        lane=kernel.lane,
        subgroups=config.subgroups,
    )
    if config.subgroups:
        whole = kernel.new_local(f"whole{name}", 1)
        reduction, shared = by_subgroups(sharing, value, f"shared{name}", op)
        kernel.shared.append(shared)
        return whole[0], (whole.store(0, reduction),)
    found, body, buffers = by_tree(sharing, value, f"shared{name}", op, config.levels)
    kernel.shared.extend(buffers)
    return found, tuple(body)


# Step 5: the row's second pass.


def _stored(kernel: _ReductionKernel) -> ir.Block:
    """Every entry of the row's output, or by the first thread of the row its one value."""
    output, result = kernel.parameters[-1], kernel.rows.output
    held = kernel.held[-1:]
    if not kernel.rows.has_columns:
        first = (kernel.lane.below(1),) if kernel.lane.terms else ()
        value = _value(kernel, result, ir.ZERO, ir.ZERO, held)
        return ir.under(first, (output.store(kernel.row, value),))

    def body(v: ir.Affine, unit: ir.Affine) -> ir.Block:
        value = _value(kernel, result, v, unit, held)
        place = kernel.row * kernel.n + unit * kernel.width + FOUR
        return (kernel.unit(output.store(place, value)),)

    return _each_unit(kernel, body)
