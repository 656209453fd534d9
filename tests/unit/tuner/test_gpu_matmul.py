"""Matrix products for WebGPU: text and result, shapes with tails, configs that are refused."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.compile import compile_candidate, gpu_compilation
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.implicit_gemm import product_extents
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.matmul.webgpu import rounds
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig
from tests.examples import examples
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import reference

BASE = WebgpuMatmulConfig(
    block_m=16,
    block_n=32,
    block_k=8,
    tile_m=4,
    tile_n=8,
    unroll_k=4,
    cache=Cache.ROWS,
    prefetch=Prefetch.NONE,
    sliced_k=1,
    split_k=1,
    group_m=1,
)
DIRECT = replace(BASE, cache=Cache.NONE, block_k=4)
SLICED_DIRECT = replace(DIRECT, block_m=1, block_n=16, tile_m=1, tile_n=4, sliced_k=4, block_k=16)
SLICED = replace(BASE, sliced_k=2, prefetch=Prefetch.REGISTERS)
SLICED_TRANSPOSED = replace(SLICED, cache=Cache.TRANSPOSED, sliced_k=4, block_k=16)
CONFIGS = {
    "plain": BASE,
    "prefetched": replace(BASE, prefetch=Prefetch.REGISTERS, block_k=16, unroll_k=16),
    "alternating": replace(BASE, prefetch=Prefetch.BLOCKS),
    "transposed": replace(BASE, cache=Cache.TRANSPOSED, prefetch=Prefetch.REGISTERS),
    "transposed-alternating": replace(
        BASE, cache=Cache.TRANSPOSED, prefetch=Prefetch.BLOCKS, split_k=2
    ),
    "split": replace(BASE, split_k=2, prefetch=Prefetch.REGISTERS),
    "direct": DIRECT,
    "direct-split": replace(DIRECT, tile_m=2, tile_n=4, block_k=8, unroll_k=8, split_k=2),
    "sliced-direct": SLICED_DIRECT,
    "sliced-direct-split": replace(SLICED_DIRECT, split_k=2),
    "sliced": SLICED,
    "sliced-plain": replace(SLICED, prefetch=Prefetch.NONE, block_k=16),
    "sliced-alternating": replace(SLICED, prefetch=Prefetch.BLOCKS, sliced_k=3, block_k=12),
    "sliced-transposed": SLICED_TRANSPOSED,
    "sliced-transposed-plain": replace(
        SLICED_TRANSPOSED, prefetch=Prefetch.NONE, sliced_k=5, block_k=20
    ),
    "sliced-transposed-alternating": replace(
        SLICED_TRANSPOSED, prefetch=Prefetch.BLOCKS, split_k=2
    ),
    "wide-rows": replace(BASE, block_m=32, block_n=16, tile_m=1, tile_n=4, block_k=16),
}
GOLDEN = {
    "gpu-tiles": ("prefetched", "matmul:f32:m16k32n32"),
    "gpu-tiles-tails": ("transposed", "matmul+bias+relu:f32:m18k10n36"),
    "gpu-split": ("split", "batch_matmul_nt:f32:b2m16k16n32"),
    "gpu-sliced-k": ("sliced", "matmul:f32:m16k32n32"),
    "gpu-sliced-k-transposed": ("sliced-transposed", "matmul_tn+bias:f32:m20k18n36"),
    "gpu-sliced-k-direct": ("sliced-direct", "matmul:f32:m1k64n40"),
}


def assert_right(workload: Workload, config: WebgpuMatmulConfig, slices: int = 1) -> Candidate:
    candidate = config.candidate(workload)
    right(candidate, slices)
    return candidate


@pytest.mark.parametrize("name", GOLDEN)
def test_nests_and_modules_read_as_recorded_and_are_right(name: str, golden: Golden) -> None:
    config, key = GOLDEN[name]
    candidate = assert_right(Workload.parse(key), CONFIGS[config])
    golden(f"{name}.wgsl", compile_candidate(candidate).body.decode())


KEYS = (
    "matmul:f32:m32k32n64",
    "matmul+bias+gelu:f32:m35k30n66",
    "matmul_nt+bias:f32:m35k28n68",
    "matmul_tn+relu:f32:m33k31n67",
    "batch_matmul+residual:f32:b3m20k32n36",
    "batch_matmul+scale+mask+gelu_tanh:f32:b3m20k32n36",
    "batch_matmul_nt+scale:f32:b2m21k28n35",
    "matmul:f32:m1k64n40",
    "conv2d+bias:f32:b2h5w6c32o12kh1kw1stride1pad0",
)
"""Blocks of 4, 8 and 16 of k may be split in two, with and without an end inside of the last."""

OF_ROWS = tuple(
    name for name, each in CONFIGS.items() if each.cache is Cache.ROWS or each.tile_m % LANES
)
"""They read rows of a, or fewer than four of its columns at once."""


def cases() -> Iterator[tuple[str, str]]:
    for key, name in product(KEYS, CONFIGS):
        if not (key.startswith("matmul_tn") and name in OF_ROWS):
            yield key, name


@pytest.mark.parametrize(("key", "name"), cases())
def test_every_way_of_reading_is_right_for_every_layout(key: str, name: str) -> None:
    assert_right(Workload.parse(key), CONFIGS[name], slices=2)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_transposed_a_is_not_read_in_rows(name: str) -> None:
    workload = Workload.parse("matmul_tn:f32:m33k31n67")
    with pytest.raises(InvalidSchedule, match="a is stored transposed"):
        compile_candidate(CONFIGS[name].candidate(workload))


SIZES = st.one_of(st.integers(1, 70), st.sampled_from((1, 2, 3, 5, 7, 13, 31, 61, 67)))


@given(
    operator=st.sampled_from(("matmul", "matmul_nt", "matmul_tn")),
    extents=st.tuples(SIZES, SIZES, SIZES),
    epilogue=st.sampled_from(((), ("bias",), ("residual", "relu"), ("mask", "gelu"))),
    name=st.sampled_from(sorted(CONFIGS)),
    data=st.data(),
)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_products_of_any_shape_are_right(
    operator: str,
    extents: tuple[int, int, int],
    epilogue: tuple[str, ...],
    name: str,
    data: st.DataObject,
) -> None:
    assume(operator != "matmul_tn" or name not in OF_ROWS)
    workload = Workload.of("+".join((operator, *epilogue)), extents)
    blocks = CONFIGS[name].k_blocks(product_extents(workload))
    parts = [split_k for split_k in (1, 2, 3) if blocks % split_k == 0]
    assert_right(workload, replace(CONFIGS[name], split_k=data.draw(st.sampled_from(parts))))


@pytest.mark.parametrize(
    "name",
    ["alternating", "transposed", "sliced-direct-split", "sliced-alternating", "sliced-transposed"],
)
def test_the_interpreter_agrees_before_and_after_the_passes(name: str) -> None:
    workload = Workload.parse("matmul+bias:f32:m5k18n10")
    config = replace(CONFIGS[name], split_k=1 + ("split" in name))
    steps = gpu_compilation(config.candidate(workload))
    inputs = inputs_of(workload)
    wanted = reference(workload, inputs)
    for programs in (steps.scheduled, steps.optimised):
        error = np.abs(interpreted(programs, workload, inputs) - wanted).max()
        assert error <= comparison_tolerance(workload)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"tile_n": 6}, "multiple of 4"),
        ({"tile_m": 64, "block_m": 64}, "at most 128 entries"),
        ({"block_m": 1 << 40}, "from 1 to 65536"),
        ({"tile_m": 0}, "from 1 to 65536"),
        ({"block_m": 18}, "must be whole tiles"),
        ({"block_m": 4096, "block_n": 4096}, "threads to a workgroup are too many"),
        ({"unroll_k": 6}, "multiple of 4 and divide block_k/sliced_k"),
        ({"block_k": 4096, "unroll_k": 4096}, "products in the loop body"),
        ({"block_k": 512, "unroll_k": 4}, "elements of a block to a thread"),
        ({"cache": "transposed", "tile_m": 2}, "multiples of 4"),
        ({"cache": "none"}, "block_k=unroll_k"),
        ({"sliced_k": 4}, "divide block_k/sliced_k"),
        ({"split_k": 7}, "must divide"),
        ({"group_m": 5}, "rows of blocks"),
        ({"cache": "everything"}, "must be one of"),
        ({"prefetch": True}, "must be one of"),
    ],
)
def test_a_hostile_config_is_refused_before_it_is_compiled(
    changed: dict[str, Setting], sentence: str
) -> None:
    good = BASE.candidate(Workload.parse("matmul:f32:m64k64n64"))
    bad = replace(good, config=tuple(sorted((dict(good.config) | changed).items())))
    with pytest.raises(InvalidSchedule, match=sentence):
        compile_candidate(bad)


def test_what_a_kernel_needs_is_what_its_candidate_says() -> None:
    workload = Workload.parse("matmul:f32:m256k256n256")
    large = replace(BASE, block_m=128, block_n=128, block_k=32)
    candidate = large.candidate(workload)
    assert large.threads == 512
    assert candidate.requires == ("invocations-512", "workgroup-memory-48k")
    with pytest.raises(InvalidSchedule, match="with its settings it must say"):
        compile_candidate(replace(candidate, requires=()))


@pytest.mark.parametrize("name", CONFIGS)
def test_workgroup_memory_is_as_the_config_says(name: str) -> None:
    config = replace(CONFIGS[name], split_k=1)
    workload = Workload.parse("matmul:f32:m64k60n64")
    made = print_module(gpu_compilation(config.candidate(workload)).optimised, ("a", "b", "c"))
    assert made.workgroup_bytes == config.workgroup_bytes


def test_the_sums_of_sliced_k_take_the_place_of_blocks() -> None:
    blocks = 4 * (16 * BASE.a_stride + 8 * 32)
    assert SLICED.workgroup_bytes == max(blocks, 4 * 16 * 32)
    halves = replace(SLICED, block_m=64, block_n=64, sliced_k=4, block_k=16)
    assert halves.workgroup_bytes == 2 * 4 * 64 * 64


@pytest.mark.parametrize("sliced_k", range(2, 18))
def test_the_rounds_of_sliced_k_add_every_sum_once(sliced_k: int) -> None:
    for slots in range(sliced_k // 2, sliced_k):
        held = [{z} for z in range(sliced_k)]
        for each in rounds(sliced_k, slots):
            kept = held[each.middle : each.last]
            assert len(kept) <= slots
            held = [own.union(*kept[n :: each.middle]) for n, own in enumerate(held[: each.middle])]
            assert sum(map(len, held)) == sliced_k
        assert held == [set(range(sliced_k))]


def test_scratch_is_for_the_parts_of_sums() -> None:
    workload = Workload.parse("matmul:f32:m16k16n32")
    manifest = compile_candidate(CONFIGS["split"].candidate(workload)).manifest
    assert manifest.scratch_bytes == 2 * 4 * 16 * 32
    assert [dispatch.entry for dispatch in manifest.dispatches] == ["main", "then_1"]
    assert manifest.range_extent == sum(d.workgroups for d in manifest.dispatches)
    assert CONFIGS["split"].workgroups(Extents.of(workload)) == manifest.dispatches[0].workgroups


def test_the_same_candidate_gives_the_same_bytes() -> None:
    candidate = CONFIGS["transposed"].candidate(Workload.parse("matmul:f32:m40k24n36"))
    assert compile_candidate(candidate) == compile_candidate(candidate)
    assert {"family", *asdict(CONFIGS["transposed"])} == {name for name, _ in candidate.config}
