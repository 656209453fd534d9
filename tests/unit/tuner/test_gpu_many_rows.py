"""Attention of many rows for WebGPU, in one dispatch, against NumPy."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.gpu import ANY_GPU, SOFTWARE_DRIVER, gpu_model
from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention, attention
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import gpu_compilation
from services.tuner.schedules.attention.webgpu_config import (
    WebgpuAttentionConfig,
    WebgpuSplitAttentionConfig,
)
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.registry import lite_space, matching
from tests.examples import one_in
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import legal
from tests.unit.tuner.gpu_execution import execute_gpu

OF_COLUMNS = ManyRowsAttention(
    heads=3,
    m=23,
    n=28,
    head_dim=8,
    width=20,
    queries=HeadsOperand(place=0, columns=40, first=8),
    keys=HeadsOperand(place=1, columns=24 + 60),
    values=HeadsOperand(place=1, columns=24 + 60, first=24),
    epilogue=("scale", "mask"),
)
"""Rows, keys and vectors of the output that are no whole blocks; keys and values of one matrix."""

APART = replace(
    OF_COLUMNS,
    m=40,
    queries=HeadsOperand(place=0),
    keys=HeadsOperand(place=1),
    values=HeadsOperand(place=2),
    epilogue=("residual", "bias"),
)
SHARED = replace(
    APART, heads=6, keys=HeadsOperand(place=1, shared=3), values=HeadsOperand(place=2, shared=3)
)
SHARED_COLUMNS = replace(
    OF_COLUMNS,
    heads=4,
    queries=HeadsOperand(place=0, columns=40, first=4),
    keys=HeadsOperand(place=1, columns=16 + 40, shared=2),
    values=HeadsOperand(place=1, columns=16 + 40, first=16, shared=2),
)
WIDE = replace(APART, heads=2, m=16, n=32, head_dim=80, width=80, epilogue=("scale",))


def config(
    block: tuple[int, int], tile_m: int, threads_per_row: int, sliced_n: int, cache: Cache
) -> WebgpuAttentionConfig:
    return WebgpuAttentionConfig(
        block_m=block[0],
        block_n=block[1],
        tile_m=tile_m,
        threads_per_row=threads_per_row,
        sliced_n=sliced_n,
        cache=cache,
        subgroups=False,
    )


def split(given: WebgpuAttentionConfig, split_n: int) -> WebgpuSplitAttentionConfig:
    shared = {each.name: getattr(given, each.name) for each in fields(WebgpuAttentionConfig)}
    return WebgpuSplitAttentionConfig(**shared, split_n=split_n)


CASES = {
    "keys through workgroup memory": (OF_COLUMNS, config((16, 16), 4, 8, 1, Cache.ROWS)),
    "slices of keys": (OF_COLUMNS, config((16, 32), 4, 8, 2, Cache.ROWS)),
    "slices of keys from storage": (APART, config((16, 16), 4, 4, 2, Cache.NONE)),
    "keys that heads share through workgroup memory": (
        SHARED_COLUMNS,
        config((16, 16), 4, 8, 1, Cache.ROWS),
    ),
    "keys that heads share from storage": (SHARED, config((16, 16), 4, 4, 2, Cache.NONE)),
    "subgroups": (APART, replace(config((32, 16), 8, 8, 1, Cache.ROWS), subgroups=True)),
    "queries of one thread": (APART, config((64, 8), 2, 1, 1, Cache.NONE)),
    "nine times four queries": (
        APART,
        replace(config((36, 48), 4, 8, 3, Cache.ROWS), subgroups=True),
    ),
    "three groups of threads": (OF_COLUMNS, config((12, 24), 4, 8, 3, Cache.ROWS)),
    "vectors that do not go round": (WIDE, config((8, 16), 4, 16, 1, Cache.ROWS)),
    "keys of two workgroups": (OF_COLUMNS, split(config((32, 8), 8, 8, 1, Cache.ROWS), 2)),
    "slices of parts of the keys": (APART, split(config((24, 8), 4, 4, 2, Cache.ROWS), 4)),
    "part of a block in the last part": (
        OF_COLUMNS,
        split(config((16, 8), 4, 8, 1, Cache.NONE), 4),
    ),
}


def attended(given: ManyRowsAttention, inputs: list[Any]) -> NDArray[np.float64]:
    """c[m, heads, width] in float64."""

    def operand(number: int) -> NDArray[np.float64]:
        of, _, entries = given.operands[number]
        held: NDArray[np.float64] = inputs[of.place].astype(np.float64)
        if of.columns:
            firsts = (of.first + n * entries for n in range(given.heads // of.shared))
            held = np.stack([held[:, first : first + entries] for first in firsts])
        return held.repeat(of.shared, axis=0)

    scores = operand(0) @ operand(1).transpose(0, 2, 1)
    extra = inputs[len({of.place for of, *_ in given.operands}) :]
    for name, values in zip(given.epilogue, extra, strict=True):
        scores = scores * values if name == "scale" else scores + values
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    mixed: NDArray[np.float64] = shares @ operand(2)
    return mixed.transpose(1, 0, 2)


@pytest.mark.parametrize("case", CASES)
def test_attention_of_many_rows_is_right(case: str) -> None:
    """It takes one dispatch; two where workgroups share the keys of a query."""
    given, chosen = CASES[case]
    workload = Workload.of_program("attention", attention(given))
    inputs = inputs_of(workload)
    steps = legal(chosen.candidate(workload))
    assert len(steps.artifact.manifest.dispatches) == 1 + (chosen.parts > 1)
    found = execute_gpu(steps.artifact, inputs, slices=2)
    assert np.abs(found - attended(given, inputs)).max() < 1e-6


@pytest.mark.parametrize("case", ["slices of keys", "keys of two workgroups"])
def test_a_row_may_be_masked_whole_and_scores_may_be_large(case: str) -> None:
    """The largest score grows by 200 from block to block; a row has none that is more than the
    lowest number there is, which is then the mean of all values."""
    given, chosen = CASES[case]
    workload = Workload.of_program("attention", attention(given))
    inputs = inputs_of(workload)
    *_, mask = inputs
    mask[:] = np.arange(mask.shape[1]) * 6.0
    mask[3] = np.finfo(np.float32).min
    mask[4, :16] = -np.inf
    found = execute_gpu(gpu_compilation(chosen.candidate(workload)).artifact, inputs)
    assert np.abs(found - attended(given, inputs)).max() < 1e-5


def test_attention_of_many_rows_is_found_by_its_program() -> None:
    workload = Workload.of_program("attention", attention(OF_COLUMNS))
    assert matching(workload, TargetKind.WEBGPU)[0].name == "attention"
    for gpu in (ANY_GPU, *(gpu_model(name, "") for name in ("nvidia", "apple", "intel"))):
        space = lite_space(workload, TargetKind.WEBGPU, gpu)
        assert space[0].requires == ()
        assert len(set(space)) == len(space) >= 3
    default = WebgpuAttentionConfig.of(lite_space(workload, TargetKind.WEBGPU, ANY_GPU)[0])
    assert default.workgroup_bytes_for(workload) <= SOFTWARE_DRIVER.workgroup_bytes
    processor = lite_space(workload, TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    assert {dict(each.config)["threads_per_row"] for each in processor[:-1]} == {1}


@pytest.mark.parametrize("head_dim", one_in(3, (64, 32, 80, 512, 128)))
def test_heads_of_all_widths_have_kernels_for_every_gpu(head_dim: int) -> None:
    given = replace(WIDE, m=384, n=384, head_dim=head_dim, width=head_dim)
    workload = Workload.of_program("attention", attention(given))
    for gpu in (ANY_GPU, gpu_model("nvidia", "hopper"), gpu_model("google", "swiftshader")):
        first, *others = lite_space(workload, TargetKind.WEBGPU, gpu)
        assert first.requires == ()
        for candidate in (first, others[-1]):
            scratch_bytes = gpu_compilation(candidate).artifact.manifest.scratch_bytes
            assert (scratch_bytes > 0) == (candidate.family == "split_attention")


def test_parts_of_the_keys_that_would_be_empty_are_refused() -> None:
    given, chosen = CASES["keys of two workgroups"]
    workload = Workload.of_program("attention", attention(given))
    assert chosen.fault(workload) == ""
    for parts, message in ((1, "must be 2 to 16"), (5, "without any")):
        assert message in split(chosen, parts).fault(workload)


def test_rows_that_are_no_whole_vectors_are_computed_entry_by_entry() -> None:
    for changed in (
        replace(APART, head_dim=6),
        replace(OF_COLUMNS, queries=HeadsOperand(place=0, columns=40, first=9)),
    ):
        workload = Workload.of_program("attention", attention(changed))
        assert [each.name for each in matching(workload, TargetKind.WEBGPU)] == ["elementwise"]


def test_a_hostile_config_is_refused() -> None:
    workload = Workload.of_program("attention", attention(OF_COLUMNS))
    base = CASES["slices of keys"][1]
    for changed, message in (
        (replace(base, threads_per_row=6), "a power of two"),
        (replace(base, block_m=18), "whole tiles"),
        (replace(base, tile_m=2), "a multiple of 4"),
        (replace(base, block_m=4, sliced_n=1), "8 threads must be 32 to 512"),
        (replace(base, cache=Cache.TRANSPOSED), "cache=rows or none"),
        (replace(base, block_n=2 * 8 * 64), "too many scores"),
        (replace(CASES["queries of one thread"][1], subgroups=True), "nothing to add up"),
    ):
        assert message in changed.fault(workload), changed
