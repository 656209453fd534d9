"""Convolutions of a few channels, without a copy of the image."""

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
    "conv2d+bias+relu6:f32:b1h16w30c3o16kh3kw3stride2pad1:constant=b",
    "conv2d+bias+residual:f32:b2h9w13c1o8kh3kw3stride1pad1:constant=b",
    "conv2d:f32:b1h15w20c3o8kh7kw7stride2pad3",
    "conv2d:f32:b1h6w17c4o12kh2kw2stride1pad0",
    "conv2d:f32:b1h2w2c3o8kh3kw3stride1pad1",
)


@pytest.mark.parametrize("key", WORKLOADS)
def test_tiles_at_borders_and_between_them_are_right(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    right = reference(workload, inputs)
    space = lite_space(workload, TargetKind.WASM)
    candidates = [each for each in space if each.family == "direct_conv"]
    assert {each.requires for each in candidates} == {each.requires for each in space}
    for candidate in candidates:
        artifact = compile_candidate(candidate)
        assert artifact.manifest.scratch_bytes == 0, "rows are copied"
        error = np.abs(execute(artifact, inputs) - right).max()
        assert error <= comparison_tolerance(workload), dict(candidate.config)


@pytest.mark.parametrize("key", ["b1h9w9c16o16kh3kw3stride1pad1", "b1h9w9c3o6kh3kw3stride1pad1"])
def test_many_channels_and_parts_of_vectors_have_other_schedules(key: str) -> None:
    space = lite_space(Workload.parse(f"conv2d:f32:{key}"), TargetKind.WASM)
    assert "direct_conv" not in {each.family for each in space}
