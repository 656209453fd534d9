"""Attention of a block of rows over themselves and a cache for WebGPU, in tiles of scores.

    dispatch    the block's keys and values join the cache, its queries are rotated and scaled to
                scratch memory: four entries to a thread;
                then heads × ⌈rows / block_m⌉ workgroups, as of attention of many rows

    rotated [rows][heads][head_dim]    in scratch memory

A workgroup ends with the block of keys that its last row is in; scores of tokens behind a row's own
place are left out one by one.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.schedules.attention.webgpu import attended
from services.tuner.schedules.attention.webgpu_kernel import AttentionKernel, CachedTokens
from services.tuner.schedules.base.cache import key_at, value_at
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.block_attention.webgpu import KEEPERS, BlockOperands
from services.tuner.schedules.block_attention.webgpu_config import WebgpuTiledBlockAttentionConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuTiledBlockAttentionConfig.of(candidate), candidate.workload
    operands = BlockOperands.of(workload)
    shape = operands.shape
    entries = operands.rows * shape.heads * shape.head_dim
    rotated = ir.scratch("rotated", entries)
    parameters = (*operands.parameters, rotated)

    def cached(frame: ir.Frame, head: ir.Affine) -> CachedTokens:
        kv_head, _ = frame.delinearize(head, (("shared", shape.kv_heads), ("among", shape.shared)))
        return CachedTokens(shape=shape, here=operands.position(frame), kv_head=kv_head)

    output = operands.parameters[-1]
    read = (rotated, operands.keys, operands.values, output)
    kernel = AttentionKernel(config.given(workload), config, read, cached)
    return ScheduledProgram(
        nests=(_joined(operands, rotated, parameters), attended(kernel, parameters))
    )


def _joined(
    operands: BlockOperands, rotated: ir.Buffer, parameters: tuple[ir.Buffer, ...]
) -> ir.Program:
    """The first dispatch. A row that has no room does not join the cache."""
    shape, quads, frame = operands.shape, operands.quads, ir.Frame()
    heads = shape.heads + shape.kv_heads
    items = operands.rows * heads * quads
    place, exists, workgroups = frame.item("place", items, KEEPERS)
    row, head, quad = frame.delinearize(
        place, (("row", operands.rows), ("head", heads), ("quad", quads))
    )
    after = operands.position(frame) + row
    room = frame.undecided((after.below(shape.length),))
    token = frame.clamped("token", after, shape.length, 1)
    entry = operands.rotated(frame, row, head, quad, token)
    at = (row * shape.heads + head) * shape.head_dim + quad * ir.LANES
    query = rotated.store(at, entry * ir.splat(ir.number(shape.factor)))
    kv_head = head - shape.heads
    kept = (
        operands.keys.store(key_at(shape, kv_head, quad, token), entry),
        operands.values.store(
            value_at(shape, kv_head, quad, token),
            operands.projected(row, head + shape.kv_heads, quad),
        ),
    )
    is_query = (head.below(shape.heads),)
    body = ir.under(exists, ir.under(is_query, (query,), otherwise=ir.under(room, kept)))
    return frame.dispatch(parameters, (workgroups, KEEPERS), body)
