"""Products of integers for WebGPU, and the range of what is quantised, on a software GPU."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import gpu_compilation
from services.tuner.schedules.integer_matmul.webgpu_config import WebgpuIntegerMatmulConfig
from services.tuner.schedules.quantisation.webgpu_config import WebgpuRangeConfig
from services.tuner.schedules.registry import lite_space
from tests.examples import one_in
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_execution import execute_on_gpu
from tests.unit.tuner.test_integer_matmul import exact

KEYS = (
    "matmul_u8i8:f32:m13k32n22:constant=b",
    "matmul_u8i7+bias+gelu:f32:m5k48n9",
    "matmul_u8i8z+relu:f32:m9k64n6",
    "matmul_u8i7z:f32:m1k16n75",
    "matmul_u8i8+bias:f16:m8k32n8",
)


@pytest.mark.parametrize("key", KEYS)
def test_points_of_the_space_compute_the_operator(key: str) -> None:
    space = lite_space(Workload.parse(key), TargetKind.WEBGPU)
    for candidate in space[:: max(1, len(space) // 4)]:
        right(candidate)


@pytest.mark.parametrize("key", one_in(2, KEYS[:3:2]))
def test_sums_are_exact_where_all_bytes_are_the_largest(key: str) -> None:
    """The right value is compared as f32: a GPU may round one of its products down."""
    workload = replace(Workload.parse(key), epilogue=())
    inputs: list[Any] = inputs_of(workload)
    inputs[0].view(np.uint8)[:] = 255
    inputs[1][:] = -128
    (first, *_) = lite_space(workload, TargetKind.WEBGPU)
    output: Any = execute_on_gpu(gpu_compilation(first).artifact, inputs)
    wanted: Any = exact(workload, inputs)
    np.testing.assert_allclose(output, wanted, rtol=2.0**-21)


@pytest.mark.parametrize("n", [1, 33, 300, 70_001])
def test_the_range_is_found_in_parts(n: int) -> None:
    for candidate in lite_space(Workload.of("quantise_range", (n,)), TargetKind.WEBGPU)[::4]:
        right(candidate)


def test_what_makes_a_config_unusable_is_said() -> None:
    workload = Workload.parse("matmul_u8i8:f32:m20k16n24")
    product = WebgpuIntegerMatmulConfig(threads=64, tile_m=4, tile_n=4)
    for changed, message in (
        ({"threads": 48}, "power of two"),
        ({"tile_m": 9}, "from 1 to 8"),
        ({"tile_m": 8, "tile_n": 8}, "more than 32"),
    ):
        with pytest.raises(InvalidSchedule, match=message):
            WebgpuIntegerMatmulConfig.of(replace(product, **changed).candidate(workload))
    odd = Workload.parse("matmul_u8i8:f32:m20k20n24")
    with pytest.raises(InvalidSchedule, match="whole vectors"):
        WebgpuIntegerMatmulConfig.of(product.candidate(odd))
    few = Workload.of("quantise_range", (300,))
    with pytest.raises(InvalidSchedule, match="without entries"):
        WebgpuRangeConfig.of(WebgpuRangeConfig(threads=256, parts=3).candidate(few))
