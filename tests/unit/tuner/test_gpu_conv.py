"""Convolutions for WebGPU: implicit GEMM, and windows that slide over each channel."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.gpu import ANY_GPU
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import compile_candidate
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig
from services.tuner.schedules.registry import lite_space
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import reference


def tiles(
    cache: Cache,
    prefetch: Prefetch = Prefetch.NONE,
    *,
    block_k: int = 8,
    sliced_k: int = 1,
    split_k: int = 1,
) -> WebgpuMatmulConfig:
    return WebgpuMatmulConfig(
        block_m=16,
        block_n=16,
        block_k=block_k,
        tile_m=4,
        tile_n=4,
        unroll_k=block_k // sliced_k,
        cache=cache,
        prefetch=prefetch,
        sliced_k=sliced_k,
        split_k=split_k,
        group_m=1,
    )


def pixels(tile_x: int, *, vec4: bool = True) -> WebgpuConvConfig:
    return WebgpuConvConfig(threads=32, tile_x=tile_x, vec4=vec4)


CONVOLUTIONS = {
    "padding": "conv2d+bias+relu:f32:b1h5w6c8o12kh3kw3stride1pad1",
    "neighbours": "conv2d:f32:b1h7w5c12o8kh3kw3stride2pad1",
    "single": "conv2d+bias:f32:b2h7w6c3o5kh3kw3stride2pad1",
    "corners": "conv2d+residual:f32:b2h6w7c8o8kh1kw1stride2pad0",
    "one": "conv2d:f32:b1h3w3c4o4kh3kw3stride1pad0",
}
"""All channels of a pixel in a block, or four of them, or one; no padding; one window alone."""

WAYS = {
    "none": tiles(Cache.NONE),
    "rows": tiles(Cache.ROWS, Prefetch.REGISTERS),
    "transposed": tiles(Cache.TRANSPOSED, Prefetch.BLOCKS),
    "long": tiles(Cache.ROWS, block_k=16),
    "sliced": tiles(Cache.ROWS, Prefetch.REGISTERS, sliced_k=2),
    "sliced-transposed": tiles(Cache.TRANSPOSED, Prefetch.BLOCKS, block_k=12, sliced_k=3),
}
SLIDING = (
    "depthwise_conv2d:f32:b2h7w9c8kh3kw3stride2pad1",
    "depthwise_conv2d:f32:b1h5w21c3kh2kw17stride1pad1",
    "depthwise_conv2d+bias+residual+relu6:f32:b2h7w9c8kh3kw3stride1pad1",
    "max_pool2d:f32:b2h9w7c5kh3kw3stride2pad1",
    "max_pool2d:f32:b1h6w9c8kh3kw3stride1pad1",
    "avg_pool2d:f32:b1h7w7c16kh7kw7stride1pad0",
)
GOLDEN: dict[str, tuple[str, WebgpuMatmulConfig | WebgpuConvConfig]] = {
    "gpu-conv2d": (CONVOLUTIONS["padding"], tiles(Cache.ROWS, Prefetch.REGISTERS)),
    "gpu-depthwise": ("depthwise_conv2d:f32:b1h4w5c4kh3kw3stride1pad1", pixels(2)),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_windows_read_as_recorded_and_are_right(name: str, golden: Golden) -> None:
    key, config = GOLDEN[name]
    steps = right(config.candidate(Workload.parse(key)))
    golden(f"{name}.wgsl", steps.artifact.body.decode())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_way_of_reading_is_right_for_every_window(name: str, way: str) -> None:
    right(WAYS[way].candidate(Workload.parse(CONVOLUTIONS[name])))


@pytest.mark.parametrize("sliced_k", [1, 2])
def test_parts_of_a_sum_over_windows_are_added(sliced_k: int) -> None:
    config = tiles(Cache.ROWS, split_k=3, sliced_k=sliced_k)
    steps = right(config.candidate(Workload.parse(CONVOLUTIONS["padding"])))
    assert len(steps.artifact.manifest.dispatches) == 2


@pytest.mark.parametrize("tile_x", [1, 2, 3])
@pytest.mark.parametrize("key", SLIDING)
def test_pixels_side_by_side_are_right(key: str, tile_x: int) -> None:
    workload = Workload.parse(key)
    whole = workload.extent["c"] % 4 == 0
    for vec4 in {False, whole}:
        config = pixels(min(tile_x, workload.extent["x"]), vec4=vec4)
        right(config.candidate(workload))


@pytest.mark.parametrize(
    ("key", "config"),
    [(CONVOLUTIONS["single"], WAYS["transposed"]), (SLIDING[0], pixels(2))],
)
def test_the_interpreter_agrees(key: str, config: WebgpuMatmulConfig | WebgpuConvConfig) -> None:
    workload = Workload.parse(key)
    steps = right(config.candidate(workload))
    inputs = inputs_of(workload)
    for programs in (steps.scheduled, steps.optimised):
        error = np.abs(interpreted(programs, workload, inputs) - reference(workload, inputs)).max()
        assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 48}, "threads=48 must be one of"),
        ({"threads": 1 << 40}, "must be one of"),
        ({"tile_x": 0}, "from 1 to 7"),
        ({"tile_x": 8}, "from 1 to 7"),
        ({"tile_x": True}, "must be a whole number"),
        ({"tile_y": 1}, "unknown"),
        ({"vec4": 1}, "true or false"),
    ],
)
def test_a_hostile_config_is_refused(changes: dict[str, Setting], message: str) -> None:
    workload = Workload.parse("max_pool2d:f32:b1h8w8c4kh2kw2stride1pad0")
    good = pixels(2).candidate(workload)
    config = tuple(sorted((dict(good.config) | changes).items()))
    with pytest.raises(InvalidSchedule, match=message):
        compile_candidate(replace(good, config=config))


def test_channels_that_are_no_whole_vectors_are_read_one_by_one() -> None:
    workload = Workload.parse("max_pool2d:f32:b1h8w8c5kh2kw2stride1pad0")
    with pytest.raises(InvalidSchedule, match="multiples of 4"):
        compile_candidate(pixels(2).candidate(workload))


def test_one_window_alone_is_also_computed_as_it_is_stated() -> None:
    workload = Workload.parse("avg_pool2d:f32:b1h7w7c64kh7kw7stride7pad0")
    space = lite_space(workload, TargetKind.WEBGPU, ANY_GPU)
    assert space[0].family == WebgpuConvConfig.family
    assert any(candidate.family == WebgpuElementwiseConfig.family for candidate in space)
