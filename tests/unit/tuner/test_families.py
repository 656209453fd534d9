"""Schedule families: found by the axes of a program, and carried out by the template they name."""

from dataclasses import replace
from importlib import import_module

import pytest

from kernelzoo.domain.candidate import FAMILY
from kernelzoo.domain.operators.expressions import (
    Axis,
    Call,
    Function,
    Input,
    Integer,
    Program,
    Reducer,
    Stage,
    largest,
    read,
)
from kernelzoo.domain.target import MEASURED, TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import compile_candidate
from services.tuner.schedules.base.family import ScheduleFamily
from services.tuner.schedules.base.iteration import (
    IterationSpace,
    contraction,
    implicit_gemm,
    iteration_space,
    iteration_space_of,
)
from services.tuner.schedules.registry import FAMILIES, lite_space

FOUND = {
    "matmul:f32:m8k8n8": ("matmul", "matmul"),
    "matmul_tn+bias+gelu:f32:m8k8n8": ("matmul", "matmul"),
    "batch_matmul_nt:f32:b2m8k8n8": ("matmul", "matmul"),
    "matmul:f32:m1k8n8": ("gemv", "matmul"),
    "matmul_nt:f32:m1k8n8": ("matmul", "matmul"),
    "matmul:f32:m1k1n1": ("gemv", "matmul"),
    "matmul_i8:f32:m8k8n8": ("matmul", "elementwise"),
    "quantise:f32:n64": ("quantisation", "elementwise"),
    "quantise_range:f32:n7": ("quantisation", "quantisation"),
    "matmul_u8i8+bias:f32:m8k8n8": ("integer_matmul", "elementwise"),
    "matmul_u8i7:f32:m1k8n8": ("integer_matmul", "elementwise"),
    "matmul_u8i8q:f32:m3k16n8": ("integer_matmul", "elementwise"),
    "depthwise_conv2d_u8i8q:f32:b1h4w4c16kh3kw3stride1pad1": ("byte_depthwise", "elementwise"),
    "matmul_u8i8z+relu:f32:m3k16n8": ("integer_matmul", "integer_matmul"),
    "conv2d:f32:b1h8w8c4o8kh3kw3stride1pad1": ("conv", "matmul"),
    "conv2d:f32:b1h8w8c4o8kh1kw1stride2pad0": ("conv", "matmul"),
    "conv2d+relu:f32:b1h8w8c4o8kh1kw1stride1pad0": ("matmul", "matmul"),
    "conv2d:f32:b1h8w8c1o8kh1kw1stride1pad0": ("matmul", "matmul"),
    "depthwise_conv2d:f32:b1h8w8c4kh3kw3stride1pad1": ("conv", "conv"),
    "depthwise_conv2d:f32:b1h8w8c4kh1kw1stride1pad0": ("conv", "conv"),
    "avg_pool2d:f32:b1h7w7c4kh7kw7stride7pad0": ("conv", "conv"),
    "max_pool2d:f32:b1h8w8c4kh2kw2stride2pad0": ("conv", "conv"),
    "softmax:f32:m4n8": ("reduction", "reduction"),
    "layer_norm:f32:m4n8": ("reduction", "reduction"),
    "row_sum:f32:m4n8": ("reduction", "reduction"),
    "transpose:f32:m4n8": ("elementwise", "transpose"),
    "gather:f32:m3k4n5": ("elementwise", "elementwise"),
    "concat:f32:m3n4k5": ("elementwise", "elementwise"),
    "pad:f32:m3n4pad1": ("elementwise", "elementwise"),
    "gelu:f32:n64": ("elementwise", "elementwise"),
}
"""Families that list the space of a workload for wasm and for webgpu."""


def first(space: IterationSpace, target: TargetKind) -> str:
    return next(each.name for each in FAMILIES if each.target is target and each.matches(space))


@pytest.mark.parametrize(("key", "families"), FOUND.items())
def test_a_family_is_found_by_the_axes_of_a_program(key: str, families: tuple[str, str]) -> None:
    workload = Workload.parse(key)
    space = iteration_space(workload)
    assert tuple(first(space, target) for target in MEASURED) == families
    for target, family in zip(MEASURED, families, strict=True):
        assert family in {each.family for each in lite_space(workload, target)}


ROW, COLUMN, K = (Axis(name, Integer(size)) for name, size in (("i", 8), ("j", 12), ("k", 16)))


def test_a_fused_program_without_a_name_finds_its_schedule() -> None:
    """Scores of an attention: exp(max(q · kᵀ, 0)), as a model may be fused to."""
    scores = Stage(
        name="scores",
        axes=(ROW, COLUMN),
        value=read("q", ROW, K) * read("keys", COLUMN, K),
        reducer=Reducer.SUM,
        over=(K,),
    )
    power = Stage(
        name="power",
        axes=(ROW, COLUMN),
        value=Call(Function.EXP, largest(scores[ROW, COLUMN], 0.0)),
    )
    inputs = (Input("q", "f32", (8, 16)), Input("keys", "f32", (12, 16)))
    space = iteration_space_of(Program(inputs=inputs, stages=(scores, power)))
    assert first(space, TargetKind.WASM) == first(space, TargetKind.WEBGPU) == "matmul"
    found = contraction(space)
    assert found is not None
    assert (found.batch, found.m, found.k, found.n) == ((), ("i",), ("k",), ("j",))
    assert (found.a_transposed, found.b_transposed) == (False, True)


def test_axes_in_another_order_than_a_matrix_has_are_no_contraction() -> None:
    """a[k, i, k2]: no axis of rows lies beside one of k."""
    k2 = Axis("k2", Integer(4))
    stage = Stage(
        name="c",
        axes=(ROW, COLUMN),
        value=read("a", K, ROW, k2) * read("b", K, k2, COLUMN),
        reducer=Reducer.SUM,
        over=(K, k2),
    )
    inputs = (Input("a", "f32", (16, 8, 4)), Input("b", "f32", (16, 4, 12)))
    assert contraction(iteration_space_of(Program(inputs=inputs, stages=(stage,)))) is None


def test_a_convolution_is_a_product_of_windows_and_weights() -> None:
    space = iteration_space(Workload.parse("conv2d:f32:b2h9w8c4o8kh3kw2stride2pad1"))
    found = implicit_gemm(space)
    assert found is not None
    sizes = tuple(found.nest.size(axes) for axes in (found.m, found.k, found.n))
    assert sizes == (2 * 5 * 5, 3 * 2 * 4, 8)


# Those of javascript are those of wasm.
@pytest.mark.parametrize(
    "family",
    [each for each in FAMILIES if each.target in MEASURED],
    ids=lambda each: f"{each.name}-{each.target}",
)
def test_every_family_has_a_template_where_it_is_looked_for(family: ScheduleFamily) -> None:
    module = import_module(f"services.tuner.schedules.{family.template}")
    assert callable(module.lower)


def test_no_family_has_two_rows_for_a_target() -> None:
    assert len({(each.name, each.target) for each in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize("target", TargetKind)
@pytest.mark.parametrize(
    ("family", "message"),
    [("reduction", "no schedule for matmul"), ("tiles", "use one of"), ("", "use one of")],
)
def test_a_candidate_of_a_family_that_does_not_match_is_refused(
    target: TargetKind, family: str, message: str
) -> None:
    good = lite_space(Workload.parse("matmul:f32:m8k8n8"), target)[0]
    config = tuple(sorted((dict(good.config) | {FAMILY: family}).items()))
    with pytest.raises(InvalidSchedule, match=message):
        compile_candidate(replace(good, config=config))
