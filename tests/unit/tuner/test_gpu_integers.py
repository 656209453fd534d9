"""Products of integers for WebGPU, and the range of what is quantised, on a software GPU."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner import ir
from services.tuner.compile import gpu_compilation
from services.tuner.ir.interpreter import interpret
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.dot_matmul.webgpu_config import WebgpuDotMatmulConfig
from services.tuner.schedules.integer_matmul.webgpu_config import WebgpuIntegerMatmulConfig
from services.tuner.schedules.matmul.webgpu_config import Prefetch
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


def dots(**changed: Any) -> WebgpuDotMatmulConfig:
    """16 threads, blocks of 16 x 16 entries and of 16 words."""
    config = WebgpuDotMatmulConfig(
        block_m=16,
        block_n=16,
        block_k=16,
        tile_m=4,
        tile_n=4,
        unroll_k=8,
        cache=Cache.ROWS,
        prefetch=Prefetch.REGISTERS,
        sliced_k=1,
        split_k=1,
        group_m=1,
    )
    return replace(config, **changed)


DOTS = {
    "rows": dots(),
    "transposed": dots(cache=Cache.TRANSPOSED, prefetch=Prefetch.BLOCKS),
    "shared-sums": dots(sliced_k=2, prefetch=Prefetch.NONE),
    "parts-of-k": dots(split_k=2, prefetch=Prefetch.NONE),
    "from-storage": dots(cache=Cache.NONE, prefetch=Prefetch.NONE, block_k=16, sliced_k=2),
}
"""Each way to read words, and each way to share sums."""


@pytest.mark.parametrize("key", ["matmul_u8i8+bias:f32:m17k112n23", "matmul_u8i7:f32:m20k128n24"])
@pytest.mark.parametrize("way", one_in(2, DOTS))
def test_dot_products_of_bytes_compute_the_operator(key: str, way: str) -> None:
    right(DOTS[way].candidate(Workload.parse(key)))


def test_dot_products_are_exact_where_all_bytes_are_the_largest() -> None:
    workload = Workload.parse("matmul_u8i8:f32:m20k1024n24")
    inputs: list[Any] = inputs_of(workload)
    inputs[0].view(np.uint8)[:] = 255
    inputs[1][:] = -128
    inputs[1][1::2] = 127
    artifact = gpu_compilation(dots(split_k=2).candidate(workload)).artifact
    output: Any = execute_on_gpu(artifact, inputs)
    wanted: Any = exact(workload, inputs)
    np.testing.assert_allclose(output, wanted, rtol=2.0**-21)


def test_dot_products_are_candidates_of_browsers_that_have_them() -> None:
    for form, wanted in (("u8i8", True), ("u8i7", True), ("u8i8z", False)):
        space = lite_space(Workload.parse(f"matmul_{form}:f32:m64k64n64"), TargetKind.WEBGPU)
        by_bytes = [each for each in space if each.family == "dot_matmul"]
        assert bool(by_bytes) is wanted, form
        assert all("dot-of-bytes" in each.requires for each in by_bytes)
        assert space[0].requires == ()


def test_the_sum_of_products_of_bytes_takes_them_without_sign() -> None:
    x, y = (ir.Const(value=value, dtype=DType.I32) for value in (-1, 0x01FF0002))
    c = ir.Buffer(name="c", scope=ir.Scope.PARAMETER, dtype=DType.I32, size=1)
    program = ir.program((c,), "once", 1, (c.store(0, ir.DotBytes(left=x, right=y)),))
    held = np.zeros(1, np.int32)
    interpret(program, {"c": held}, low=0, high=1)
    assert held[0] == 255 * (1 + 255 + 0 + 2)


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
    zeros = Workload.parse("matmul_u8i8z:f32:m20k64n24")
    with pytest.raises(InvalidSchedule, match="have zero points"):
        WebgpuDotMatmulConfig.of(dots().candidate(zeros))
    told = dots().candidate(Workload.parse("matmul_u8i8:f32:m20k64n24"))
    with pytest.raises(InvalidSchedule, match="must say dot-of-bytes"):
        WebgpuDotMatmulConfig.of(replace(told, requires=()))
    few = Workload.of("quantise_range", (300,))
    with pytest.raises(InvalidSchedule, match="without entries"):
        WebgpuRangeConfig.of(WebgpuRangeConfig(threads=256, parts=3).candidate(few))
