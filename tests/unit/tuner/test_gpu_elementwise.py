"""Elementwise kernels and transpositions for WebGPU: vectors, strides and tiles of any size."""

from dataclasses import replace

import numpy as np
import pytest

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import compile_candidate
from services.tuner.passes.thread_binding import Stride
from services.tuner.schedules.elementwise.webgpu_config import WebgpuElementwiseConfig
from services.tuner.schedules.registry import lite_space
from services.tuner.schedules.transpose.webgpu_config import WebgpuTransposeConfig
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import reference

Config = WebgpuElementwiseConfig | WebgpuTransposeConfig

GOLDEN: dict[str, tuple[str, Config]] = {
    "gpu-relu-vectors": (
        "relu:f32:n1003",
        WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True),
    ),
    "gpu-relu-grid": (
        "relu:f32:n1003",
        WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True, stride=Stride.GRID),
    ),
    "gpu-concat-vectors": (
        "concat:f32:m5n8k12",
        WebgpuElementwiseConfig(threads=32, vectors=1, vec4=True),
    ),
    "gpu-transpose": ("transpose:f32:m11n38", WebgpuTransposeConfig(tile=16, threads=64)),
}
VECTORS = (
    "gelu:f32:n9001",
    "add:f32:n4096",
    "concat:f32:m70n8k12",
    "slice:f32:m70n40start3size32",
    "pad:f32:m60n8pad4",
    "pad:f32:m60n9pad2",
)
TRANSPOSITIONS = ("transpose:f32:m11n70", "transpose:f32:m64n32", "transpose:f32:m1n5")


@pytest.mark.parametrize("name", GOLDEN)
def test_maps_read_as_recorded_and_are_right(name: str, golden: Golden) -> None:
    key, config = GOLDEN[name]
    steps = right(config.candidate(Workload.parse(key)))
    golden(f"{name}.wgsl", steps.artifact.body.decode())


@pytest.mark.parametrize("vectors", [2, 8])
@pytest.mark.parametrize("key", VECTORS)
def test_several_vectors_to_a_thread_are_right(key: str, vectors: int) -> None:
    right(
        WebgpuElementwiseConfig(threads=32, vectors=vectors, vec4=True).candidate(
            Workload.parse(key)
        )
    )


@pytest.mark.parametrize("stride", Stride)
@pytest.mark.parametrize("key", VECTORS)
def test_vectors_of_a_thread_may_lie_a_workgroup_or_a_grid_apart(key: str, stride: Stride) -> None:
    config = WebgpuElementwiseConfig(threads=32, vectors=4, vec4=True, stride=stride)
    right(config.candidate(Workload.parse(key)))


def test_every_point_of_a_map_is_another_kernel() -> None:
    workload = Workload.parse("tanh:f32:n768")
    space = lite_space(workload, TargetKind.WEBGPU)
    assert len({compile_candidate(candidate).sha256 for candidate in space}) == len(space)


@pytest.mark.parametrize(("tile", "threads"), [(8, 32), (16, 256), (32, 128), (64, 256)])
@pytest.mark.parametrize("key", TRANSPOSITIONS)
def test_tiles_of_any_size_are_transposed(key: str, tile: int, threads: int) -> None:
    right(WebgpuTransposeConfig(tile=tile, threads=threads).candidate(Workload.parse(key)))


def test_neighbours_in_a_column_of_a_tile_are_in_different_banks() -> None:
    """A column of workgroup memory is read by threads side by side."""
    for tile in (8, 16, 32):
        places = {
            row * (WebgpuTransposeConfig(tile=tile, threads=64).elements // tile)
            for row in range(tile)
        }
        assert len({place % 32 for place in places}) == tile


def test_the_interpreter_agrees() -> None:
    workload = Workload.parse("transpose:f32:m11n20")
    steps = right(WebgpuTransposeConfig(tile=8, threads=32).candidate(workload))
    inputs = inputs_of(workload)
    for programs in (steps.scheduled, steps.optimised):
        assert np.array_equal(interpreted(programs, workload, inputs), reference(workload, inputs))


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True), {"vectors": 0}, "from 1 to 8"),
        (WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True), {"vectors": 9}, "from 1 to 8"),
        (
            WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True),
            {"threads": 1},
            "must be one of",
        ),
        (WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True), {"vec4": 1}, "true or false"),
        (
            WebgpuElementwiseConfig(threads=64, vectors=2, vec4=True),
            {"stride": "far"},
            "must be one of",
        ),
        (WebgpuTransposeConfig(tile=16, threads=64), {"tile": 12}, "must be one of"),
        (WebgpuTransposeConfig(tile=16, threads=64), {"threads": 1 << 40}, "must be one of"),
        (WebgpuTransposeConfig(tile=8, threads=64), {"threads": 128}, "1 to 8 rows"),
        (WebgpuTransposeConfig(tile=64, threads=64), {"threads": 32}, "1 to 64 rows"),
        (WebgpuTransposeConfig(tile=16, threads=64), {"sliced_k": 1}, "unknown"),
    ],
)
def test_a_hostile_config_is_refused(
    config: Config, changes: dict[str, Setting], message: str
) -> None:
    good = config.candidate(Workload.parse("transpose:f32:m11n20"))
    settings = tuple(sorted((dict(good.config) | changes).items()))
    with pytest.raises(InvalidSchedule, match=message):
        compile_candidate(replace(good, config=settings))
