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
from functools import reduce
from operator import add

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
    return ScheduledProgram(
        nests=(_joined(operands), _BlockAttentionKernel(operands, config).program())
    )


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
    body = ir.under((*exists, *room), stores)
    return frame.dispatch(operands.parameters, (workgroups, KEEPERS), body)


class _BlockAttentionKernel:
    """All steps of the second dispatch know these. `row` is the thread's in the workgroup, `first`
    the workgroup's first row in the block, `here` the place of the block's first row."""

    def __init__(self, operands: BlockOperands, config: WebgpuBlockAttentionConfig) -> None:
        shape, frame = operands.shape, ir.Frame()
        self.config, self.operands, self.shape, self.frame = config, operands, shape, frame
        tiles = -(-operands.rows // config.block_m)
        self.workgroups = shape.heads * tiles
        workgroup = frame.variable("group", self.workgroups)
        thread = frame.variable("thread", config.threads)
        self.head, tile = frame.delinearize(workgroup, (("head", shape.heads), ("tile", tiles)))
        self.group, _ = frame.delinearize(
            self.head, (("shared", shape.kv_heads), ("among", shape.shared))
        )
        self.thread, self.first = thread, tile * config.block_m
        self.row, self.lane = frame.delinearize(
            thread, (("row", config.block_m), ("lane", config.threads_per_row))
        )
        self.here = operands.position(frame)
        self.query = ir.shared("query", config.block_m * shape.head_dim)
        self.at_once = config.outputs_at_once(shape)
        self.mixed = ir.shared("mixed", LANES * config.threads * self.at_once)
        self.acc, self.dot = ir.tile("acc", operands.quads), ir.tile("dot", 1)
        self.most, self.score, self.share, self.sum = (
            ir.local(name, 1) for name in ("most", "score", "share", "sum")
        )

    def program(self) -> ir.Program:
        config = self.config
        sharing = RowThreads(
            threads=config.threads_per_row,
            rows=config.block_m,
            own=self.row,
            lane=self.lane,
            subgroups=config.subgroups,
        )
        most = reduced(sharing, [self.most[0]], "row_most", ir.BinaryOp.MAX)
        share = exp_of_difference(self.most[0], most.values[0])
        total = reduced(sharing, [self.sum[0] * self.share[0]], "row_total")
        queries = config.block_m * self.operands.quads
        body: ir.Block = (
            *self.frame.strided("read", "place", queries, config.threads, self.rotated),
            ir.Barrier(),
            *self.tokens(),
            *most.body,
            self.share.store(0, share),
            *total.body,
            *self.outputs(total.values[0]),
        )
        own = (self.acc, self.dot, self.most, self.score, self.share, self.sum)
        mixed = (self.mixed,) if self.mixed.size else ()
        return self.frame.dispatch(
            self.operands.parameters,
            (self.workgroups, config.threads),
            body,
            local=(*own, *most.local, *total.local),
            shared=(self.query, *mixed, *most.shared, *total.shared),
        )

    # Step 1: the queries of the workgroup's rows.

    def rotated(self, inside: ir.Frame, place: ir.Affine) -> ir.Block:
        config, operands, shape = self.config, self.operands, self.shape
        row, quad = inside.delinearize(
            place, (("query_row", config.block_m), ("quad", operands.quads))
        )
        source = inside.clamped("source", self.first + row, operands.rows, 1)
        token = inside.clamped("token", self.here + source, shape.length, 1)
        query = operands.rotated(inside, source, self.head, quad, token)
        return (self.query.store(place * LANES, query * ir.splat(ir.number(shape.factor))),)

    # Step 2: the thread's tokens, one after the other.

    def tokens(self) -> ir.Block:
        config, operands, shape = self.config, self.operands, self.shape
        steps = -(-shape.span // config.threads_per_row)
        place, inside = self.here + self.first + self.row, self.frame.nested()
        seen_from = first_seen(inside, place, shape)
        token = ir.affine(step=config.threads_per_row) + self.lane + seen_from
        bounds = [(token - place).below(1)]
        if steps * config.threads_per_row + inside.upper_bound(seen_from) > shape.length:
            bounds.append(token.below(shape.length))
        score, most, share, sum_ = (
            held[0] for held in (self.score, self.most, self.share, self.sum)
        )
        larger = most.max(score)
        body: list[ir.Statement] = [
            *self.scored(token),
            self.share.store(0, exp_of_difference(most, larger)),
            self.most.store(0, larger),
            # From here on the power in place of the score.
            self.score.store(0, exp_of_difference(score, most)),
            self.sum.store(0, sum_ * share + score),
        ]
        for quad in range(operands.quads):
            value = operands.values.vector(value_at(shape, self.group, ir.constant(quad), token))
            before = self.acc[quad] * ir.splat(share)
            body.append(self.acc.store(quad, before + ir.splat(score) * value))
        return (
            self.most.store(0, ir.number(LOWEST)),
            self.sum.store(0, 0.0),
            *self.acc.fill(0),
            *inside.enclose((ir.loop("step", steps, ir.under(bounds, tuple(body))),)),
        )

    def scored(self, token: ir.Affine) -> ir.Block:
        operands, shape = self.operands, self.shape
        body: list[ir.Statement] = []
        for quad in range(operands.quads):
            query = self.query.vector(self.row * shape.head_dim + LANES * quad)
            key = operands.keys.vector(key_at(shape, self.group, ir.constant(quad), token))
            body.append((self.dot.add if quad else self.dot.store)(0, query * key))
        return (*body, self.score.store(0, score_of(ir.all_lanes(self.dot[0]), shape)))

    # Step 4: the outputs of a row's threads added up, some vectors at once, one to a thread.

    def outputs(self, total: ir.Expression) -> ir.Block:
        config, quads, per_row = self.config, self.operands.quads, self.config.threads_per_row
        body: list[ir.Statement] = []
        if per_row == 1:
            for quad in range(quads):
                body += self.stored(ir.constant(quad), self.acc[quad], total)
            return tuple(body)
        for first in range(0, quads, self.at_once):
            count = min(self.at_once, quads - first)
            for n in range(count):
                place = (self.thread + n * config.threads) * LANES
                value = self.acc[first + n] * ir.splat(self.share[0])
                body.append(self.mixed.store(place, value))
            body.append(ir.Barrier())
            own = self.lane * config.threads + self.row * per_row
            parts = [self.mixed.vector((own + lane) * LANES) for lane in range(per_row)]
            exists = self.frame.undecided((self.lane.below(count),))
            whole = reduce(add, parts[1:], parts[0])
            body += ir.under(exists, self.stored(self.lane + first, whole, total))
            body.append(ir.Barrier())
        return tuple(body[:-1])

    def stored(self, quad: ir.Affine, value: ir.Expression, total: ir.Expression) -> ir.Block:
        """Four entries of the output; a row behind the block's last has none."""
        operands, shape = self.operands, self.shape
        row = self.first + self.row
        place = (row * shape.heads + self.head) * operands.quads + quad
        store = operands.parameters[6].store(place * LANES, value / ir.splat(total))
        return self.frame.where((row.below(operands.rows),), (store,))
