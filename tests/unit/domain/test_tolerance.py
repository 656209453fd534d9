"""Tolerances follow from definitions: right results are within them, wrong ones are not."""

import pytest

from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.tolerance import Growth, comparison_tolerance, growth_of
from kernelzoo.domain.workload import Workload


@pytest.mark.parametrize(
    ("growth", "names"),
    [
        (Growth.PRODUCTS, {"matmul_nt_i8", "batch_matmul", "conv2d", "depthwise_conv2d"}),
        (Growth.SUM, {"row_sum"}),
        (Growth.MEAN, {"row_mean", "avg_pool2d"}),
        (Growth.LARGEST, {"row_max", "max_pool2d"}),
        (Growth.SHARE, {"softmax"}),
        (Growth.NORM, {"layer_norm", "rms_norm"}),
        (Growth.ELEMENTWISE, {"gelu", "exp", "max", "mul", "gather", "pad"}),
    ],
)
def test_errors_grow_as_the_definition_says(growth: Growth, names: set[str]) -> None:
    assert {growth_of(OPERATORS[name]) for name in names} == {growth}


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("max_pool2d:f32:b1h520w520c4kh512kw512stride1pad0", 1e-5),
        ("row_max:f32:m4n65536", 1e-5),
        ("avg_pool2d:f32:b1h40w40c2kh33kw34stride1pad0", 2e-4),
        ("row_mean:f32:m4n1024", 2e-4),
    ],
)
def test_the_largest_and_the_mean_of_many_are_told_from_others(key: str, most: float) -> None:
    """One entry of 1,024 that is left out of a mean moves it by up to 5e-4."""
    assert comparison_tolerance(Workload.parse(key)) <= most


def test_a_longer_sum_may_differ_by_more() -> None:
    tolerances = [
        comparison_tolerance(Workload.of("row_sum", (4, n))) for n in (16, 256, 4096, 65536)
    ]
    assert tolerances == sorted(tolerances)
    assert tolerances[0] * 100 < tolerances[1] * 10 < tolerances[2]
