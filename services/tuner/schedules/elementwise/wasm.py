"""Programs for wasm that nothing else schedules: loops as they are stated, in vectors.

    range         blocks of `chunk` entries of a lone loop; else the outermost loop as it stands
    loop body     `vectors` of four entries of the innermost loop

Reads that jump from row to row, of a transposition, are taken in blocks of 4 · vectors columns, so
that what a cache line holds is used before it goes. A reduction that reads neighbours along the
last axis of what it makes runs over that axis innermost, so that it is in vectors, too:

    for i < 8:                              for i < 8:
      for j < 12:                             for j < 12: c[12·i + j] = 0
        c[12·i + j] = 0               →       for k < 16:
        for k < 16:                             for j < 12:
          c[12·i + j] += a[192·i + 12·k + j]      c[12·i + j] += a[192·i + 12·k + j]
"""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.expressions import Stage
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.operators.lowering import stated
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.pipeline import PassOptions
from services.tuner.passes.vectorise import slice_outer_loop
from services.tuner.schedules.base.iteration import reads_neighbours, reads_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node, Schedule


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmElementwiseConfig.of(candidate)
    program = plain_program(_interchanged(candidate.workload))
    program = transpose_in_blocks(program, LANES * config.vectors)
    return ScheduledProgram(
        nests=(slice_outer_loop(program, config.chunk),),
        options=PassOptions(fma=config.fma, vectors=config.vectors),
    )


def _interchanged(workload: Workload) -> Node:
    """The workload as it is stated, reductions with the last axis of their output innermost where
    that reads neighbours."""
    function = stated(workload)
    stages = [stage for stage in workload.program.stages if _runs_along_last_axis(stage)]
    if not stages:
        return function
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    for stage in stages:
        block = schedule.get_sblock(stage.name)
        loops = schedule.get_loops(block)
        *outer, last = loops[: len(stage.axes)]
        reduced = loops[len(stage.axes) :]
        schedule.reorder(*outer, *reduced, last)
        schedule.decompose_reduction(block, reduced[0])
    return schedule.mod["main"]


def _runs_along_last_axis(stage: Stage) -> bool:
    if stage.reducer is None or not stage.axes or stage.shape[-1] < LANES:
        return False
    last = stage.axes[-1].name
    return all(reads_neighbours(read, last) for read in reads_of(stage.value))
