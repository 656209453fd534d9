"""Checks what holds for every candidate of webgpu: legal steps, a right result, a config that is
read."""

import numpy as np

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.tolerance import comparison_tolerance
from services.tuner.compile import GpuCompilation, gpu_compilation
from services.tuner.ir.legality import Phase, faults
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.reference import reference


def legal(candidate: Candidate) -> GpuCompilation:
    """At every stage."""
    steps = gpu_compilation(candidate)
    for scheduled, optimised in zip(steps.scheduled, steps.optimised, strict=True):
        assert faults(scheduled, Phase.SCHEDULED) == (), candidate.config
        assert faults(optimised, Phase.SCALAR_REPLACED) == (), candidate.config
    return steps


def right(candidate: Candidate, slices: int = 3) -> GpuCompilation:
    """Checks all that the compilation made, and returns it."""
    workload = candidate.workload
    steps = legal(candidate)
    inputs = inputs_of(workload)
    output = execute_gpu(steps.artifact, inputs, slices=slices)
    error = np.abs(output - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload), candidate.config
    return steps
