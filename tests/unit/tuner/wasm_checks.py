"""Checks what holds for every candidate of wasm: it is legal at every stage."""

from kernelzoo.domain.candidate import Candidate
from services.tuner.codegen.wasm.function import type_faults
from services.tuner.compile import Compilation, compilation
from services.tuner.ir.legality import Phase, faults
from services.tuner.passes.pipeline import ALL_PASSES


def legal(candidate: Candidate) -> Compilation:
    steps = compilation(candidate, ALL_PASSES)
    assert faults(steps.scheduled, Phase.SCHEDULED) == (), candidate.config
    assert faults(steps.optimised, Phase.STRENGTH_REDUCED) == (), candidate.config
    assert type_faults(steps.function) == (), candidate.config
    return steps
