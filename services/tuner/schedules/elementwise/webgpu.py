"""Any operator as it is stated: a dispatch for each loop nest, a thread for a few entries."""

from dataclasses import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.operators.lowering import stated
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads, split_nests
from services.tuner.schedules.base.extents import round_up
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.tir.lowering import plain_program


def lower(candidate: Candidate) -> ScheduledProgram:
    entries = WebgpuElementwiseConfig.of(candidate)
    threads = ThreadBinding(
        count=entries.threads, vectors=entries.vectors, wide=entries.wide, stride=entries.stride
    )
    workload = _padded(candidate.workload)
    held = tuple(tensor.dtype for tensor in workload.tensors)
    plain = plain_program(stated(workload), held)
    return ScheduledProgram(
        nests=tuple(bind_threads(program, threads) for program in split_nests(plain))
    )


def _padded(workload: Workload) -> Workload:
    """A function of single entries on whole vectors, since buffers are padded to 16 bytes."""
    operator = workload.operator
    if operator.family is not Family.ELEMENTWISE or len(operator.axes) > 1:
        return workload
    (entries,) = workload.extents
    return replace(workload, extents=(round_up(entries, LANES),))
