"""The lite space of WebGPU: valid, small, ordered, of a model of GPU, and never empty."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GPU_MODELS, GpuModel, gpu_model
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.target import FEATURES, TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, InvalidSchedule
from services.tuner.compile import compile_candidate
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.matmul.space import naive_space_size
from services.tuner.schedules.matmul.usage import (
    OTHER_REGISTERS,
    estimated_us,
    occupancy_of,
    registers_of,
)
from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig
from services.tuner.schedules.matmul.webgpu_space import whole_rounds
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig
from services.tuner.schedules.registry import lite_space
from services.tuner.schedules.transpose.webgpu_config import WebgpuTransposeConfig
from tests.examples import examples, one_in
from tests.unit.tuner.candidates import MODELS
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.reference import EXAMPLES, reference

NVIDIA = gpu_model("nvidia", "")
KINDS: tuple[
    type[
        WebgpuMatmulConfig
        | WebgpuReductionConfig
        | WebgpuConvConfig
        | WebgpuTransposeConfig
        | WebgpuElementwiseConfig
    ],
    ...,
] = (
    WebgpuMatmulConfig,
    WebgpuReductionConfig,
    WebgpuConvConfig,
    WebgpuTransposeConfig,
    WebgpuElementwiseConfig,
)
LARGE_BINDING = "binding-256m"


def space_of(workload: Workload, gpu: GpuModel = ANY_GPU) -> tuple[Candidate, ...]:
    return lite_space(workload, TargetKind.WEBGPU, gpu)


def tiles_of(workload: Workload, gpu: GpuModel) -> list[WebgpuMatmulConfig]:
    return [WebgpuMatmulConfig.of(candidate) for candidate in space_of(workload, gpu)]


def test_constant_weights_have_the_space_of_all_others() -> None:
    plain, constant = (
        space_of(Workload.parse(key))
        for key in ("matmul:f32:m8k64n64", "matmul:f32:m8k64n64:constant=b")
    )
    assert [each.config for each in constant] == [each.config for each in plain]
    assert compile_candidate(constant[0]).manifest.layouts == ()


def test_weights_of_eight_bits_are_read_by_a_thread_for_each_entry() -> None:
    whole, narrow = (Workload.parse(f"{name}:f32:m8k64n64") for name in ("matmul", "matmul_i8"))
    assert not any(each.family == WebgpuMatmulConfig.family for each in space_of(narrow))
    tiles = tiles_of(whole, ANY_GPU)[0].candidate(narrow)
    with pytest.raises(InvalidSchedule, match="family matmul has no schedule for matmul_i8"):
        compile_candidate(tiles)


@given(
    operator=st.sampled_from(sorted(OPERATORS)),
    gpu=st.sampled_from(sorted(GPU_MODELS)),
    data=st.data(),
)
@settings(max_examples=examples(150), deadline=None, derandomize=True)
def test_every_operator_of_every_shape_has_valid_candidates_on_every_gpu(
    operator: str, gpu: str, data: st.DataObject
) -> None:
    extents = st.one_of(st.integers(0, 9), st.integers(1, 300), st.integers(1, 65_536))
    count = len(OPERATORS[operator].axes)
    workload = None
    try:
        workload = Workload.of(operator, tuple(data.draw(extents) for _ in range(count)))
    except InvalidInput:
        assume(False)
    assert workload is not None
    space = space_of(workload, GPU_MODELS[gpu])
    assert 1 <= len(space) <= 80
    assert len({candidate.candidate_id for candidate in space}) == len(space)
    assert set(space[0].requires) <= {LARGE_BINDING}
    for candidate in space:
        assert set(candidate.requires) <= set(FEATURES[TargetKind.WEBGPU])
        kind = next(kind for kind in KINDS if kind.family == candidate.family)
        assert kind.of(candidate).candidate(workload) == candidate


@pytest.mark.parametrize("gpu", [NVIDIA, ANY_GPU, gpu_model("apple", "metal-3")])
@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_the_space_of_a_model_workload_has_dozens_of_points(
    workload: Workload, gpu: GpuModel
) -> None:
    space = space_of(workload, gpu)
    assert 20 <= len(space) <= 80
    assert naive_space_size(workload) > 500 * len(space)


@pytest.mark.parametrize("key", one_in(3, EXAMPLES))
def test_points_of_the_space_compute_the_operator(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    wanted = reference(workload, inputs)
    space = space_of(workload, NVIDIA)
    fitting = [candidate for candidate in space if not candidate.requires]
    for candidate in fitting[:: max(1, len(fitting) // 3)]:
        output = execute_gpu(compile_candidate(candidate), inputs)
        assert np.abs(output - wanted).max() <= comparison_tolerance(workload)


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_points_keep_the_heuristics_of_the_paper(workload: Workload) -> None:
    rounds = set(whole_rounds(Extents.of(workload), NVIDIA))
    for config in tiles_of(workload, NVIDIA):
        assert config.threads <= (320 if config in rounds else 256)
        most = 48 if config in rounds else 28 if config.sliced_k == 1 else 32
        assert config.workgroup_bytes <= most << 10
        assert config.tile_m & (config.tile_m - 1) == config.tile_n & (config.tile_n - 1) == 0
        usage = occupancy_of(config, NVIDIA)
        if config.cache is not Cache.NONE and config not in rounds:
            assert usage.by_registers <= 2 * min(usage.by_memory, usage.by_warps)


@pytest.mark.parametrize("layered", [False, True])
def test_points_are_ordered_by_the_time_that_their_usage_tells(layered: bool) -> None:
    default, *configs = tiles_of(MODELS[1], NVIDIA)
    assert not default.requires(MODELS[1])
    first = {tile_of(default): 0.0}
    rounds = set(whole_rounds(Extents.of(MODELS[1]), NVIDIA))
    for config in configs:
        if (
            config not in rounds
            and config.cache is not Cache.NONE
            and (config.sliced_k > 1) is layered
        ):
            time = estimated_us(Extents.of(MODELS[1]), config, NVIDIA)
            first.setdefault(tile_of(config), time)
    assert len(first) > 2
    assert list(first.values()) == sorted(first.values())


def tile_of(config: WebgpuMatmulConfig) -> tuple[int, ...]:
    return config.block_m, config.block_n, config.tile_m, config.tile_n


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_a_quarter_of_the_first_points_share_sums_among_layers_of_threads(
    workload: Workload,
) -> None:
    configs = tiles_of(workload, NVIDIA)[:40]
    layered = [c for c in configs if c.sliced_k > 1 and c.cache is not Cache.NONE]
    assert len(layered) >= 10
    assert all(c.slice_k >= 8 for c in layered)


def test_blocks_of_which_all_cores_have_as_many_are_among_the_points() -> None:
    workload = Workload.parse("matmul:f32:m384k768n768")
    rounds = set(whole_rounds(Extents.of(workload), NVIDIA))
    found = [config for config in tiles_of(workload, NVIDIA)[:40] if config in rounds]
    assert len(found) >= 3
    for config in found:
        busiest = -(-config.workgroups(Extents.of(workload)) // NVIDIA.cores)
        share = config.workgroups(Extents.of(workload)) / (busiest * NVIDIA.cores)
        assert share >= 0.93
        assert config.sliced_k > 1 == config.split_k


def test_small_outputs_share_their_sums_and_large_ones_do_not() -> None:
    assert {c.split_k for c in tiles_of(MODELS[0], NVIDIA)[:5]} != {1}
    large = Workload.parse("matmul:f32:m4096k4096n4096")
    assert {c.split_k for c in tiles_of(large, NVIDIA)} == {1}


def test_one_row_is_read_by_many_threads_at_once() -> None:
    configs = tiles_of(Workload.parse("matmul:f32:m1k768n3072"), NVIDIA)
    assert configs[0].tile_m == 1
    assert configs[0].sliced_k > 1


def test_a_processor_has_no_workgroup_memory_to_gain_from() -> None:
    configs = tiles_of(MODELS[0], gpu_model("google", "swiftshader"))
    assert {config.cache for config in configs} == {Cache.NONE}


def test_a_gpu_that_the_table_does_not_have_is_as_its_vendor_or_as_any() -> None:
    assert gpu_model("nvidia", "a-later-one").name == "nvidia"
    assert gpu_model("nvidia", "hopper").name == "nvidia-hopper"
    assert gpu_model("nobody", "") is ANY_GPU
    assert GPU_MODELS["any"] is ANY_GPU
    assert all(GPU_MODELS[name].name == name for name in GPU_MODELS)


def test_the_formulas_are_those_of_table_1() -> None:
    config = WebgpuMatmulConfig.of(
        next(c for c in space_of(MODELS[1], NVIDIA) if dict(c.config)["cache"] == "rows")
    )
    x0, y0, r0 = config.tile_m, config.tile_n, 4
    held = (config.block_m + config.block_n) * config.block_k // config.threads
    next_block = 0 if config.prefetch == "none" else held
    assert registers_of(config) == x0 * r0 + y0 + x0 * y0 + next_block + OTHER_REGISTERS
    usage = occupancy_of(config, NVIDIA)
    assert usage.by_warps == NVIDIA.warps / (config.threads / 32)
    assert usage.by_memory == NVIDIA.shared_bytes / config.workgroup_bytes
    assert usage.blocks_per_core >= 1
