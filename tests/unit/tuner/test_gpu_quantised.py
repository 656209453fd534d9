"""Products with quantised weights for WebGPU, their norms, gates and epilogues, against NumPy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.operators.decoding import gated_product, normed_product
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.quantised import Form
from kernelzoo.domain.target import UNIT, TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, InvalidSchedule
from services.aggregator.verification import expected, roundings
from services.tuner.compile import compile_candidate, gpu_compilation
from services.tuner.ir.legality import Phase, faults
from services.tuner.schedules.quantised_gemv.webgpu_config import WebgpuQuantisedGemvConfig
from services.tuner.schedules.registry import lite_space, matching
from tests.snapshots import Golden
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import right
from tests.unit.tuner.gpu_execution import execute_gpu, execute_on_gpu
from tests.unit.tuner.gpu_reference import interpreted
from tests.unit.tuner.reference import dequantised, reference

Doubles = NDArray[np.float64]
GOLDEN = WebgpuQuantisedGemvConfig(
    threads=32, threads_per_row=8, tile_n=2, block_k=64, subgroups=False
)
KEYS = (
    "matmul_q4+bias+residual:f32:m1k96n11",
    "matmul_q4:f16:m1k160n7",
    "matmul_q4z:f32:m3k288n6",
    "matmul_q8+silu:f32:m2k64n9:constant=b",
    "matmul_q4:f32:m8k128n5",
    "matmul_q8z:f32:m1k160n7",
    # Blocks that are parts of what a thread takes at once, or have a shorter last one.
    "matmul_q4z:f32:m2k96n7block16",
    "matmul_q8z+bias:f32:m1k96n7block16",
    "matmul_q8:f32:m2k288n5block64",
    "matmul_q4z:f32:m1k1184n5block128",
    "matmul_q4:f32:m1k32n5block256",
)


MANY_ROWS = (
    "matmul_q4+bias+residual:f32:m13k96n37",
    "matmul_q4:f16:m33k64n20",
    "matmul_q4z+residual:f32:m20k288n72",
    "matmul_q8+silu:f32:m9k64n130",
    "matmul_q8z:f32:m9k288n20",
    "matmul_q4z:f32:m9k96n21block16",
    "matmul_q8z:f32:m9k96n21block16",
    "matmul_q4z:f32:m9k1184n21block128",
)
GATHERS = (
    "gather_q4z:f32:m3k7n288",
    "gather_q8:f32:m3k7n64block16",
    "gather_q8z:f32:m3k7n160block128",
)


def normed(a: NDArray[np.float32], gamma: NDArray[np.float32], epsilon: float) -> Doubles:
    wide = a.astype(np.float64)
    return np.asarray(wide / np.sqrt((wide * wide).mean(1, keepdims=True) + epsilon) * gamma)


def silu(x: Doubles) -> Doubles:
    return np.asarray(x / (1 + np.exp(-x)))


def gelu_tanh(x: Doubles) -> Doubles:
    return np.asarray(x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))))


def gated(
    rows: Doubles, weights: Doubles, activated: Callable[[Doubles], Doubles] = silu
) -> Doubles:
    gate, up = np.split(rows @ weights.T, 2, axis=1)
    return np.asarray(activated(gate) * up)


PROGRAMS: dict[str, tuple[Program, Callable[..., Doubles]]] = {
    "norm": (
        normed_product(2, 96, 21, epsilon=1e-6, bias=True),
        lambda a, gamma, w, s, bias: normed(a, gamma, 1e-6) @ dequantised(w, s).T + bias,
    ),
    "capped_norm": (
        normed_product(1, 64, 20, epsilon=1e-6, cap=0.5),
        lambda a, gamma, w, s: 0.5 * np.tanh(normed(a, gamma, 1e-6) @ dequantised(w, s).T / 0.5),
    ),
    "gate": (gated_product(1, 64, 20), lambda a, w, s: gated(a, dequantised(w, s))),
    "gate_of_many_rows": (
        gated_product(19, 64, 20),
        lambda a, w, s: gated(a, dequantised(w, s)),
    ),
    "tanh_gate": (
        gated_product(1, 64, 20, gate="gelu_tanh"),
        lambda a, w, s: gated(a, dequantised(w, s), gelu_tanh),
    ),
    "norm_gate": (
        gated_product(1, 576, 6, epsilon=1e-5),
        lambda a, gamma, w, s: gated(normed(a, gamma, 1e-5), dequantised(w, s)),
    ),
    "norm_of_zero_points": (
        normed_product(1, 288, 21, epsilon=1e-6, bias=True, form=Form(zeros=True)),
        lambda a, gamma, w, s, z, bias: normed(a, gamma, 1e-6) @ dequantised(w, s, z).T + bias,
    ),
    "norm_gate_of_zero_points": (
        gated_product(1, 288, 6, epsilon=1e-5, form=Form(zeros=True)),
        lambda a, gamma, w, s, z: gated(normed(a, gamma, 1e-5), dequantised(w, s, z)),
    ),
    "gate_of_many_rows_of_zero_points": (
        gated_product(19, 288, 20, form=Form(zeros=True)),
        lambda a, w, s, z: gated(a, dequantised(w, s, z)),
    ),
    "norm_gate_of_bytes": (
        gated_product(1, 288, 6, epsilon=1e-5, form=Form(width=8, block=128, zeros=True)),
        lambda a, gamma, w, s, z: gated(
            normed(a, gamma, 1e-5), dequantised(w, s, z, width=8, block=128)
        ),
    ),
}


def test_a_gemv_of_four_bits_reads_as_recorded(golden: Golden) -> None:
    workload = Workload.parse("matmul_q4+bias:f32:m1k128n13")
    steps = right(GOLDEN.candidate(workload))
    golden("gpu-quantised-gemv.wgsl", steps.artifact.body.decode())


@pytest.mark.parametrize("key", KEYS)
def test_products_of_few_rows_are_right(key: str) -> None:
    workload = Workload.parse(key)
    space = lite_space(workload, TargetKind.WEBGPU)
    assert {candidate.family for candidate in space} == {"quantised_gemv"}
    assert space[0].requires == ()
    for candidate in space[:: max(1, len(space) // 5)]:
        right(candidate)


@pytest.mark.parametrize("key", MANY_ROWS)
def test_products_of_many_rows_are_right(key: str) -> None:
    workload = Workload.parse(key)
    space = lite_space(workload, TargetKind.WEBGPU)
    assert {candidate.family for candidate in space} == {"quantised_matmul"}
    assert space[0].requires == ()
    for candidate in space[:: max(1, len(space) // 3)]:
        right(candidate)


def test_workgroups_share_k_where_blocks_alone_leave_cores_idle() -> None:
    """A prompt's 128 rows and 2,048 columns are 64 blocks; an H200 has 132 cores."""
    workload = Workload.parse("matmul_q4+residual:f32:m128k8192n2048")
    splits = [
        dict(lite_space(workload, TargetKind.WEBGPU, gpu_model(*gpu))[0].config)["split_k"]
        for gpu in (("nvidia", "hopper"), ("google", "swiftshader"))
    ]
    assert splits == [16, 1]


def test_shares_of_k_are_added_up() -> None:
    workload = Workload.parse("matmul_q4z+residual:f32:m20k288n72")
    space = lite_space(workload, TargetKind.WEBGPU)
    shared = next(each for each in space if dict(each.config)["split_k"] == 3)
    assert len(right(shared).artifact.manifest.dispatches) == 2


@pytest.mark.parametrize(
    ("vendor", "architecture", "blocks"),
    [
        ("nvidia", "hopper", (32, 16)),
        ("apple", "metal-3", (64, 64)),
        ("google", "swiftshader", (32, 16)),
    ],
)
def test_blocks_of_many_rows_are_as_large_as_leaves_cores_busy(
    vendor: str, architecture: str, blocks: tuple[int, int]
) -> None:
    workload = Workload.parse("matmul_q4:f32:m64k64n576")
    first = lite_space(workload, TargetKind.WEBGPU, gpu_model(vendor, architecture))[0]
    settings = dict(first.config)
    assert (settings["block_m"], settings["block_n"]) == blocks


def test_a_long_product_of_a_prompt_has_a_candidate_that_every_driver_compiles() -> None:
    workload = Workload.parse("matmul_q4+residual:f32:m128k8192n2048")
    first = lite_space(workload, TargetKind.WEBGPU)[0]
    small = lite_space(workload, TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    assert first.requires == ()
    assert first.config in {each.config for each in small}


@pytest.mark.parametrize("name", PROGRAMS)
def test_norms_before_and_gates_behind_products_are_one_kernel_and_right(name: str) -> None:
    program, compute = PROGRAMS[name]
    workload = Workload.of_program(name, program)
    family = "quantised_matmul" if "many" in name else "quantised_gemv"
    assert matching(workload, TargetKind.WEBGPU)[0].name == family
    inputs = inputs_of(workload)
    wanted = compute(*inputs)
    tolerance = UNIT[TargetKind.WEBGPU] * roundings(workload)
    space = lite_space(workload, TargetKind.WEBGPU)
    for candidate in space[:: max(1, len(space) // 5)]:
        steps = gpu_compilation(candidate)
        assert not any(faults(each, Phase.SCHEDULED) for each in steps.scheduled)
        parts = dict(candidate.config).get("split_k", 1)
        assert len(steps.artifact.manifest.dispatches) == (1 if parts == 1 else 2)
        output = execute_gpu(steps.artifact, inputs, slices=2)
        assert np.abs(output - wanted).max() <= min(tolerance, 1e-3), candidate.config


@pytest.mark.parametrize("key", GATHERS)
def test_rows_of_a_quantised_table_are_right(key: str) -> None:
    workload = Workload.parse(key)
    table: list[NDArray[Any]] = inputs_of(workload)[:-1]
    given, within = ([*table, np.array([6, 0, last], np.int32)] for last in (9, 6))
    candidate = lite_space(workload, TargetKind.WEBGPU)[0]
    output = execute_on_gpu(gpu_compilation(candidate).artifact, given, slices=2)
    assert np.abs(output.astype(np.float64) - reference(workload, within)).max() < 1e-5


def test_reports_of_a_gated_product_are_checked_entry_by_entry() -> None:
    program, _ = PROGRAMS["norm_gate"]
    found = expected(Workload.of_program("norm_gate", program), TargetKind.WEBGPU, 5)
    assert np.isfinite(found.tolerances).all()
    assert (found.tolerances < 0.01 * np.abs(found.entries).max()).all()


@pytest.mark.parametrize("subgroups", [False, True])
def test_the_interpreter_agrees(subgroups: bool) -> None:
    workload = Workload.parse("matmul_q4z:f32:m2k64n5")
    steps = right(replace(GOLDEN, subgroups=subgroups).candidate(workload))
    inputs = inputs_of(workload)
    for programs in (steps.scheduled, steps.optimised):
        output = interpreted(programs, workload, inputs)
        assert np.abs(output - reference(workload, inputs)).max() < 1e-4


def test_rows_that_are_no_whole_blocks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="k=100 of matmul_q4 must be a multiple of 32"):
        Workload.parse("matmul_q4:f32:m1k100n5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threads": 48}, "must be one of"),
        ({"threads_per_row": 64}, "must be a power of two from 1 to 32"),
        ({"threads_per_row": 3}, "power of two"),
        ({"tile_n": 0}, "keep 0 or more than"),
        ({"block_k": 96}, "divides 128"),
        ({"subgroups": 1}, "true or false"),
    ],
)
def test_a_hostile_config_is_refused(changes: dict[str, Setting], message: str) -> None:
    good = GOLDEN.candidate(Workload.parse("matmul_q4:f32:m1k128n13"))
    settings = tuple(sorted((dict(good.config) | changes).items()))
    with pytest.raises(InvalidSchedule, match=message):
        compile_candidate(replace(good, config=settings))
