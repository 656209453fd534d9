"""Programs for wasm that nothing else schedules: loops as they are stated, in vectors.

    range         blocks of `chunk` entries of a lone loop; else the outermost loop as it stands; of
                  several nests slices of an axis that all of them have, where there is one;
                  one slice where states are written
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

from msgspec.structs import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Program as TensorProgram
from kernelzoo.domain.operators.expressions import Reducer, Stage, terms
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.operators.lowering import prim_func
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.partial_sums import MOST_TERMS
from services.tuner.passes.pipeline import PassOptions
from services.tuner.passes.vectorise import slice_outer_loop
from services.tuner.schedules.base.iteration import reads_neighbours, reads_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.elementwise.common_axis import (
    CommonAxis,
    common_axis,
    with_cheap_stages_inside,
)
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig
from services.tuner.schedules.elementwise.state_copies import state_copies
from services.tuner.tir.lowering import plain_program, scheduled_program
from services.tuner.tir.tvm import Node, Schedule


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmElementwiseConfig.of(candidate)
    if candidate.workload.has_states:
        return _with_states(candidate.workload, config)
    stated = with_cheap_stages_inside(candidate.workload.program)
    common = common_axis(stated)
    if common is None:
        program = slice_outer_loop(
            _blocked(plain_program(_interchanged(stated)), config), config.chunk
        )
    else:
        schedule = _in_slices(stated, common)
        _interchange(schedule, stated, shared=1)
        program = _blocked(scheduled_program(schedule, None, common.slices), config)
    return ScheduledProgram(
        nests=(program,), options=PassOptions(fma=config.fma, vectors=config.vectors)
    )


def _with_states(workload: Workload, config: WasmElementwiseConfig) -> ScheduledProgram:
    """All stages, then the copies of what states are updated by: one slice, as each copy waits for
    every stage."""
    tensors = workload.tensors
    plain = plain_program(
        _interchanged(workload.program), tuple(tensor.dtype for tensor in tensors)
    )
    body = (*plain.body.body, *state_copies(plain, workload.program))
    body = ir.allocated(plain.parameters[len(tensors) :], body)
    program = ir.Program(
        parameters=plain.parameters[: len(tensors)], body=replace(plain.body, body=body)
    )
    options = PassOptions(fma=config.fma, vectors=config.vectors)
    return ScheduledProgram(nests=(program,), options=options)


def _blocked(program: ir.Program, config: WasmElementwiseConfig) -> ir.Program:
    return transpose_in_blocks(program, ir.LANES * config.vectors)


def _interchanged(program: TensorProgram) -> Node:
    function = prim_func(program)
    if not any(_runs_along_last_axis(each) or _is_long(each) for each in program.stages):
        return function
    schedule = Schedule(function, debug_mask="none", enable_check=False)
    _interchange(schedule, program, shared=0)
    return schedule.mod["main"]


def _interchange(schedule: Node, program: TensorProgram, *, shared: int) -> None:
    """Puts the last axis of what a reduction makes innermost, where that reads neighbours. Such
    sums, and long ones, begin before their loops, so that these do nothing but add. All nests are
    inside of so many `shared` loops."""
    for stage in program.stages:
        runs_along = _runs_along_last_axis(stage)
        if not runs_along and not _is_long(stage):
            continue
        block = schedule.get_sblock(stage.name)
        loops = schedule.get_loops(block)[shared:]
        reduced = loops[len(stage.axes) :]
        if runs_along:
            *outer, last = loops[: len(stage.axes)]
            schedule.reorder(*outer, *reduced, last)
        schedule.decompose_reduction(block, reduced[0])


def _is_long(stage: Stage) -> bool:
    return stage.reducer is Reducer.SUM and stage.dtype is DType.F32 and terms(stage) > MOST_TERMS


def _in_slices(program: TensorProgram, common: CommonAxis) -> Node:
    """The schedule with all stages in one loop over slices."""
    schedule = Schedule(prim_func(program), debug_mask="none", enable_check=False)
    output = schedule.get_sblock(program.output.name)
    loops = list(schedule.get_loops(output))
    slices, inner = schedule.split(
        loops[common.position], [common.slices, common.block], preserve_unit_iters=True
    )
    before = loops[: common.position]
    schedule.reorder(slices, *before, inner, *loops[common.position + 1 :])
    # From the last to the first, as a stage goes to where its readers are already.
    for stage in reversed(program.stages[:-1]):
        schedule.compute_at(schedule.get_sblock(stage.name), slices, preserve_unit_loops=True)
    return schedule


def _runs_along_last_axis(stage: Stage) -> bool:
    if stage.reducer is None or not stage.axes or stage.shape[-1] < ir.LANES:
        return False
    last = stage.axes[-1].name
    return all(reads_neighbours(read, last) for read in reads_of(stage.value))
