"""Row-wise kernels for WebGPU: any threads per row, rows of any length, trees and subgroups."""

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.gpu import ANY_GPU, GPU_MODELS, GpuModel
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.compile import compile_candidate, gpu_compilation
from services.tuner.ir.affine import Bound, variable
from services.tuner.ir.build import under
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.nodes import Allocate, Block, Loop, Scope
from services.tuner.ir.rewrite import statements
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig
from services.tuner.schedules.registry import lite_space
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.reference import reference

KEYS = (
    "softmax:f32:m5n37",
    "softmax:f32:m6n64",
    "layer_norm:f32:m9n29",
    "layer_norm:f32:m3n260",
    "rms_norm:f32:m5n24",
    "rms_norm:f32:m5n24eps3",
    "row_sum:f32:m7n31",
    "row_mean:f32:m3n52",
    "row_max:f32:m4n41",
)


def reduction(
    threads_per_row: int, block_m: int, vectors: int, radix: int = 1, *, subgroups: bool = False
) -> WebgpuReductionConfig:
    return WebgpuReductionConfig(
        threads_per_row=threads_per_row,
        block_m=block_m,
        vectors=vectors,
        radix=radix,
        subgroups=subgroups,
    )


CONFIGS = (
    reduction(8, 4, 2, 2),
    reduction(16, 2, 1, 8),
    reduction(16, 2, 16, 16),
    reduction(1, 5, 4),
    reduction(16, 1, 3, subgroups=True),
    reduction(4, 4, 1, subgroups=True),
)
GOLDEN = {
    "gpu-softmax": ("softmax:f32:m6n36", reduction(8, 4, 2, 4)),
    "gpu-layer-norm-subgroups": ("layer_norm:f32:m5n30", reduction(16, 2, 1, subgroups=True)),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_rows_read_as_recorded_and_are_right(name: str, golden: Golden) -> None:
    key, config = GOLDEN[name]
    steps = right(config.candidate(Workload.parse(key)))
    golden(f"{name}.wgsl", steps.artifact.body.decode())


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("key", KEYS)
def test_every_operator_is_right_for_every_way_to_share_rows(
    key: str, config: WebgpuReductionConfig
) -> None:
    right(config.candidate(Workload.parse(key)))


@pytest.mark.parametrize(
    "config", [reduction(4, 2, 3, 2), reduction(8, 2, 2, subgroups=True)], ids=str
)
def test_the_interpreter_agrees(config: WebgpuReductionConfig) -> None:
    workload = Workload.parse("layer_norm:f32:m3n20")
    steps = gpu_compilation(config.candidate(workload))
    inputs = inputs_of(workload)
    for (program,) in (steps.scheduled, steps.optimised):
        arrays = {t.name: x.ravel() for t, x in zip(workload.tensors, inputs, strict=False)}
        arrays["c"] = np.full(60, np.nan, np.float32)
        interpret(program, arrays, low=0, high=program.body.extent)
        error = np.abs(arrays["c"].reshape(3, 20) - reference(workload, inputs)).max()
        assert error < 1e-5


def test_a_reduction_by_subgroups_stands_where_every_thread_comes() -> None:
    config = reduction(8, 2, 2, subgroups=True)
    (program,) = gpu_compilation(config.candidate(Workload.parse("row_sum:f32:m3n20"))).scheduled
    threads = next(s for s in statements(program.body.body) if isinstance(s, Loop))
    some = under((Bound(index=variable("thread"), limit=3),), threads.body)
    body: Block = (structs.replace(threads, body=some),)
    for statement in statements(program.body.body):
        if isinstance(statement, Allocate) and statement.buffer.scope is Scope.WORKGROUP:
            body = (Allocate(buffer=statement.buffer, body=body),)
    (fault,) = faults(
        structs.replace(program, body=structs.replace(program.body, body=body)), Phase.SCHEDULED
    )
    assert "where not every thread" in fault


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads_per_row": 0}, "threads_per_row=0 and block_m=2 must be"),
        ({"threads_per_row": 3}, "power of two"),
        ({"threads_per_row": 64, "block_m": 64}, "must be from 1 to 1024 threads"),
        ({"block_m": 1 << 40}, "must be from 1 to 1024 threads"),
        ({"vectors": 17}, "from 1 to 16"),
        ({"vectors": -1}, "from 1 to 16"),
        ({"radix": 3}, "radix=3 must be one of"),
        ({"radix": 1}, "radix=1 is for subgroups"),
        ({"subgroups": True}, "radix=1 is for subgroups"),
        ({"threads_per_row": 128}, "more than there is to do"),
        ({"block_m": 32}, "more than there is to do"),
        ({"subgroups": 1}, "must be true or false"),
        ({"threads_per_row": True}, "must be a whole number"),
    ],
)
def test_a_hostile_config_is_refused(changes: dict[str, Setting], message: str) -> None:
    good = reduction(8, 2, 2, 4).candidate(Workload.parse("softmax:f32:m6n36"))
    config = tuple(sorted((dict(good.config) | changes).items()))
    with pytest.raises(InvalidSchedule, match=message):
        compile_candidate(replace(good, config=config))


def test_a_kernel_that_uses_subgroups_says_so() -> None:
    good = reduction(8, 2, 2, subgroups=True).candidate(Workload.parse("softmax:f32:m6n36"))
    assert good.requires == ("subgroups",)
    with pytest.raises(InvalidSchedule, match="it must say subgroups"):
        compile_candidate(replace(good, requires=()))


@pytest.mark.parametrize("gpu", GPU_MODELS.values(), ids=lambda gpu: gpu.name)
@pytest.mark.parametrize(
    "key",
    [
        "softmax:f32:m4608n384",
        "layer_norm:f32:m384n768",
        "softmax:f32:m1n50257",
        "row_max:f32:m1n1",
    ],
)
def test_a_space_is_small_and_its_first_requires_nothing(key: str, gpu: GpuModel) -> None:
    space = lite_space(Workload.parse(key), TargetKind.WEBGPU, gpu)
    assert 1 <= len(space) <= 48
    assert len(set(space)) == len(space)
    assert space[0].requires == ()
    for candidate in space:
        assert WebgpuReductionConfig.of(candidate).candidate(candidate.workload) == candidate


@pytest.mark.parametrize("number", range(0, 30, 6))
def test_candidates_of_a_space_are_right(number: int) -> None:
    space = lite_space(Workload.parse("layer_norm:f32:m70n132"), TargetKind.WEBGPU, ANY_GPU)
    within = [c for c in space if set(c.requires) <= {"subgroups"}]
    right(within[number % len(within)])
