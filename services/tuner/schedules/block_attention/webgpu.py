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
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    all_lanes,
    binary,
    constant,
    f32_buffer,
    loop,
    number,
    numbers,
    plus,
    serial,
    splat,
    times,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Compare,
    CompareOp,
    Expression,
    IndexValue,
    Load,
    LoopKind,
    Program,
    Scope,
    Select,
    Statement,
    Store,
)
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
    parameters: tuple[Buffer, ...]

    @classmethod
    def of(cls, workload: Workload) -> "BlockOperands":
        shape, rows = shape_of(workload)
        return cls(shape=shape, rows=rows, parameters=parameters_of(workload))

    @property
    def quads(self) -> int:
        """Vectors of four entries to a head."""
        return self.shape.head_dim // LANES

    @property
    def keys(self) -> Buffer:
        return self.parameters[4]

    @property
    def values(self) -> Buffer:
        return self.parameters[5]

    def position(self, frame: Frame) -> Affine:
        return position(frame, self.parameters[3], self.shape)

    def projected(self, row: Affine, head: Affine, quad: Affine) -> Load:
        """Four entries of a head of a row: of the queries, then the keys, then the values."""
        heads = self.shape.heads + 2 * self.shape.kv_heads
        place = row.times(heads).plus(head).times(self.quads).plus(quad)
        return Load(buffer=self.parameters[0], index=place.times(LANES), lanes=LANES)

    def rotated(
        self, frame: Frame, row: Affine, head: Affine, quad: Affine, token: Affine
    ) -> Expression:
        """Four entries of a query or key as they are at the token's place."""
        half = self.quads // 2
        opposite, angle = (
            frame.let(
                name, binary(BinaryOp.FLOOR_MOD, IndexValue(index=index), whole(size)), size - 1
            )
            for name, index, size in (
                ("opposite", quad.plus(constant(half)), self.quads),
                ("angle", quad, half),
            )
        )
        place = token.times(half).plus(angle).times(LANES)
        cosines, sines = (Load(buffer=self.parameters[n], index=place, lanes=LANES) for n in (1, 2))
        low = Compare(op=CompareOp.LT, left=IndexValue(index=quad), right=whole(half))
        sign = Select(condition=low, then=number(-1.0), otherwise=number(1.0))
        partner = times(splat(sign), self.projected(row, head, opposite))
        return plus(times(self.projected(row, head, quad), cosines), times(partner, sines))


def _joined(operands: BlockOperands) -> Program:
    """The first dispatch. A row that has no room is left out."""
    shape, quads, frame = operands.shape, operands.quads, Frame()
    items = operands.rows * shape.kv_heads * quads
    workgroups = -(-items // KEEPERS)
    group, thread = frame.variable("group", workgroups), frame.variable("thread", KEEPERS)
    place = group.times(KEEPERS).plus(thread)
    exists = frame.undecided((Bound(index=place, limit=items),))
    place = frame.clamped("place", place, items, 1)
    row, kv, quad = frame.delinearize(
        place, (("row", operands.rows), ("kv", shape.kv_heads), ("quad", quads))
    )
    here = operands.position(frame)
    key = kv.plus(constant(shape.heads))
    token = here.plus(row)
    room = frame.undecided((Bound(index=token, limit=shape.length),))
    stores = (
        Store(
            buffer=operands.keys,
            index=key_at(shape, kv, quad, token),
            value=operands.rotated(frame, row, key, quad, token),
        ),
        Store(
            buffer=operands.values,
            index=value_at(shape, kv, quad, token),
            value=operands.projected(row, key.plus(constant(shape.kv_heads)), quad),
        ),
    )
    body = frame.enclose(under((*exists, *room), stores))
    inner = loop("thread", KEEPERS, LoopKind.THREAD_INDEX, body)
    return Program(
        parameters=operands.parameters, body=loop("group", workgroups, LoopKind.RANGE, (inner,))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps of the second dispatch know. `row` is the thread's in the workgroup, `first`
    the workgroup's first row in the block, `here` the place of the block's first row."""

    config: WebgpuBlockAttentionConfig
    operands: BlockOperands
    frame: Frame
    thread: Affine
    row: Affine
    lane: Affine
    head: Affine
    group: Affine
    first: Affine
    here: Affine
    query: Buffer
    mixed: Buffer
    acc: Buffer
    dot: Buffer
    most: Buffer
    score: Buffer
    share: Buffer
    sum: Buffer

    @classmethod
    def of(cls, operands: BlockOperands, config: WebgpuBlockAttentionConfig) -> "_Kernel":
        shape, frame = operands.shape, Frame()
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
            first=tile.times(config.block_m),
            here=operands.position(frame),
            query=f32_buffer("query", config.block_m * shape.head_dim, Scope.WORKGROUP),
            mixed=f32_buffer("mixed", mixed, Scope.WORKGROUP),
            acc=f32_buffer("acc", shape.head_dim, Scope.LOCAL),
            dot=f32_buffer("dot", LANES, Scope.LOCAL),
            most=f32_buffer("most", 1, Scope.LOCAL),
            score=f32_buffer("score", 1, Scope.LOCAL),
            share=f32_buffer("share", 1, Scope.LOCAL),
            sum=f32_buffer("sum", 1, Scope.LOCAL),
        )

    @property
    def local(self) -> tuple[Buffer, ...]:
        return self.acc, self.dot, self.most, self.score, self.share, self.sum

    @property
    def shared(self) -> tuple[Buffer, ...]:
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

    def entries(self, quad: int) -> Load:
        """Four entries of the thread's output."""
        return Load(buffer=self.acc, index=constant(LANES * quad), lanes=LANES)


def _attended(operands: BlockOperands, config: WebgpuBlockAttentionConfig) -> Program:
    kernel = _Kernel.of(operands, config)
    most = reduced(kernel.sharing, [_held(kernel.most)], "row_most", BinaryOp.MAX)
    share = exp_of_difference(_held(kernel.most), most.values[0])
    sums = reduced(kernel.sharing, [times(_held(kernel.sum), _held(kernel.share))], "row_total")
    body: Block = (
        *_queries(kernel),
        Barrier(),
        *_tokens(kernel),
        *most.body,
        Store(buffer=kernel.share, index=ZERO, value=share),
        *sums.body,
        *_outputs(kernel, sums.values[0]),
    )
    for buffer in (*kernel.local, *most.local, *sums.local):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (
        loop("thread", config.threads, LoopKind.THREAD_INDEX, kernel.frame.enclose(body)),
    )
    for buffer in (*kernel.shared, *most.shared, *sums.shared):
        block = (Allocate(buffer=buffer, body=block),)
    workgroups = operands.shape.heads * -(-operands.rows // config.block_m)
    return Program(
        parameters=operands.parameters, body=loop("group", workgroups, LoopKind.RANGE, block)
    )


def _held(buffer: Buffer) -> Load:
    return Load(buffer=buffer, index=ZERO)


# Step 1: the queries of the workgroup's rows.


def _queries(kernel: _Kernel) -> Block:
    config, operands, shape = kernel.config, kernel.operands, kernel.operands.shape
    items = config.block_m * operands.quads
    turns = -(-items // config.threads)
    inside = kernel.frame.nested()
    place = inside.variable("read", turns).times(config.threads).plus(kernel.thread)
    exists = inside.undecided((Bound(index=place, limit=items),))
    place = inside.clamped("place", place, items, 1)
    row, quad = inside.delinearize(place, (("query_row", config.block_m), ("quad", operands.quads)))
    source = inside.clamped("source", kernel.first.plus(row), operands.rows, 1)
    token = inside.clamped("token", kernel.here.plus(source), shape.length, 1)
    scale = splat(number(shape.factor))
    value = times(operands.rotated(inside, source, kernel.head, quad, token), scale)
    store = Store(buffer=kernel.query, index=place.times(LANES), value=value)
    return serial("read", turns, inside.enclose(under(exists, (store,))))


# Step 2: the thread's tokens, one after the other.


def _tokens(kernel: _Kernel) -> Block:
    config, operands, shape = kernel.config, kernel.operands, kernel.operands.shape
    steps = -(-shape.span // config.threads_per_row)
    place = kernel.here.plus(kernel.first).plus(kernel.row)
    inside = kernel.frame.nested()
    seen_from = first_seen(inside, place, shape)
    token = Affine.variable("step").times(config.threads_per_row).plus(kernel.lane).plus(seen_from)
    bounds = [Bound(index=token.plus(place.times(-1)), limit=1)]
    if steps * config.threads_per_row + inside.upper_bound(seen_from) > shape.length:
        bounds.append(Bound(index=token, limit=shape.length))
    score, most = _held(kernel.score), _held(kernel.most)
    share, sum_ = _held(kernel.share), _held(kernel.sum)
    larger = binary(BinaryOp.MAX, most, score)
    summed = plus(times(sum_, share), score)
    body: list[Statement] = [
        *_scored(kernel, token),
        Store(buffer=kernel.share, index=ZERO, value=exp_of_difference(most, larger)),
        Store(buffer=kernel.most, index=ZERO, value=larger),
        # From here on the power in place of the score.
        Store(buffer=kernel.score, index=ZERO, value=exp_of_difference(score, most)),
        Store(buffer=kernel.sum, index=ZERO, value=summed),
    ]
    for quad in range(operands.quads):
        index = value_at(shape, kernel.group, constant(quad), token)
        value = Load(buffer=operands.values, index=index, lanes=LANES)
        before = times(kernel.entries(quad), splat(share))
        body.append(
            Store(
                buffer=kernel.acc,
                index=constant(LANES * quad),
                value=plus(before, times(splat(score), value)),
            )
        )
    zero = numbers(0)
    return (
        Store(buffer=kernel.most, index=ZERO, value=number(LOWEST)),
        Store(buffer=kernel.sum, index=ZERO, value=number(0)),
        *(
            Store(buffer=kernel.acc, index=constant(LANES * quad), value=zero)
            for quad in range(operands.quads)
        ),
        *inside.enclose((loop("step", steps, LoopKind.SERIAL, under(bounds, tuple(body))),)),
    )


def _scored(kernel: _Kernel, token: Affine) -> Block:
    operands, shape = kernel.operands, kernel.operands.shape
    body: list[Statement] = []
    for quad in range(operands.quads):
        place = kernel.row.times(shape.head_dim).plus(constant(LANES * quad))
        query = Load(buffer=kernel.query, index=place, lanes=LANES)
        index = key_at(shape, kernel.group, constant(quad), token)
        product = times(query, Load(buffer=operands.keys, index=index, lanes=LANES))
        so_far = Load(buffer=kernel.dot, index=ZERO, lanes=LANES)
        value = plus(so_far, product) if quad else product
        body.append(Store(buffer=kernel.dot, index=ZERO, value=value))
    score = score_of(all_lanes(Load(buffer=kernel.dot, index=ZERO, lanes=LANES)), shape)
    return (*body, Store(buffer=kernel.score, index=ZERO, value=score))


# Step 4: the outputs of a row's threads added up, some vectors at once, one to a thread.


def _outputs(kernel: _Kernel, total: Expression) -> Block:
    config, operands = kernel.config, kernel.operands
    if config.threads_per_row == 1:
        return tuple(
            statement
            for quad in range(operands.quads)
            for statement in _stored(kernel, constant(quad), kernel.entries(quad), total)
        )
    at_once = config.outputs_at_once(operands.shape)
    body: list[Statement] = []
    for first in range(0, operands.quads, at_once):
        count = min(at_once, operands.quads - first)
        for n in range(count):
            place = kernel.thread.plus(constant(n * config.threads)).times(LANES)
            value = times(kernel.entries(first + n), splat(_held(kernel.share)))
            body.append(Store(buffer=kernel.mixed, index=place, value=value))
        body.append(Barrier())
        of_row = kernel.row.times(config.threads_per_row)
        found: Expression | None = None
        for lane in range(config.threads_per_row):
            thread = kernel.lane.times(config.threads).plus(of_row).plus(constant(lane))
            each = Load(buffer=kernel.mixed, index=thread.times(LANES), lanes=LANES)
            found = plus(found, each) if found else each
        assert found is not None
        exists = kernel.frame.undecided((Bound(index=kernel.lane, limit=count),))
        body += under(exists, _stored(kernel, kernel.lane.plus(constant(first)), found, total))
        body.append(Barrier())
    return tuple(body[:-1])


def _stored(kernel: _Kernel, quad: Affine, value: Expression, total: Expression) -> Block:
    """Four entries of the output; a row behind the block's last has none."""
    operands, shape = kernel.operands, kernel.operands.shape
    row = kernel.first.plus(kernel.row)
    place = row.times(shape.heads).plus(kernel.head).times(operands.quads).plus(quad)
    quotient = binary(BinaryOp.DIV, value, splat(total))
    store = Store(buffer=operands.parameters[6], index=place.times(LANES), value=quotient)
    exists = kernel.frame.undecided((Bound(index=row, limit=operands.rows),))
    return under(exists, (store,))
