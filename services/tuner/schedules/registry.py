"""From a candidate to its program, by the family of its operator."""

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators import Family
from services.tuner.ir.nodes import LANES, Program
from services.tuner.operators.definitions import stated
from services.tuner.passes.blocked_transpose import transpose_in_blocks
from services.tuner.passes.pipeline import PassOptions
from services.tuner.passes.vectorise import slice_outer_loop
from services.tuner.schedules.base.extents import Extents, is_pointwise
from services.tuner.schedules.conv.config import WindowConfig
from services.tuner.schedules.conv.wasm import window_program
from services.tuner.schedules.elementwise.config import MapConfig
from services.tuner.schedules.gemv.config import StreamConfig
from services.tuner.schedules.gemv.wasm import stream_program
from services.tuner.schedules.matmul.config import ContractionConfig
from services.tuner.schedules.matmul.wasm import contraction_program
from services.tuner.schedules.reduction.config import RowsConfig
from services.tuner.schedules.reduction.wasm import rows_program
from services.tuner.tir.lowering import plain_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A program, and what the passes may do to it."""

    program: Program
    options: PassOptions
    panels: int = 0
    """Columns of a panel of b, where the kernel wants b in panels."""


def planned(candidate: Candidate) -> Plan:
    """Raises InvalidSchedule and UnsupportedProgram as `compile_candidate` does."""
    workload = candidate.workload
    if workload.operator.family is Family.CONTRACTION or is_pointwise(workload):
        if StreamConfig.describes(candidate):
            stream = StreamConfig.of(candidate)
            program = stream_program(Extents.of(workload), stream)
            return Plan(program=program, options=PassOptions(fma=stream.fma, vectors=1))
        tiles = ContractionConfig.of(candidate)
        program = contraction_program(Extents.of(workload), tiles)
        return Plan(program=program, options=PassOptions(fma=tiles.fma), panels=tiles.panels)
    match workload.operator.family:
        case Family.CONVOLUTION:
            window = WindowConfig.of(candidate)
            program = window_program(workload, window)
            freedom = PassOptions(fma=window.fma, vectors=1)
            return Plan(program=program, options=freedom, panels=window.panels)
        case Family.ROWS:
            rows = RowsConfig.of(candidate)
            program = rows_program(workload, rows)
            return Plan(program=program, options=PassOptions(fma=rows.fma, vectors=1))
    entries = MapConfig.of(candidate)
    program = transpose_in_blocks(plain_program(stated(workload)), LANES * entries.vectors)
    program = slice_outer_loop(program, entries.chunk)
    return Plan(program=program, options=PassOptions(fma=entries.fma, vectors=entries.vectors))
