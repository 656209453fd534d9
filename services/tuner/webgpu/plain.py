"""Any operator as it is stated: a dispatch for each loop nest, a thread for a few entries."""

from dataclasses import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from kernelzoo.domain.workload import Workload
from services.tuner.extents import round_up
from services.tuner.frontend.definitions import stated
from services.tuner.frontend.lowering import plain_program
from services.tuner.ir.kinds import LANES
from services.tuner.ir.nodes import Program
from services.tuner.passes.stages import staged
from services.tuner.passes.threads import Threads, threaded
from services.tuner.webgpu.entries import EntriesConfig
from services.tuner.webgpu.parameters import ELEMENTS


def plain_programs(candidate: Candidate) -> tuple[Program, ...]:
    entries = EntriesConfig.of(candidate)
    threads = Threads(
        count=entries.threads, vectors=entries.vectors, wide=entries.wide, stride=entries.stride
    )
    workload = _padded(candidate.workload)
    held = tuple(ELEMENTS[tensor.dtype] for tensor in workload.tensors)
    plain = plain_program(stated(workload), held)
    return tuple(threaded(program, threads) for program in staged(plain))


def _padded(workload: Workload) -> Workload:
    """A function of single entries on whole vectors, since buffers are padded to 16 bytes."""
    operator = workload.operator
    if operator.family is not Family.MAP or len(operator.axes) > 1:
        return workload
    (entries,) = workload.extents
    return replace(workload, extents=(round_up(entries, LANES),))
