"""WGSL: golden text, and what it computes on an adapter, in one test."""

import numpy as np
import pytest

from kernelzoo.domain.gpu import ANY_GPU
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import gpu_compilation
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.registry import lite_space
from tests.examples import one_in
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import EXAMPLES, reference

PLAIN = {
    "gpu-gelu": "gelu:f32:n30",
    "gpu-concat": "concat:f32:m3n4k5",
    "gpu-plain-matmul": "matmul+bias:f32:m6k4n8",
    "gpu-plain-softmax": "softmax:f32:m4n6",
    "gpu-plain-i8": "matmul_i8+scales:f32:m3k5n8",
    "gpu-plain-gather": "gather:f32:m3k9n8",
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_kernels_read_as_recorded_and_are_right(name: str, golden: Golden) -> None:
    workload = Workload.parse(PLAIN[name])
    steps = gpu_compilation(
        WebgpuElementwiseConfig(threads=64, vectors=1, vec4=True).candidate(workload)
    )
    golden(f"{name}.wgsl", steps.artifact.body.decode())
    inputs = inputs_of(workload)
    error = np.abs(execute_gpu(steps.artifact, inputs) - reference(workload, inputs)).max()
    assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize("vec4", [True, False])
@pytest.mark.parametrize("key", one_in(3, EXAMPLES))
def test_every_operator_is_right_as_it_is_stated(key: str, vec4: bool) -> None:
    config = WebgpuElementwiseConfig(threads=64, vectors=1, vec4=vec4)
    right(config.candidate(Workload.parse(key)))


@pytest.mark.parametrize("key", ["softmax:f32:m3n6", "conv2d+bias:f32:b1h4w4c2o4kh3kw3stride1pad1"])
def test_the_interpreter_agrees_before_and_after_the_passes(key: str) -> None:
    workload = Workload.parse(key)
    steps = gpu_compilation(lite_space(workload, TargetKind.WEBGPU, ANY_GPU)[0])
    inputs = inputs_of(workload)
    wanted = reference(workload, inputs)
    for programs in (steps.scheduled, steps.optimised):
        error = np.abs(interpreted(programs, workload, inputs) - wanted).max()
        assert error <= comparison_tolerance(workload)
