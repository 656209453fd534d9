"""Attention of many rows for WebGPU, whose keys several workgroups share.

    dispatch    heads × ⌈m / block_m⌉ × split_n workgroups, each as of attention; its outputs are
                not divided by their sums of powers yet
    dispatch    four entries of the output to a thread: the parts, joined

Large tiles of scores and outputs leave few workgroups; the parts are as many as fill the cores.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.schedules.attention.config import attends
from services.tuner.schedules.attention.webgpu import attended
from services.tuner.schedules.attention.webgpu_config import WebgpuSplitAttentionConfig
from services.tuner.schedules.attention.webgpu_kernel import AttentionKernel
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.parts import OutputParts
from services.tuner.schedules.base.scheduled import ScheduledProgram

JOINERS = 128
"""Threads of a workgroup that joins parts."""


def lower(candidate: Candidate) -> ScheduledProgram:
    config, workload = WebgpuSplitAttentionConfig.of(candidate), candidate.workload
    kernel = AttentionKernel(attends(workload), config, parameters_of(workload))
    assert kernel.parts is not None
    parameters = (*kernel.parameters, kernel.parts.held)
    joined = _joined(kernel, kernel.parts, parameters)
    return ScheduledProgram(nests=(attended(kernel, parameters), joined))


def _joined(
    kernel: AttentionKernel, parts: OutputParts, parameters: tuple[ir.Buffer, ...]
) -> ir.Program:
    given, frame = kernel.given, ir.Frame()
    rows, quads = given.m * given.heads, given.width // ir.LANES
    item, exists, workgroups = frame.item("item", rows * quads, JOINERS)
    row, quad = frame.delinearize(item, (("row", rows), ("quad", quads)))
    place = quad * ir.LANES
    index = row * given.width + place
    block = ir.under(exists, parts.joined(row, place, kernel.parameters[-1], index))
    return frame.dispatch(parameters, (workgroups, JOINERS), block)
