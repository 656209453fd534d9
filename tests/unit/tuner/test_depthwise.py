"""Convolutions that keep channels apart, without a copy of the image."""

import numpy as np
import pytest

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute, inputs_of
from tests.unit.tuner.reference import reference

WORKLOADS = (
    "depthwise_conv2d+bias+relu6:f32:b1h7w7c8kh3kw3stride1pad1",
    "depthwise_conv2d:f32:b2h9w13c12kh3kw3stride2pad1",
    "depthwise_conv2d:f32:b1h15w31c4kh5kw5stride1pad2",
    "depthwise_conv2d:f32:b1h9w18c4kh3kw3stride1pad0",
    "depthwise_conv2d:f32:b1h2w2c4kh3kw3stride1pad1",
)


@pytest.mark.parametrize("key", WORKLOADS)
def test_tiles_at_borders_and_between_them_are_right(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    right = reference(workload, inputs)
    candidates = [
        each for each in lite_space(workload, TargetKind.WASM) if each.family == "depthwise"
    ]
    assert candidates[0] == lite_space(workload, TargetKind.WASM)[0]
    for candidate in candidates:
        artifact = compile_candidate(candidate)
        assert artifact.manifest.scratch_bytes == 0, "rows are copied"
        error = np.abs(execute(artifact, inputs) - right).max()
        assert error <= comparison_tolerance(workload), dict(candidate.config)


def test_channels_that_are_no_whole_vectors_have_other_schedules() -> None:
    workload = Workload.parse("depthwise_conv2d:f32:b1h9w7c6kh3kw3stride1pad1")
    families = {each.family for each in lite_space(workload, TargetKind.WASM)}
    assert families == {"conv"}
