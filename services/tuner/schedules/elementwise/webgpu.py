"""Any operator as it is stated: a dispatch for each loop nest, a thread for a few entries."""

from msgspec import structs

from kernelzoo.domain.candidate import Candidate
from services.tuner import ir
from services.tuner.operators.lowering import prim_func
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads, split_nests
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.parts import with_parts
from services.tuner.schedules.elementwise.pointwise import pointwise
from services.tuner.schedules.elementwise.state_copies import state_copies
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.tir.lowering import plain_program


def lower(candidate: Candidate) -> ScheduledProgram:
    entries = WebgpuElementwiseConfig.of(candidate)
    threads = ThreadBinding(
        count=entries.threads, vectors=entries.vectors, vec4=entries.vec4, stride=entries.stride
    )
    workload = candidate.workload
    held = tuple(tensor.dtype for tensor in workload.tensors)
    # Entries of one axis are whole vectors, since buffers are padded to 16 bytes.
    vectors = None if workload.has_states else pointwise(workload.program, ir.LANES)
    stated = workload.program if workload.has_states else with_parts(workload.program)
    plain = plain_program(prim_func(vectors or stated), held)
    copies = (
        structs.replace(plain, body=structs.replace(plain.body, body=(nest,)))
        for nest in state_copies(plain, workload.program)
    )
    nests = (*split_nests(plain), *copies)
    return ScheduledProgram(nests=tuple(bind_threads(program, threads) for program in nests))
