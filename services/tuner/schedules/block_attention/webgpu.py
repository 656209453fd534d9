"""Attention of a block of rows over themselves and a cache for WebGPU (`operators.prefill`).

    dispatch    the block's keys and values, four entries to a thread, which join the cache;
                then heads × ⌈rows / block_m⌉ workgroups
    workgroup   block_m rows of one head
    thread      every threads_per_row-th token that one row sees: their largest score so far, the
                sum of their powers and their output, all in registers

    workgroup memory
      query [block_m][head_dim]                    rotated and scaled
      mixed [vectors at once][threads] vec4     outputs of all threads of a row

The first dispatch has ended when the second begins, so that the second finds all keys in the cache.
No thread waits for another in the loop over tokens, which begins at the first that the row sees
and ends at its own place:

    query[…] = (projected[…] * cosines[…] + partner * sines[…]) * 0.125               // 1 rotary
    for (step; step < 64 && step * 4 + lane <= here + row; …) {                       // 2
      score = Σ query · keys; share = exp(most - max(most, score)); most = max(…);
      sum = sum * share + exp(score - most); acc[…] = acc[…] * share + … * values[…];
    }
    most over the row's threads; share = exp(most - that); total = Σ sum * share      // 3
    mixed[…] = acc[…] * share; c[…] = Σ mixed[…] / total                              // 4
"""

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.decoding import LANES, LOWEST, AttentionShape
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.cache import (
    exp_of_difference,
    first_seen,
    key_at,
    position,
    score_of,
    value_at,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.row_threads import RowThreads, reduced
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.block_attention.webgpu_config import (
    WebgpuBlockAttentionConfig,
    shape_of,
)

KEEPERS = 64
"""Threads to a workgroup of the first dispatch."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuBlockAttentionConfig.of(candidate), candidate.workload
    operands = BlockOperands.of(workload)
    return ScheduledProgram(nests=(_joined(operands), _attended(operands, config)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOperands:
    """The tensors of the program."""

    shape: AttentionShape
    rows: int
    parameters: tuple[ir.Buffer, ...]

    @classmethod
    def of(cls, workload: Workload) -> "BlockOperands":
        shape, rows = shape_of(workload)
        return cls(shape=shape, rows=rows, parameters=parameters_of(workload))

    @property
    def quads(self) -> int:
        """Vectors of four entries to a head."""
        return self.shape.head_dim // LANES

    @property
    def keys(self) -> ir.Buffer:
        return self.parameters[4]

    @property
    def values(self) -> ir.Buffer:
        return self.parameters[5]

    def position(self, frame: ir.Frame) -> ir.Affine:
        return position(frame, self.parameters[3], self.shape)

    def projected(self, row: ir.Affine, head: ir.Affine, quad: ir.Affine) -> ir.Load:
        """Four entries of a head of a row: of the queries, then the keys, then the values."""
        heads = self.shape.heads + 2 * self.shape.kv_heads
        place = (row * heads + head) * self.quads + quad
        return self.parameters[0].vector(place * LANES)

    def rotated(
        self, frame: ir.Frame, row: ir.Affine, head: ir.Affine, quad: ir.Affine, token: ir.Affine
    ) -> ir.Expression:
        """Four entries of a query or key as they are at the token's place."""
        half = self.quads // 2
        opposite, angle = (
            frame.let(name, ir.value(index) % size, size - 1)
            for name, index, size in (("opposite", quad + half, self.quads), ("angle", quad, half))
        )
        place = (token * half + angle) * LANES
        cosines, sines = (self.parameters[n].vector(place) for n in (1, 2))
        low = ir.value(quad).less(half)
        sign = ir.select(low, ir.number(-1.0), ir.number(1.0))
        partner = ir.splat(sign) * self.projected(row, head, opposite)
        return self.projected(row, head, quad) * cosines + partner * sines


def _joined(operands: BlockOperands) -> ir.Program:
    """The first dispatch. A row that has no room is left out."""
    shape, quads, frame = operands.shape, operands.quads, ir.Frame()
    items = operands.rows * shape.kv_heads * quads
    place, exists, workgroups = frame.item("place", items, KEEPERS)
    row, kv, quad = frame.delinearize(
        place, (("row", operands.rows), ("kv", shape.kv_heads), ("quad", quads))
    )
    here = operands.position(frame)
    key = kv + shape.heads
    token = here + row
    room = frame.undecided((token.below(shape.length),))
    stores = (
        operands.keys.store(
            key_at(shape, kv, quad, token), operands.rotated(frame, row, key, quad, token)
        ),
        operands.values.store(
            value_at(shape, kv, quad, token), operands.projected(row, key + shape.kv_heads, quad)
        ),
    )
    body = frame.enclose(ir.under((*exists, *room), stores))
    inner = ir.threads(KEEPERS, body)
    return ir.program(operands.parameters, "group", workgroups, (inner,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """All steps of the second dispatch know these. `row` is the thread's in the workgroup, `first`
    the workgroup's first row in the block, `here` the place of the block's first row."""

    config: WebgpuBlockAttentionConfig
    operands: BlockOperands
    frame: ir.Frame
    thread: ir.Affine
    row: ir.Affine
    lane: ir.Affine
    head: ir.Affine
    group: ir.Affine
    first: ir.Affine
    here: ir.Affine
    query: ir.Buffer
    mixed: ir.Buffer
    acc: ir.Buffer
    dot: ir.Buffer
    most: ir.Buffer
    score: ir.Buffer
    share: ir.Buffer
    sum: ir.Buffer

    @classmethod
    def of(cls, operands: BlockOperands, config: WebgpuBlockAttentionConfig) -> "_Kernel":
        shape, frame = operands.shape, ir.Frame()
        tiles = -(-operands.rows // config.block_m)
        workgroup = frame.variable("group", shape.heads * tiles)
        thread = frame.variable("thread", config.threads)
        head, tile = frame.delinearize(workgroup, (("head", shape.heads), ("tile", tiles)))
        group, _ = frame.delinearize(head, (("shared", shape.kv_heads), ("among", shape.shared)))
        row, lane = frame.delinearize(
            thread, (("row", config.block_m), ("lane", config.threads_per_row))
        )
        mixed = LANES * config.threads * config.outputs_at_once(shape)
        return cls(
            config=config,
            operands=operands,
            frame=frame,
            thread=thread,
            row=row,
            lane=lane,
            head=head,
            group=group,
            first=tile * config.block_m,
            here=operands.position(frame),
            query=ir.shared("query", config.block_m * shape.head_dim),
            mixed=ir.shared("mixed", mixed),
            acc=ir.local("acc", shape.head_dim),
            dot=ir.local("dot", LANES),
            most=ir.local("most", 1),
            score=ir.local("score", 1),
            share=ir.local("share", 1),
            sum=ir.local("sum", 1),
        )

    @property
    def local(self) -> tuple[ir.Buffer, ...]:
        return self.acc, self.dot, self.most, self.score, self.share, self.sum

    @property
    def shared(self) -> tuple[ir.Buffer, ...]:
        return (self.query, self.mixed) if self.mixed.size else (self.query,)

    @property
    def sharing(self) -> RowThreads:
        return RowThreads(
            threads=self.config.threads_per_row,
            rows=self.config.block_m,
            own=self.row,
            lane=self.lane,
            subgroups=self.config.subgroups,
        )

    def entries(self, quad: int) -> ir.Load:
        """Four entries of the thread's output."""
        return self.acc.vector(LANES * quad)


def _attended(operands: BlockOperands, config: WebgpuBlockAttentionConfig) -> ir.Program:
    kernel = _Kernel.of(operands, config)
    most = reduced(kernel.sharing, [_held(kernel.most)], "row_most", ir.BinaryOp.MAX)
    share = exp_of_difference(_held(kernel.most), most.values[0])
    sums = reduced(kernel.sharing, [_held(kernel.sum) * _held(kernel.share)], "row_total")
    body: ir.Block = (
        *_queries(kernel),
        ir.Barrier(),
        *_tokens(kernel),
        *most.body,
        kernel.share.store(0, share),
        *sums.body,
        *_outputs(kernel, sums.values[0]),
    )
    body = ir.allocated((*kernel.local, *most.local, *sums.local), body)
    block: ir.Block = (ir.threads(config.threads, kernel.frame.enclose(body)),)
    block = ir.allocated((*kernel.shared, *most.shared, *sums.shared), block)
    workgroups = operands.shape.heads * -(-operands.rows // config.block_m)
    return ir.program(operands.parameters, "group", workgroups, block)


def _held(buffer: ir.Buffer) -> ir.Load:
    return buffer[0]


# Step 1: the queries of the workgroup's rows.


def _queries(kernel: _Kernel) -> ir.Block:
    config, operands, shape = kernel.config, kernel.operands, kernel.operands.shape
    items = config.block_m * operands.quads
    turns = -(-items // config.threads)
    inside = kernel.frame.nested()
    place = inside.variable("read", turns) * config.threads + kernel.thread
    exists = inside.undecided((place.below(items),))
    place = inside.clamped("place", place, items, 1)
    row, quad = inside.delinearize(place, (("query_row", config.block_m), ("quad", operands.quads)))
    source = inside.clamped("source", kernel.first + row, operands.rows, 1)
    token = inside.clamped("token", kernel.here + source, shape.length, 1)
    scale = ir.splat(ir.number(shape.factor))
    value = operands.rotated(inside, source, kernel.head, quad, token) * scale
    store = kernel.query.store(place * LANES, value)
    return ir.serial("read", turns, inside.enclose(ir.under(exists, (store,))))


# Step 2: the thread's tokens, one after the other.


def _tokens(kernel: _Kernel) -> ir.Block:
    config, operands, shape = kernel.config, kernel.operands, kernel.operands.shape
    steps = -(-shape.span // config.threads_per_row)
    place = kernel.here + kernel.first + kernel.row
    inside = kernel.frame.nested()
    seen_from = first_seen(inside, place, shape)
    token = ir.variable("step") * config.threads_per_row + kernel.lane + seen_from
    bounds = [(token - place).below(1)]
    if steps * config.threads_per_row + inside.upper_bound(seen_from) > shape.length:
        bounds.append(token.below(shape.length))
    score, most = _held(kernel.score), _held(kernel.most)
    share, sum_ = _held(kernel.share), _held(kernel.sum)
    larger = most.max(score)
    summed = sum_ * share + score
    body: list[ir.Statement] = [
        *_scored(kernel, token),
        kernel.share.store(0, exp_of_difference(most, larger)),
        kernel.most.store(0, larger),
        # From here on the power in place of the score.
        kernel.score.store(0, exp_of_difference(score, most)),
        kernel.sum.store(0, summed),
    ]
    for quad in range(operands.quads):
        index = value_at(shape, kernel.group, ir.constant(quad), token)
        value = operands.values.vector(index)
        before = kernel.entries(quad) * ir.splat(share)
        body.append(kernel.acc.store(LANES * quad, before + ir.splat(score) * value))
    zero = ir.numbers(0)
    return (
        kernel.most.store(0, ir.number(LOWEST)),
        kernel.sum.store(0, 0.0),
        *(kernel.acc.store(LANES * quad, zero) for quad in range(operands.quads)),
        *inside.enclose((ir.loop("step", steps, ir.under(bounds, tuple(body))),)),
    )


def _scored(kernel: _Kernel, token: ir.Affine) -> ir.Block:
    operands, shape = kernel.operands, kernel.operands.shape
    body: list[ir.Statement] = []
    for quad in range(operands.quads):
        place = kernel.row * shape.head_dim + LANES * quad
        query = kernel.query.vector(place)
        index = key_at(shape, kernel.group, ir.constant(quad), token)
        product = query * operands.keys.vector(index)
        so_far = kernel.dot.vector(0)
        value = so_far + product if quad else product
        body.append(kernel.dot.store(0, value))
    score = score_of(ir.all_lanes(kernel.dot.vector(0)), shape)
    return (*body, kernel.score.store(0, score))


# Step 4: the outputs of a row's threads added up, some vectors at once, one to a thread.


def _outputs(kernel: _Kernel, total: ir.Expression) -> ir.Block:
    config, operands = kernel.config, kernel.operands
    if config.threads_per_row == 1:
        return tuple(
            statement
            for quad in range(operands.quads)
            for statement in _stored(kernel, ir.constant(quad), kernel.entries(quad), total)
        )
    at_once = config.outputs_at_once(operands.shape)
    body: list[ir.Statement] = []
    for first in range(0, operands.quads, at_once):
        count = min(at_once, operands.quads - first)
        for n in range(count):
            place = (kernel.thread + n * config.threads) * LANES
            value = kernel.entries(first + n) * ir.splat(_held(kernel.share))
            body.append(kernel.mixed.store(place, value))
        body.append(ir.Barrier())
        of_row = kernel.row * config.threads_per_row
        found: ir.Expression | None = None
        for lane in range(config.threads_per_row):
            thread = kernel.lane * config.threads + of_row + lane
            each = kernel.mixed.vector(thread * LANES)
            found = found + each if found else each
        assert found is not None
        exists = kernel.frame.undecided((kernel.lane.below(count),))
        body += ir.under(exists, _stored(kernel, kernel.lane + first, found, total))
        body.append(ir.Barrier())
    return tuple(body[:-1])


def _stored(
    kernel: _Kernel, quad: ir.Affine, value: ir.Expression, total: ir.Expression
) -> ir.Block:
    """Four entries of the output; a row behind the block's last has none."""
    operands, shape = kernel.operands, kernel.operands.shape
    row = kernel.first + kernel.row
    place = (row * shape.heads + kernel.head) * operands.quads + quad
    quotient = value / ir.splat(total)
    store = operands.parameters[6].store(place * LANES, quotient)
    exists = kernel.frame.undecided((row.below(operands.rows),))
    return ir.under(exists, (store,))
