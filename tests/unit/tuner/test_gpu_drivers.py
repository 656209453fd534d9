"""A driver has to compile little: few decisions in a row, and no more than its model is known
to."""

import pytest

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import ANY_GPU, GPU_MODELS, SOFTWARE_DRIVER, GpuModel, gpu_model
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import gpu_compilation
from services.tuner.ir.affine import Bound, variable
from services.tuner.ir.build import number
from services.tuner.ir.nodes import (
    Assign,
    Block,
    Buffer,
    Expression,
    If,
    Load,
    Loop,
    LoopKind,
    Program,
    Register,
    RegisterRead,
    Scope,
    Store,
)
from services.tuner.ir.rewrite import statements
from services.tuner.passes.if_conversion import (
    MAX_BRANCHES,
    convert_ifs,
    most_branches,
    too_many_branches,
)
from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig
from services.tuner.schedules.registry import lite_space
from services.tuner.schedules.transpose.webgpu_config import WebgpuTransposeConfig
from tests.examples import one_in

SWIFTSHADER = gpu_model("google", "swiftshader")
WINDOWS = (
    "conv2d:f32:b1h17w19c5o7kh3kw3stride2pad1",
    "conv2d:f32:b1h224w224c3o64kh7kw7stride2pad3",
    "conv2d:f32:b1h14w14c16o16kh3kw3stride1pad1",
)
"""None of their first kernels for SwiftShader compiled within minutes, nor within 10 GB."""

OTHERS = (
    "matmul:f32:m4096k4096n4096",
    "matmul:f32:m1k768n50257",
    "matmul_tn:f32:m17k5n9",
    "batch_matmul_nt+scale:f32:b12m384k64n384",
    "depthwise_conv2d:f32:b1h14w14c576kh3kw3stride2pad1",
    "layer_norm:f32:m384n768",
    "transpose:f32:m384n768",
)


def space(key: str, gpu: GpuModel) -> tuple[Candidate, ...]:
    return lite_space(Workload.parse(key), TargetKind.WEBGPU, gpu)


def tiles_of(key: str, gpu: GpuModel) -> list[Candidate]:
    return [one for one in space(key, gpu) if one.family == WebgpuMatmulConfig.family]


def statements_in(candidate: Candidate) -> int:
    """Counts statements as the driver sees them, of all dispatches."""
    made = gpu_compilation(candidate).optimised
    return sum(1 for program in made for _ in statements(program.body.body))


def shared_bytes(candidate: Candidate) -> int:
    for kind in (WebgpuMatmulConfig, WebgpuReductionConfig, WebgpuTransposeConfig):
        if candidate.family == kind.family:
            return kind.of(candidate).workgroup_bytes_for(candidate.workload)
    return 0


@pytest.mark.parametrize("gpu", one_in(4, GPU_MODELS.values()), ids=lambda gpu: gpu.name)
def test_the_largest_and_the_first_kernel_of_every_space_are_within_its_driver(
    gpu: GpuModel,
) -> None:
    for key in WINDOWS[:2]:
        found = tiles_of(key, gpu)
        largest = max(found, key=lambda one: WebgpuMatmulConfig.of(one).statements(one.workload))
        for candidate in (found[0], largest):
            assert statements_in(candidate) <= gpu.driver.statements
            made = gpu_compilation(candidate).optimised
            assert max(map(most_branches, made)) <= MAX_BRANCHES
    for key in (WINDOWS[0], *OTHERS[-4:]):
        assert max(map(shared_bytes, space(key, gpu))) <= gpu.driver.workgroup_bytes


@pytest.mark.parametrize("key", [*WINDOWS, *OTHERS])
def test_the_first_kernel_for_any_gpu_is_one_for_a_driver_without_a_gpu(key: str) -> None:
    first, *_ = space(key, ANY_GPU)
    assert shared_bytes(first) <= SOFTWARE_DRIVER.workgroup_bytes
    assert statements_in(first) <= SOFTWARE_DRIVER.statements


def test_what_a_software_driver_does_not_compile_is_in_spaces_of_gpus() -> None:
    nvidia = GPU_MODELS["nvidia"]
    assert max(map(shared_bytes, space(OTHERS[0], nvidia))) > SOFTWARE_DRIVER.workgroup_bytes
    sides = {dict(one.config).get("tile") for one in space("transpose:f32:m384n768", SWIFTSHADER)}
    assert 32 in sides
    assert 64 not in sides


@pytest.mark.parametrize("key", [*WINDOWS, *OTHERS[:3]])
def test_statements_are_estimated_before_a_kernel_is_lowered(key: str) -> None:
    found = [*tiles_of(key, SWIFTSHADER)[::10], *tiles_of(key, GPU_MODELS["nvidia"])[::24]]
    shares = [
        WebgpuMatmulConfig.of(one).statements(one.workload) / made
        for one in found
        if (made := statements_in(one)) > 150
    ]
    assert all(0.5 <= share <= 2 for share in shares)


# Made by hand: a loop of conditions.

A = Buffer(name="a", scope=Scope.GLOBAL, dtype=DType.F32, size=64)
C = Buffer(name="c", scope=Scope.GLOBAL, dtype=DType.F32, size=64)
I = variable("i")  # noqa: E741 # the loop's own name for it


def bound(limit: int) -> Bound:
    return Bound(index=I, limit=limit)


def assign(name: str, value: Expression) -> Assign:
    return Assign(register=Register(name=name, lanes=1), value=value)


def piece(n: int, *, bounds: int = 1) -> If:
    """DType n where all bounds hold, else 0."""
    load = Load(buffer=A, index=I + n)
    limits = tuple(bound(limit) for limit in range(1, bounds + 1))
    name = f"own{n}"
    return If(bounds=limits, body=(assign(name, load),), otherwise=(assign(name, number(0)),))


def looping(*body: If | Store) -> Program:
    inner = Loop(var="i", extent=8, kind=LoopKind.SERIAL, body=body)
    return Program(
        parameters=(A, C),
        body=Loop(var="group", extent=1, kind=LoopKind.RANGE, body=(inner,)),
    )


def loop_of(program: Program) -> Loop:
    (inner,) = program.body.body
    assert isinstance(inner, Loop)
    return inner


def test_if_conversion_leaves_a_loop_with_few_branches_as_it_is() -> None:
    program = looping(*(piece(n) for n in range(MAX_BRANCHES)))
    assert not too_many_branches(loop_of(program))
    assert convert_ifs(program) is program


@pytest.mark.parametrize(("pieces", "bounds"), [(MAX_BRANCHES + 1, 1), (5, 4)])
def test_if_conversion_assigns_zeros_first_in_a_loop_with_many_branches(
    pieces: int, bounds: int
) -> None:
    program = looping(*(piece(n, bounds=bounds) for n in range(pieces)))
    assert too_many_branches(loop_of(program))
    made = loop_of(convert_ifs(program)).body
    first = piece(0, bounds=bounds)
    assert made[:2] == (*first.otherwise, If(bounds=first.bounds, body=first.body))
    assert most_branches(convert_ifs(program)) == 0


def without_else(block: Block) -> list[bool]:
    return [not one.otherwise for one in block if isinstance(one, If)]


def test_an_else_branch_that_is_read_or_shared_is_not_converted() -> None:
    stored = If(
        bounds=(bound(3),),
        body=(Store(buffer=C, index=I, value=number(1)),),
        otherwise=(Store(buffer=C, index=I, value=number(2)),),
    )
    own = Register(name="sum", lanes=1)
    kept = If(
        bounds=(bound(3),),
        body=(Assign(register=own, value=RegisterRead(register=own)),),
        otherwise=(Assign(register=own, value=number(0)),),
    )
    half = If(bounds=(bound(3),), body=(assign("x", number(1)),), otherwise=piece(1).otherwise)
    program = looping(stored, kept, half, *(piece(n + 2) for n in range(MAX_BRANCHES)))
    made = loop_of(convert_ifs(program)).body
    assert without_else(made) == [False, False, False, *[True] * MAX_BRANCHES]
