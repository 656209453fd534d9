"""Attention of many rows for WebGPU, whose keys several workgroups share.

    dispatch    heads × ⌈m / block_m⌉ × split_n workgroups, each as of attention; its outputs are
                not divided by their sums of powers yet
    dispatch    four entries of the output to a thread: the parts, joined

Large tiles of scores and outputs leave few workgroups; the parts are as many as fill the cores.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.build import Frame, loop, under
from services.tuner.ir.nodes import LANES, Bound, Buffer, LoopKind, Program
from services.tuner.schedules.attention.config import attends
from services.tuner.schedules.attention.webgpu import attended
from services.tuner.schedules.attention.webgpu_kernel import AttentionKernel
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.parts import OutputParts
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.split_attention.webgpu_config import WebgpuSplitAttentionConfig

JOINERS = 128
"""Threads of a workgroup that joins parts."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuSplitAttentionConfig.of(candidate), candidate.workload
    kernel = AttentionKernel.of(attends(workload), config, parameters_of(workload))
    assert kernel.parts is not None
    parameters = (*kernel.parameters, kernel.parts.held)
    joined = _joined(kernel, kernel.parts, parameters)
    return ScheduledProgram(nests=(attended(kernel, parameters), joined))


def _joined(kernel: AttentionKernel, parts: OutputParts, parameters: tuple[Buffer, ...]) -> Program:
    given, frame = kernel.given, Frame()
    rows, quads = given.m * given.heads, given.width // LANES
    workgroups = -(-rows * quads // JOINERS)
    group, thread = frame.variable("group", workgroups), frame.variable("thread", JOINERS)
    item = group.times(JOINERS).plus(thread)
    exists = frame.undecided((Bound(index=item, limit=rows * quads),))
    item = frame.clamped("item", item, rows * quads, 1)
    row, quad = frame.delinearize(item, (("row", rows), ("quad", quads)))
    place = quad.times(LANES)
    index = row.times(given.width).plus(place)
    block = under(exists, parts.joined(row, place, kernel.parameters[-1], index))
    inner = loop("thread", JOINERS, LoopKind.THREAD_INDEX, frame.enclose(block))
    return Program(parameters=parameters, body=loop("group", workgroups, LoopKind.RANGE, (inner,)))
