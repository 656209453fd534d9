"""Attention of a block of rows over themselves and a cache for WebGPU, in tiles of scores.

    dispatch    the block's keys and values join the cache, its queries are rotated and scaled to
                scratch memory: four entries to a thread;
                then heads × ⌈rows / block_m⌉ workgroups, as of attention of many rows

    rotated [rows][heads][head_dim]    in scratch memory

A workgroup ends with the block of keys that its last row is in; scores of tokens behind a row's own
place are left out one by one.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, constant, f32_buffer, loop, number, splat, times, under
from services.tuner.ir.nodes import LANES, Bound, Buffer, LoopKind, Program, Scope, Store
from services.tuner.schedules.attention.webgpu import attended
from services.tuner.schedules.attention.webgpu_kernel import AttentionKernel, CachedTokens
from services.tuner.schedules.base.cache import key_at, value_at
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.block_attention.webgpu import KEEPERS, BlockOperands
from services.tuner.schedules.tiled_block_attention.webgpu_config import (
    WebgpuTiledBlockAttentionConfig,
)


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuTiledBlockAttentionConfig.of(candidate), candidate.workload
    operands = BlockOperands.of(workload)
    shape = operands.shape
    entries = operands.rows * shape.heads * shape.head_dim
    rotated = f32_buffer("rotated", entries, Scope.GLOBAL)
    parameters = (*operands.parameters, rotated)

    def cached(frame: Frame, head: Affine) -> CachedTokens:
        kv_head, _ = frame.delinearize(head, (("shared", shape.kv_heads), ("among", shape.shared)))
        return CachedTokens(shape=shape, here=operands.position(frame), kv_head=kv_head)

    output = operands.parameters[-1]
    read = (rotated, operands.keys, operands.values, output)
    kernel = AttentionKernel.of(config.given(workload), config, read, cached)
    return ScheduledProgram(
        nests=(_joined(operands, rotated, parameters), attended(kernel, parameters))
    )


def _joined(operands: BlockOperands, rotated: Buffer, parameters: tuple[Buffer, ...]) -> Program:
    """The first dispatch. A row that has no room does not join the cache."""
    shape, quads, frame = operands.shape, operands.quads, Frame()
    heads = shape.heads + shape.kv_heads
    items = operands.rows * heads * quads
    workgroups = -(-items // KEEPERS)
    group, thread = frame.variable("group", workgroups), frame.variable("thread", KEEPERS)
    place = group.times(KEEPERS).plus(thread)
    exists = frame.undecided((Bound(index=place, limit=items),))
    place = frame.clamped("place", place, items, 1)
    row, head, quad = frame.delinearize(
        place, (("row", operands.rows), ("head", heads), ("quad", quads))
    )
    after = operands.position(frame).plus(row)
    room = frame.undecided((Bound(index=after, limit=shape.length),))
    token = frame.clamped("token", after, shape.length, 1)
    entry = operands.rotated(frame, row, head, quad, token)
    at = row.times(shape.heads).plus(head).times(shape.head_dim).plus(quad.times(LANES))
    query = Store(buffer=rotated, index=at, value=times(entry, splat(number(shape.factor))))
    kv_head = head.plus(constant(-shape.heads))
    kept = (
        Store(buffer=operands.keys, index=key_at(shape, kv_head, quad, token), value=entry),
        Store(
            buffer=operands.values,
            index=value_at(shape, kv_head, quad, token),
            value=operands.projected(row, head.plus(constant(shape.kv_heads)), quad),
        ),
    )
    is_query = (Bound(index=head, limit=shape.heads),)
    body = under(exists, under(is_query, (query,), otherwise=under(room, kept)))
    inner = loop("thread", KEEPERS, LoopKind.THREAD_INDEX, frame.enclose(body))
    return Program(parameters=parameters, body=loop("group", workgroups, LoopKind.RANGE, (inner,)))
