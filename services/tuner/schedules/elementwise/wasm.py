"""Programs for wasm that make every entry from a few others: loops as they are stated, in vectors.

    range         blocks of `chunk` entries of a lone loop; else the outermost loop as it stands
    loop body     `vectors` of four entries of the innermost loop

Reads that jump from row to row, of a transposition, are taken in blocks of 4 · vectors columns, so
that what a cache line holds is used before it goes.
"""

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.nodes import LANES
from services.tuner.operators.lowering import stated
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.pipeline import PassOptions
from services.tuner.passes.vectorise import slice_outer_loop
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig
from services.tuner.tir.lowering import plain_program


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmElementwiseConfig.of(candidate)
    program = plain_program(stated(candidate.workload))
    program = transpose_in_blocks(program, LANES * config.vectors)
    return ScheduledProgram(
        nests=(slice_outer_loop(program, config.chunk),),
        options=PassOptions(fma=config.fma, vectors=config.vectors),
    )
