"""Compiled candidates against NumPy and the interpreter, bytes against other processes."""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate, Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.codegen.wasm.function import type_faults
from services.tuner.compile import compilation, compile_candidate
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.legality import Phase, faults
from services.tuner.ir.nodes import Program
from services.tuner.passes.address_strength_reduction import reduce_address_strength
from services.tuner.passes.fma_contraction import contract_fma
from services.tuner.passes.loop_partition import partition_loops
from services.tuner.passes.pipeline import PassSwitches
from services.tuner.passes.scalar_replacement import promote_to_registers
from services.tuner.passes.unrolling import unroll
from services.tuner.passes.vectorise import vectorise_inner_loops
from services.tuner.schedules.base.wasm_config import Pack
from services.tuner.schedules.matmul.config import Outer
from services.tuner.schedules.registry import lite_space, scheduled
from tests.examples import examples
from tests.unit.tuner.candidates import MODELS, contraction, lite_candidates, schedule
from tests.unit.tuner.execution import Floats, execute, expected, inputs_of, module

ODD = contraction(13, 7, 23)


def assert_right(candidate: Candidate, output: Floats) -> None:
    error = np.abs(output - expected(inputs_of(candidate.workload))).max()
    assert error <= comparison_tolerance(candidate.workload)


@given(candidate=lite_candidates(70))
@settings(max_examples=examples(120), deadline=None, derandomize=True)
def test_every_lite_candidate_of_every_shape_equals_numpy(candidate: Candidate) -> None:
    assert_right(candidate, execute(compile_candidate(candidate), inputs_of(candidate.workload)))


@pytest.mark.parametrize(("pack", "outer"), [*product((Pack.NONE,), "mn"), (Pack.KERNEL, "n")])
def test_a_last_block_may_be_smaller(pack: Pack, outer: str) -> None:
    workload = contraction(23, 11, 41)
    candidate = schedule(workload, (4, 8), block=(12, 24), pack=pack, outer=Outer(outer))
    assert compile_candidate(candidate).manifest.range_extent == 2
    assert_right(candidate, execute(compile_candidate(candidate), inputs_of(workload)))


def stages(candidate: Candidate) -> dict[Phase, Program]:
    made = scheduled(candidate)
    (nest,) = made.nests
    partitioned = partition_loops(contract_fma(nest) if made.options.fma else nest)
    if made.options.vectors:
        partitioned = vectorise_inner_loops(partitioned, made.options.vectors)
    expanded = unroll(partitioned)
    registered = promote_to_registers(expanded)
    return {
        Phase.SCHEDULED: nest,
        Phase.PARTITIONED: partitioned,
        Phase.UNROLLED: expanded,
        Phase.SCALAR_REPLACED: registered,
        Phase.STRENGTH_REDUCED: reduce_address_strength(registered),
    }


@given(candidate=lite_candidates(9))
@settings(max_examples=examples(25), deadline=None, derandomize=True)
def test_the_interpreter_agrees_with_numpy_after_every_pass(candidate: Candidate) -> None:
    inputs = inputs_of(candidate.workload)
    for stage, program in stages(candidate).items():
        assert faults(program, stage) == ()
        output = np.full(candidate.workload.output.elements, np.nan, np.float32)
        flat = {"a": inputs[0].ravel(), "b": inputs[1].ravel(), "c": output}
        interpret(program, flat, low=0, high=program.body.extent)
        assert_right(candidate, output.reshape(candidate.workload.output.shape))


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_every_stage_of_a_model_workload_is_legal(workload: Workload) -> None:
    for candidate in lite_space(workload, TargetKind.WASM)[::5]:
        for stage, program in stages(candidate).items():
            assert faults(program, stage) == ()


@pytest.mark.parametrize(
    "off", ["offset_immediate", "load_splat", "scalar_replacement", "strength_reduction"]
)
@pytest.mark.parametrize("pack", [Pack.NONE, Pack.KERNEL])
def test_a_kernel_is_right_with_any_one_pass_switched_off(off: str, pack: Pack) -> None:
    switches = replace(PassSwitches(), **{off: False})
    candidate = schedule(
        ODD, (4, 8), block=(4, 24), unroll_k=2, pack=pack, fma=True, outer=Outer.COLUMNS
    )
    steps = compilation(candidate, switches)
    assert type_faults(steps.function) == ()
    assert_right(candidate, execute(steps.artifact, inputs_of(ODD)))


def test_every_combination_of_passes_gives_different_and_right_code() -> None:
    candidate = schedule(ODD, (3, 8), unroll_k=2)
    bodies = set()
    for offset, combined, variable, hoist_on in product((False, True), repeat=4):
        switches = PassSwitches(
            offset_immediate=offset,
            load_splat=combined,
            scalar_replacement=variable,
            strength_reduction=hoist_on,
        )
        artifact = compilation(candidate, switches).artifact
        bodies.add(artifact.sha256)
        assert_right(candidate, execute(artifact, inputs_of(ODD)))
    assert len(bodies) == 16


@pytest.mark.parametrize(
    "candidate",
    [
        schedule(contraction(30, 16, 20), (4, 8)),
        schedule(contraction(30, 16, 20), (4, 8), pack=Pack.KERNEL, outer=Outer.COLUMNS),
        schedule(contraction(5, 9, 8, 16), (3, 8), outer=Outer.BATCH),
        schedule(contraction(2, 9, 8, 16), (3, 8), pack=Pack.KERNEL, outer=Outer.COLUMNS),
        schedule(contraction(2, 9, 8, 16), (3, 8)),
    ],
    ids=("rows", "packed columns", "batch", "packed columns of a batch", "rows of a batch"),
)
def test_slices_of_the_range_compose_in_any_order(candidate: Candidate) -> None:
    artifact = compile_candidate(candidate)
    extent = artifact.manifest.range_extent
    assert extent > 1
    halves = ((extent // 2, extent), (0, extent // 2), (0, 0), (extent, extent))
    inputs = inputs_of(candidate.workload)
    assert np.array_equal(execute(artifact, inputs, halves), execute(artifact, inputs))


def test_a_slice_writes_its_own_part_of_the_output_alone() -> None:
    candidate = schedule(contraction(12, 4, 8), (4, 8))
    output = execute(compile_candidate(candidate), inputs_of(candidate.workload), ((1, 2),))
    assert np.isnan(output[:4]).all()
    assert not np.isnan(output[4:8]).any()
    assert np.isnan(output[8:]).all()


def test_the_manifest_says_what_a_caller_needs() -> None:
    packed = schedule(
        contraction(30, 16, 20), (4, 8), pack=Pack.KERNEL, fma=True, outer=Outer.COLUMNS
    )
    manifest = compile_candidate(packed).manifest
    assert (manifest.abi, manifest.target) == (1, TargetKind.WASM)
    assert manifest.requires == ("relaxed-simd", "simd128")
    assert manifest.tensors == packed.workload.tensors
    assert manifest.scratch_bytes == 16 * 8 * 4
    assert manifest.range_extent == 3
    assert compile_candidate(schedule(ODD, (4, 8))).manifest.scratch_bytes == 0


@pytest.mark.parametrize("workload", MODELS, ids=lambda workload: workload.key)
def test_every_point_of_a_model_workload_compiles_to_a_valid_small_module(
    workload: Workload,
) -> None:
    for candidate in lite_space(workload, TargetKind.WASM):
        artifact = compile_candidate(candidate)
        module(artifact.body)
        assert len(artifact.body) < 10_000
        assert artifact.manifest.range_extent >= 4


def test_the_first_candidates_of_the_attention_products_equal_numpy() -> None:
    for workload in MODELS[2:]:
        for candidate in lite_space(workload, TargetKind.WASM)[:2]:
            assert_right(candidate, execute(compile_candidate(candidate), inputs_of(workload)))


_DIGESTS = """
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
KEYS = (
    "matmul:f32:m13k7n23",
    "batch_matmul:f32:b12m384k384n64",
    "matmul+bias+gelu:f32:m2k8n64",
    "conv2d+bias:f32:b1h9w7c4o8kh3kw3stride1pad1",
    "softmax:f32:m5n13",
    "gelu:f32:n700",
)
for key in KEYS:
    for candidate in lite_space(Workload.parse(key), TargetKind.WASM)[::7]:
        print(candidate.candidate_id, compile_candidate(candidate).sha256)
"""


def test_the_same_candidate_gives_the_same_bytes_in_every_process() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1", "4294967295")
    ]
    first, *others = (process.communicate()[0] for process in processes)
    assert first.count("\n") >= 8
    assert others == [first, first]


def _with(candidate: Candidate, **settings_: Setting) -> Candidate:
    config = {**dict(candidate.config), **settings_}
    return replace(candidate, config=tuple(sorted(config.items())))


GOOD = schedule(contraction(64, 64, 64), (4, 8))


@pytest.mark.parametrize(
    ("candidate", "sentence"),
    [
        (_with(GOOD, tile_m=0), "start at 1"),
        (_with(GOOD, tile_n=-4), "start at 1"),
        (_with(GOOD, tile_n=6), "in multiples of 4"),
        (_with(GOOD, tile_m=1 << 30), "at most 128 entries"),
        (_with(GOOD, unroll_k=1 << 30), "1073741824 unrolled terms are too many"),
        (_with(GOOD, unroll_k=64), "64 unrolled terms are too many"),
        (_with(GOOD, block_m=10), "block_m=10 must be whole tiles of 4 within 64"),
        (_with(GOOD, block_n=20), "block_n=20 must be whole tiles of 8 within 64"),
        (_with(GOOD, block_n=1 << 40), "whole tiles"),
        (_with(GOOD, outer="b"), "needs a batch axis"),
        (_with(GOOD, outer="k"), "must be one of b, m, n"),
        (_with(GOOD, pack="kernel"), "pack again for every block"),
        (_with(GOOD, pack=1), "pack must be one of"),
        (_with(GOOD, tile_m=True), "tile_m must be a whole number"),
        (_with(GOOD, tile_m="4"), "tile_m must be a whole number"),
        (_with(GOOD, fma=1), "fma must be true or false"),
        (_with(GOOD, loops=3), "'loops' is unknown"),
        (replace(GOOD, config=GOOD.config[1:]), "is unknown, missing"),
        (replace(GOOD, config=GOOD.config[::-1]), "out of order"),
        (replace(GOOD, config=(*GOOD.config, GOOD.config[-1])), "repeated"),
        (replace(GOOD, config=()), "missing"),
        (_with(GOOD, fma=True), "must say relaxed-simd, simd128"),
        (replace(GOOD, requires=()), "it requires nothing"),
        (
            replace(GOOD, target=TargetKind.WEBGPU),
            "a wasm candidate is no schedule for webgpu|is unknown, missing",
        ),
    ],
)
def test_a_hostile_config_is_refused_in_one_sentence(candidate: Candidate, sentence: str) -> None:
    with pytest.raises(InvalidSchedule, match=sentence) as refusal:
        compile_candidate(candidate)
    assert "\n" not in str(refusal.value)


def test_packing_more_than_a_call_may_use_is_refused() -> None:
    wide = schedule(
        contraction(64, 60_000, 1024),
        (4, 8),
        block=(4, 512),
        pack=Pack.KERNEL,
        outer=Outer.COLUMNS,
    )
    with pytest.raises(InvalidSchedule, match="packing 60000x512 at once is too much"):
        compile_candidate(wide)


def test_equal_artifacts_have_equal_identities() -> None:
    one, other = compile_candidate(GOOD), compile_candidate(GOOD)
    assert one == other
    assert one == Artifact.of(one.body, one.manifest)
