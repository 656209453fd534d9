"""The lite space: valid, small, ordered, and never empty."""

import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.config import ContractionConfig, Pack
from services.tuner.extents import Extents
from services.tuner.space import lite_space, naive_space_size
from services.tuner.space.rules import (
    VECTOR_REGISTERS,
    block_bytes,
    live_vectors,
    register_elements,
)
from tests.unit.tuner.candidates import MODELS, contraction

EXTENTS = st.one_of(st.integers(1, 200), st.integers(1, 65_536), st.sampled_from([1, 2, 64, 4096]))


@given(operator=st.sampled_from(("matmul", "batch_matmul")), extents=st.tuples(*[EXTENTS] * 4))
@settings(max_examples=300, deadline=None, derandomize=True)
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
        config = ContractionConfig.of(candidate)
        assert config.candidate(workload) == candidate
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
    config = ContractionConfig.of(default)
    assert (config.tile_m, config.tile_n, config.fma) == (4, 8, False)


def test_both_packings_and_both_roundings_are_offered_for_large_matrices() -> None:
    configs = [ContractionConfig.of(c) for c in lite_space(MODELS[0], TargetKind.WASM)]
    assert {config.pack for config in configs} == set(Pack)
    assert {config.fma for config in configs} == {True, False}
    assert configs[0].pack is Pack.KERNEL


def test_few_rows_are_not_worth_packing_for() -> None:
    space = lite_space(contraction(1, 768, 768), TargetKind.WASM)
    assert {ContractionConfig.of(candidate).pack for candidate in space} == {Pack.NONE}


def test_one_row_reads_many_columns_at_a_time() -> None:
    space = [
        ContractionConfig.of(c) for c in lite_space(contraction(1, 768, 3072), TargetKind.WASM)
    ]
    assert len(space) >= 10
    assert {config.tile_m for config in space} == {1}
    assert {space[0].tile_n, next(c for c in space if not c.fma).tile_n} == {48}


def test_rows_that_share_a_cache_set_are_always_packed() -> None:
    space = lite_space(MODELS[1], TargetKind.WASM)
    assert {ContractionConfig.of(candidate).pack for candidate in space} == {Pack.KERNEL}


def test_a_matrix_that_fits_the_first_cache_is_read_in_place_first() -> None:
    small, larger = (lite_space(workload, TargetKind.WASM)[0] for workload in MODELS[:1:-1])
    assert ContractionConfig.of(small).pack is Pack.NONE
    assert ContractionConfig.of(larger).pack is Pack.KERNEL


def test_large_workloads_can_be_sliced() -> None:
    for workload in (*MODELS, contraction(2, 4096, 64, 8), contraction(50_000, 768, 8)):
        for candidate in lite_space(workload, TargetKind.WASM):
            extents = Extents.of(workload)
            assert ContractionConfig.of(candidate).range_extent(extents) >= 4


def test_webgpu_has_no_space_yet() -> None:
    with pytest.raises(InvalidInput, match="no space for target webgpu yet"):
        lite_space(MODELS[0], TargetKind.WEBGPU)


def test_the_naive_space_is_that_of_the_paper() -> None:
    assert naive_space_size(contraction(384, 768, 768)) == 2_099_520
    assert naive_space_size(contraction(1, 1, 1)) == 8
    assert naive_space_size(contraction(7, 11, 13)) == 3 * 3 * 2 * 8


def test_the_formulas_are_those_of_table_1() -> None:
    assert register_elements(4, 2, 8) == 4 * 2 + 2 * 8 + 4 * 8
    assert block_bytes(4, 64, 8) == 4 * (4 * 64 + 64 * 8 + 4 * 8)
    assert live_vectors(6, 8, fma=True) == 15
    assert live_vectors(6, 8, fma=False) == 16


def test_the_space_is_had_without_loading_tvm() -> None:
    code = "import sys; import services.tuner.space; sys.exit('tvm' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
