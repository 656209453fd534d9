"""The lite space: valid, small, ordered, and never empty."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, InvalidSchedule
from services.tuner.compile import compile_candidate
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.rules import (
    VECTOR_REGISTERS,
    block_bytes,
    live_vectors,
    register_elements,
)
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.conv.config import WasmConvConfig
from services.tuner.schedules.elementwise.config import WasmElementwiseConfig
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.schedules.integer_matmul.config import WasmIntegerMatmulConfig
from services.tuner.schedules.matmul.config import Outer, WasmMatmulConfig
from services.tuner.schedules.matmul.space import naive_space_size
from services.tuner.schedules.prefetching_matmul.config import WasmPrefetchingMatmulConfig
from services.tuner.schedules.quantisation.config import WasmQuantisationConfig
from services.tuner.schedules.quantised_gemv.config import WasmQuantisedGemvConfig
from services.tuner.schedules.quantised_matmul.config import WasmQuantisedMatmulConfig
from services.tuner.schedules.reduction.config import WasmReductionConfig
from services.tuner.schedules.registry import lite_space
from services.tuner.schedules.strassen_matmul.config import WasmStrassenMatmulConfig
from services.tuner.schedules.winograd.config import WasmWinogradConfig
from tests.examples import examples
from tests.unit.tuner.candidates import MODELS, contraction

EXTENTS = st.one_of(st.integers(1, 200), st.integers(1, 65_536), st.sampled_from([1, 2, 64, 4096]))


CONFIGS: tuple[
    type[
        WasmMatmulConfig
        | WasmGemvConfig
        | WasmPrefetchingMatmulConfig
        | WasmStrassenMatmulConfig
        | WasmConvConfig
        | WasmReductionConfig
        | WasmIntegerMatmulConfig
        | WasmQuantisationConfig
        | WasmQuantisedGemvConfig
        | WasmQuantisedMatmulConfig
        | WasmElementwiseConfig
    ],
    ...,
] = (
    WasmMatmulConfig,
    WasmGemvConfig,
    WasmPrefetchingMatmulConfig,
    WasmStrassenMatmulConfig,
    WasmConvConfig,
    WasmReductionConfig,
    WasmIntegerMatmulConfig,
    WasmQuantisationConfig,
    WasmQuantisedGemvConfig,
    WasmQuantisedMatmulConfig,
    WasmElementwiseConfig,
)


def read_back(candidate: Candidate) -> Candidate:
    """The candidate of the config that its settings are read as."""
    config = next(each for each in CONFIGS if each.family == candidate.family)
    return config.of(candidate).candidate(candidate.workload)


@given(operator=st.sampled_from(("matmul", "batch_matmul")), extents=st.tuples(*[EXTENTS] * 4))
@settings(max_examples=examples(300), deadline=None, derandomize=True)
def test_every_legal_workload_has_valid_candidates_none_twice(
    operator: str, extents: tuple[int, int, int, int]
) -> None:
    workload = None
    try:
        workload = Workload.of(operator, extents if operator == "batch_matmul" else extents[1:])
    except InvalidInput:
        assume(False)
    assert workload is not None
    space = lite_space(workload, TargetKind.WASM)
    assert space
    assert len({candidate.candidate_id for candidate in space}) == len(space)
    assert any(candidate.requires == ("simd128",) for candidate in space)
    for candidate in space:
        assert read_back(candidate) == candidate
        if candidate.family == WasmGemvConfig.family:
            continue
        config = WasmMatmulConfig.of(candidate)
        live = live_vectors(config.tile_m, config.tile_n, fma=config.fma)
        assert live <= VECTOR_REGISTERS


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_the_space_of_a_model_workload_has_dozens_of_points(workload: Workload) -> None:
    space = lite_space(workload, TargetKind.WASM)
    assert 24 <= len(space) <= 40
    assert naive_space_size(workload) > 1000 * len(space)


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_the_first_points_use_fma_and_the_default_a_tile_that_fits_anywhere(
    workload: Workload,
) -> None:
    space = lite_space(workload, TargetKind.WASM)
    relaxed = Target.parse("wasm+relaxed-simd+simd128")
    plain = Target.parse("wasm+simd128")
    assert relaxed.offers(space[0].requires)
    assert space[0].requires == ("relaxed-simd", "simd128")
    default = next(candidate for candidate in space if plain.offers(candidate.requires))
    config = WasmMatmulConfig.of(default)
    assert (config.tile_m, config.tile_n, config.fma) == (4, 8, False)


def test_both_packings_and_both_roundings_are_offered_for_large_matrices() -> None:
    configs = [WasmMatmulConfig.of(c) for c in lite_space(MODELS[0], TargetKind.WASM)]
    assert {config.pack for config in configs} == {Pack.NONE, Pack.KERNEL}
    assert {config.fma for config in configs} == {True, False}
    assert configs[0].pack is Pack.KERNEL


@pytest.mark.parametrize(
    ("m", "k", "n", "outer"),
    [
        (3136, 24, 144, (Outer.ROWS,)),
        (3136, 64, 256, (Outer.COLUMNS, Outer.ROWS)),
        (384, 768, 768, (Outer.COLUMNS,)),
    ],
)
def test_rows_stand_outside_of_weights_that_the_cache_holds(
    m: int, k: int, n: int, outer: tuple[Outer, ...]
) -> None:
    workload = Workload.of("matmul+bias", (m, k, n), constant=("b",))
    space = lite_space(workload, TargetKind.WASM)
    configs = [WasmMatmulConfig.of(c) for c in space if c.family == WasmMatmulConfig.family]
    packed = {config.outer for config in configs if config.pack is Pack.PREPACKED}
    assert packed == set(outer)
    assert configs[0].outer is outer[0]


def test_all_rows_of_a_small_image_may_share_one_padded_copy() -> None:
    key = "conv2d+bias:f32:b1h7w7c64o64kh3kw3stride1pad1:constant=b"
    configs = [WasmConvConfig.of(c) for c in lite_space(Workload.parse(key), TargetKind.WASM)]
    assert {config.block_y for config in configs if config.pack is Pack.PREPACKED} == {1, 7}


def test_winograds_kernels_stand_behind_the_default_and_before_most_direct_ones() -> None:
    key = "conv2d+bias:f32:b1h28w28c64o64kh3kw3stride1pad1:constant=b"
    for candidates in split_by_fma(lite_space(Workload.parse(key), TargetKind.WASM)):
        families = [candidate.family for candidate in candidates]
        assert families[:5] == [WasmConvConfig.family] + 4 * [WasmWinogradConfig.family]
        assert WasmConvConfig.family in families[5:]


def split_by_fma(space: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    for fma in (True, False):
        yield [each for each in space if ("relaxed-simd" in each.requires) is fma]


def test_few_rows_are_not_worth_packing_for() -> None:
    space = lite_space(contraction(1, 768, 768), TargetKind.WASM)
    tiles = [candidate for candidate in space if candidate.family != WasmGemvConfig.family]
    assert {WasmMatmulConfig.of(candidate).pack for candidate in tiles} == {Pack.NONE}


@pytest.mark.parametrize("columns", [5, 768, 3072, 50_257])
def test_few_rows_stream_b_first(columns: int) -> None:
    space = lite_space(contraction(1, 768, columns), TargetKind.WASM)
    assert space[0].family == WasmGemvConfig.family
    default = next(candidate for candidate in space if candidate.requires == ("simd128",))
    assert default.family == WasmGemvConfig.family
    assert 10 <= len(space) <= 60


def test_tiles_of_one_row_read_many_columns_at_a_time() -> None:
    space = lite_space(contraction(1, 768, 3072), TargetKind.WASM)
    tiles = [WasmMatmulConfig.of(c) for c in space if c.family != WasmGemvConfig.family]
    assert {config.tile_m for config in tiles} == {1}
    assert tiles[0].tile_n == 48


CONSTANT = (
    "matmul:f32:m384k768n768:constant=b",
    "matmul:f32:m1k768n3072:constant=b",
    "matmul:f32:m4k768n50257:constant=b",
    "matmul_nt:f32:m1k768n50257:constant=b",
    "matmul_i8+scales:f32:m1k768n3072:constant=b",
    "batch_matmul:f32:b12m384k384n64:constant=b",
)


@pytest.mark.parametrize("key", CONSTANT)
def test_constant_weights_are_wanted_in_panels_first(key: str) -> None:
    space = lite_space(Workload.parse(key), TargetKind.WASM)
    assert 10 <= len(space) <= 60
    default = next(candidate for candidate in space if candidate.requires == ("simd128",))
    assert reads_panels(space[0])
    assert reads_panels(default)
    packs = {dict(candidate.config).get("pack") for candidate in space}
    assert Pack.KERNEL not in packs, "nothing is packed in every call that can be packed once"
    assert len(packs) > 1 or "nt" in key, "b as it is may still be read faster"


def test_weights_that_may_change_are_wanted_in_panels_by_no_kernel() -> None:
    for key in CONSTANT:
        space = lite_space(Workload.parse(key.removesuffix(":constant=b")), TargetKind.WASM)
        assert not [candidate for candidate in space if reads_panels(candidate)]


def reads_panels(candidate: Candidate) -> bool:
    if candidate.family == WasmPrefetchingMatmulConfig.family:
        return True
    return dict(candidate.config).get("pack") == Pack.PREPACKED


def test_rows_that_share_a_cache_set_are_always_packed() -> None:
    space = lite_space(MODELS[1], TargetKind.WASM)
    assert {WasmMatmulConfig.of(candidate).pack for candidate in space} == {Pack.KERNEL}


def test_a_matrix_that_fits_the_first_cache_is_read_in_place_first() -> None:
    small, larger = (lite_space(workload, TargetKind.WASM)[0] for workload in MODELS[:1:-1])
    assert WasmMatmulConfig.of(small).pack is Pack.NONE
    assert WasmMatmulConfig.of(larger).pack is Pack.KERNEL


def test_large_workloads_can_be_sliced() -> None:
    for workload in (*MODELS, contraction(2, 4096, 64, 8), contraction(50_000, 768, 8)):
        for candidate in lite_space(workload, TargetKind.WASM):
            extents = Extents.of(workload)
            assert WasmMatmulConfig.of(candidate).range_extent(extents) >= 4


def test_the_naive_space_is_that_of_the_paper() -> None:
    assert naive_space_size(contraction(384, 768, 768)) == 2_099_520
    assert naive_space_size(contraction(1, 1, 1)) == 8
    assert naive_space_size(contraction(7, 11, 13)) == 3 * 3 * 2 * 8


def test_the_formulas_are_those_of_table_1() -> None:
    assert register_elements(4, 2, 8) == 4 * 2 + 2 * 8 + 4 * 8
    assert block_bytes(4, 64, 8) == 4 * (4 * 64 + 64 * 8 + 4 * 8)
    assert live_vectors(6, 8, fma=True) == 15
    assert live_vectors(6, 8, fma=False) == 16


FAMILIES = (
    "matmul+bias+gelu:f32:m384k768n3072",
    "matmul_nt:f32:m384k768n768",
    "conv2d+bias+relu:f32:b1h56w56c64o64kh3kw3stride1pad1",
    "conv2d:f32:b1h56w56c64o256kh1kw1stride1pad0",
    "depthwise_conv2d:f32:b1h112w112c32kh3kw3stride1pad1",
    "max_pool2d:f32:b1h112w112c64kh3kw3stride2pad1",
    "softmax:f32:m4608n384",
    "layer_norm:f32:m384n768",
    "gelu:f32:n65536",
    "add:f32:n65536",
    "matmul_i8+scales+bias:f32:m384k768n768",
    "matmul:f32:m384k768n768:constant=b",
    "conv2d:f32:b1h14w14c256o256kh3kw3stride1pad1:constant=b",
)


def test_the_space_is_had_without_loading_tvm() -> None:
    code = """
import sys
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space

for key in sys.argv[1:]:
    lite_space(Workload.parse(key), TargetKind.WASM)
    lite_space(Workload.parse(key), TargetKind.WEBGPU)
sys.exit("tvm" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, *FAMILIES, "transpose:f32:m384n768"], check=True)


@pytest.mark.parametrize("key", FAMILIES)
def test_every_family_has_dozens_of_points_and_a_default(key: str) -> None:
    workload = Workload.parse(key)
    space = lite_space(workload, TargetKind.WASM)
    assert 10 <= len(space) <= 64
    assert len({candidate.candidate_id for candidate in space}) == len(space)
    assert any(candidate.requires == ("simd128",) for candidate in space)
    assert all(compile_candidate(c).manifest.range_extent >= 8 for c in space[::9])


@pytest.mark.parametrize(
    ("key", "vectors"),
    [
        ("row_max:f32:m512n768", 8),
        ("row_max:f32:m1024n49", 4),
        ("row_sum:f32:m512n768", 4),
        ("softmax:f32:m512n768", 4),
    ],
)
def test_extremes_of_long_rows_that_keep_nan_have_more_accumulators_at_first(
    key: str, vectors: int
) -> None:
    """A softmax may drop a NaN there, which its sum keeps."""
    default = lite_space(Workload.parse(key), TargetKind.WASM)[0]
    assert dict(default.config)["vectors"] == vectors


@pytest.mark.parametrize(
    ("key", "changed", "sentence"),
    [
        ("conv2d:f32:b1h8w8c6o8kh3kw3stride1pad1", {"tile_c": 6}, "in multiples of 4"),
        ("conv2d:f32:b1h8w8c6o8kh3kw3stride1pad1", {"tile_x": 0}, "start at 1"),
        ("conv2d:f32:b1h8w8c6o8kh3kw3stride1pad1", {"unroll_c": 4}, "must divide 6 input channels"),
        ("conv2d:f32:b1h8w8c6o8kh3kw3stride1pad1", {"unroll_c": 1 << 40}, "too many"),
        ("conv2d:f32:b1h8w8c6o8kh3kw3stride1pad1", {"block_y": 3}, "must divide 8 rows"),
        ("softmax:f32:m8n8", {"vectors": 1 << 40}, "from 1 to 8"),
        ("softmax:f32:m8n8", {"block_m": 3}, "must divide 8"),
        ("matmul:f32:m1k12n64", {"unroll_k": 5}, "must divide 12"),
        ("matmul:f32:m1k12n64", {"block_n": 1 << 40}, "block_n=1099511627776 must be"),
        ("add:f32:n64", {"chunk": 1}, "must be one of"),
        ("add:f32:n64", {"vectors": 0}, "from 1 to 8"),
    ],
)
def test_a_hostile_config_of_any_family_is_refused(
    key: str, changed: dict[str, Setting], sentence: str
) -> None:
    good = lite_space(Workload.parse(key), TargetKind.WASM)[0]
    bad = replace(good, config=tuple(sorted((dict(good.config) | changed).items())))
    with pytest.raises(InvalidSchedule, match=sentence):
        compile_candidate(bad)


@given(operator=st.sampled_from(sorted(OPERATORS)), data=st.data())
@settings(max_examples=examples(300), deadline=None, derandomize=True)
def test_every_operator_of_every_shape_has_valid_candidates(
    operator: str, data: st.DataObject
) -> None:
    extents = st.one_of(st.integers(0, 9), st.integers(1, 300), st.integers(1, 65_536))
    count = len(OPERATORS[operator].axes)
    workload = None
    constant = OPERATORS[operator].may_be_constant if data.draw(st.booleans()) else ()
    try:
        workload = Workload.of(
            operator, tuple(data.draw(extents) for _ in range(count)), constant=constant
        )
    except InvalidInput:
        assume(False)
    assert workload is not None
    space = lite_space(workload, TargetKind.WASM)
    assert 1 <= len(space) <= 60
    assert len({candidate.candidate_id for candidate in space}) == len(space)
    assert any(candidate.requires == ("simd128",) for candidate in space)
    assert all(read_back(candidate) == candidate for candidate in space)
