"""Any operator as it is stated: a dispatch for each loop nest, a thread for a few entries."""

from collections.abc import Iterator

from msgspec import structs

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import loop
from services.tuner.ir.nodes import LANES, Load, LoopKind, Program, Store
from services.tuner.operators.lowering import prim_func
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads, split_nests
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.pointwise import pointwise
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
    vectors = None if workload.has_states else pointwise(workload.program, LANES)
    plain = plain_program(prim_func(vectors or workload.program), held)
    nests = (*split_nests(plain), *_copies(plain, workload))
    return ScheduledProgram(nests=tuple(bind_threads(program, threads) for program in nests))


def _copies(plain: Program, workload: Workload) -> Iterator[Program]:
    """A nest for each state, which keeps its new entries once all nests have read the old ones."""
    buffers = {buffer.name: buffer for buffer in plain.parameters}
    i = Affine.variable("entry")
    for update in workload.program.updates:
        source, state = buffers[update.stage], buffers[update.tensor]
        store = Store(buffer=state, index=i, value=Load(buffer=source, index=i))
        nest = loop("entry", state.size, LoopKind.SERIAL, (store,))
        yield structs.replace(plain, body=structs.replace(plain.body, body=(nest,)))
