"""Golden text of every step, and what the compiled kernel computes, in one test."""

import numpy as np
import pytest

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.codegen.wasm.function import disassembly
from services.tuner.compile import compilation
from services.tuner.ir.text import program_text
from services.tuner.passes.pipeline import ALL_PASSES, PassSwitches
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer
from services.tuner.schedules.registry import lite_space
from tests.snapshots import Golden
from tests.unit.tuner.candidates import contraction, schedule
from tests.unit.tuner.execution import execute, expected, inputs_of
from tests.unit.tuner.reference import reference

NO_PASSES = PassSwitches(
    offset_immediate=False, load_splat=False, scalar_replacement=False, strength_reduction=False
)

CASES = {
    "packed-fma": (
        schedule(
            contraction(2, 4, 4, 32),
            (2, 8),
            block=(4, 16),
            unroll_k=2,
            pack=Pack.KERNEL,
            fma=True,
            outer=Outer.COLUMNS,
        ),
        PassSwitches(),
    ),
    "tails": (schedule(contraction(5, 3, 6), (2, 8), unroll_k=2), PassSwitches()),
    "no-passes": (schedule(contraction(4, 3, 4), (2, 4)), NO_PASSES),
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_reads_as_recorded_and_the_kernel_is_right(name: str, golden: Golden) -> None:
    candidate, switches = CASES[name]
    steps = compilation(candidate, switches)
    golden(f"{name}.scheduled.txt", program_text(steps.scheduled))
    golden(f"{name}.optimised.txt", program_text(steps.optimised))
    golden(f"{name}.wat.txt", disassembly(steps.function))
    _assert_right(candidate, switches)


def _assert_right(candidate: Candidate, switches: PassSwitches) -> None:
    inputs = inputs_of(candidate.workload)
    output = execute(compilation(candidate, switches).artifact, inputs)
    error = np.abs(output - expected(inputs)).max()
    assert error <= comparison_tolerance(candidate.workload)


FAMILIES = {
    "epilogue": "matmul+bias+relu:f32:m6k4n8",
    "convolution": "conv2d+bias:f32:b1h4w4c4o4kh3kw3stride1pad1",
    "depthwise": "depthwise_conv2d+bias:f32:b1h4w6c4kh3kw3stride1pad1",
    "softmax": "softmax:f32:m4n6",
    "layer-norm": "layer_norm:f32:m2n16",
    "gelu": "gelu:f32:n8",
    "pad": "pad:f32:m2n3pad1",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_reads_as_recorded_and_is_right(name: str, golden: Golden) -> None:
    workload = Workload.parse(FAMILIES[name])
    steps = compilation(lite_space(workload, TargetKind.WASM)[0], ALL_PASSES)
    golden(f"{name}.scheduled.txt", program_text(steps.scheduled))
    golden(f"{name}.wat.txt", disassembly(steps.function))
    inputs = inputs_of(workload)
    error = np.abs(execute(steps.artifact, inputs) - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload)
