"""Kernels of f16: what they compute, packed and by the type of the adapter, and how they read."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GPU_MODELS
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import gpu_compilation
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.schedules.base.f16_storage import f16_storage_of, with_native_f16
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig
from services.tuner.schedules.registry import lite_space
from tests.examples import one_in
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_execution import device
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import EXAMPLES, reference

KEYS = tuple(key.replace(":f32:", ":f16:") for key in EXAMPLES if not key.endswith(":n7"))
EACH = [F16Storage.PACKED, F16Storage.NATIVE]
SLICED = WebgpuMatmulConfig(
    block_m=16,
    block_n=32,
    block_k=16,
    tile_m=4,
    tile_n=8,
    unroll_k=4,
    cache=Cache.ROWS,
    prefetch=Prefetch.REGISTERS,
    sliced_k=4,
    split_k=1,
    group_m=1,
)


def held(candidate: Candidate, storage: F16Storage) -> Candidate:
    """Skips the test where the adapter lacks the type."""
    if storage is F16Storage.PACKED:
        return candidate
    if "shader-f16" not in device().features:
        pytest.skip("this adapter has no shader-f16; llvmpipe has (mesa-vulkan-drivers)")
    return with_native_f16(candidate)


@pytest.mark.parametrize("storage", EACH)
@pytest.mark.parametrize("key", KEYS[::2])
def test_operators_are_right_as_they_are_stated(key: str, storage: F16Storage) -> None:
    config = WebgpuElementwiseConfig(threads=64, vectors=1, vec4=storage is F16Storage.NATIVE)
    right(held(config.candidate(Workload.parse(key)), storage))


@pytest.mark.parametrize(
    ("model", "storage"), [("nvidia", h) for h in EACH] + [("swiftshader", h) for h in EACH[:1]]
)
@pytest.mark.parametrize("key", one_in(3, KEYS))
def test_the_best_of_every_space_is_right(key: str, model: str, storage: F16Storage) -> None:
    space = lite_space(Workload.parse(key), TargetKind.WEBGPU, GPU_MODELS[model])
    right(held(space[0], storage))


@pytest.mark.parametrize("storage", EACH)
@pytest.mark.parametrize("config", [SLICED, replace(SLICED, cache=Cache.TRANSPOSED, split_k=2)])
@pytest.mark.parametrize("key", ["matmul+bias:f16:m35k18n68", "batch_matmul_nt:f16:b2m9k32n7"])
def test_threads_share_sums_of_f16(
    key: str, config: WebgpuMatmulConfig, storage: F16Storage
) -> None:
    right(held(config.candidate(Workload.parse(key)), storage))


@pytest.mark.parametrize(
    "key",
    ["softmax:f16:m3n6", "matmul+bias:f16:m5k6n7", "max_pool2d:f16:b1h5w5c4kh3kw3stride1pad1"],
)
def test_the_interpreter_rounds_as_the_kernel_does(key: str) -> None:
    workload = Workload.parse(key)
    steps = gpu_compilation(lite_space(workload, TargetKind.WEBGPU)[0])
    inputs = inputs_of(workload)
    wanted = reference(workload, inputs)
    for programs in (steps.scheduled, steps.optimised):
        output = interpreted(programs, workload, inputs)
        assert output.dtype == np.float16
        assert np.abs(output - wanted).max() <= comparison_tolerance(workload)


GOLDEN = {
    "f16-matmul": "matmul+bias:f16:m6k4n8",
    "f16-odd": "matmul:f16:m3k5n7",
    "f16-softmax": "softmax:f16:m4n8",
}


@pytest.mark.parametrize("storage", EACH)
@pytest.mark.parametrize("name", GOLDEN)
def test_kernels_read_as_recorded(name: str, storage: F16Storage, golden: Golden) -> None:
    config = WebgpuElementwiseConfig(threads=64, vectors=1, vec4=True)
    candidate = held(config.candidate(Workload.parse(GOLDEN[name])), storage)
    golden(f"{name}-{storage}.wgsl", right(candidate).artifact.body.decode())


@pytest.mark.parametrize("key", KEYS)
def test_a_space_has_its_first_configs_both_ways_and_its_first_needs_nothing(key: str) -> None:
    workload = Workload.parse(key)
    space = lite_space(workload, TargetKind.WEBGPU, ANY_GPU)
    assert len({each.candidate_id for each in space}) == len(space) <= 80
    assert "shader-f16" not in space[0].requires
    packed, native = ([each for each in space if f16_storage_of(each) is way] for way in EACH)
    assert set(map(with_native_f16, packed)) <= set(native)
    assert len(packed) == min(len(native), 80 - len(native))


def test_a_candidate_that_hides_what_it_needs_is_refused() -> None:
    workload = Workload.parse("relu:f16:n64")
    native = with_native_f16(
        WebgpuElementwiseConfig(threads=64, vectors=1, vec4=True).candidate(workload)
    )
    with pytest.raises(InvalidSchedule, match="must say shader-f16"):
        gpu_compilation(
            Candidate(
                workload=workload, target=TargetKind.WEBGPU, config=native.config, requires=()
            )
        )
