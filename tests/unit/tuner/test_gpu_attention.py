"""Attention over a cache for WebGPU, and other programs that write their inputs, against NumPy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.decoding import (
    AttentionShape,
    argmax,
    attention_shape,
    decode_attention,
)
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.operators.prefill import block_attention, block_attention_shape
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Role, Workload
from kernelzoo.errors import InvalidInput
from services.aggregator.verification import expected, roundings
from services.tuner.compile import gpu_compilation
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.schedules.base.f16_storage import f16_storage_of, with_native_f16
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.block_attention.webgpu_config import (
    WebgpuBlockAttentionConfig,
    WebgpuTiledBlockAttentionConfig,
)
from services.tuner.schedules.decode_attention.webgpu_config import WebgpuDecodeAttentionConfig
from services.tuner.schedules.registry import lite_space, matching
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.gpu_checks import legal
from tests.unit.tuner.gpu_execution import executed

SHAPE = AttentionShape(heads=6, kv_heads=2, head_dim=32, length=150)
GEMMA = replace(SHAPE, scale=0.4, cap=0.7, window=40)
"""Attention as Gemma 2 has it, with numbers that change outputs of seeded inputs."""
CONFIGS = [
    WebgpuDecodeAttentionConfig(threads=threads, parts=parts, subgroups=subgroups)
    for threads, parts, subgroups in ((64, 1, False), (32, 4, False), (128, 3, True))
]


def attended(shape: AttentionShape, inputs: list[Any]) -> list[Any]:
    """Keys and values with the token's, and its output, all in float64."""
    heads, kv_heads, head_dim, length = shape.heads, shape.kv_heads, shape.head_dim, shape.length
    rows, cosines, sines, position, keys, values = (np.asarray(x, np.float64) for x in inputs)
    here = int(np.clip(position[0], 0, length - 1))
    rows = rows.reshape(-1, head_dim)
    low, high = np.split(rows[: heads + kv_heads], 2, axis=1)
    cosine, sine = cosines[here], sines[here]
    rotated = np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=1)
    keys, values = keys.copy(), values.copy()
    keys[:, :, here] = rotated[heads:].reshape(kv_heads, -1, 4)
    values[:, here] = rows[heads + kv_heads :]
    seen = slice(max(0, here + 1 - shape.window) if shape.window else 0, here + 1)
    plain = keys.transpose(0, 2, 1, 3).reshape(kv_heads, length, head_dim)[:, seen]
    output = []
    for head in range(heads):
        group = head // (heads // kv_heads)
        scores = plain[group] @ rotated[head] * (shape.scale or head_dim**-0.5)
        if shape.cap:
            scores = shape.cap * np.tanh(scores / shape.cap)
        powers = np.exp(scores - scores.max())
        output.append(powers / powers.sum() @ values[group, seen])
    return [keys, values, np.concatenate(output)[np.newaxis]]


@pytest.mark.parametrize(
    ("shape", "here"), [(SHAPE, 0), (SHAPE, 77), (SHAPE, 149), (GEMMA, 20), (GEMMA, 77)]
)
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_token_attends_to_those_before_it_and_joins_the_cache(
    config: WebgpuDecodeAttentionConfig, shape: AttentionShape, here: int
) -> None:
    workload = Workload.of_program("decode_attention", decode_attention(shape))
    inputs = inputs_of(workload)
    inputs[3][0] = here
    steps = legal(config.candidate(workload))
    found = executed(steps.artifact, inputs, slices=2)
    for got, wanted in zip(found, attended(shape, inputs), strict=True):
        assert np.abs(got.astype(np.float64) - wanted).max() < 1e-6


HALF_CONFIGS = [
    each
    for program in (
        decode_attention(replace(SHAPE, length=76), DType.F16),
        block_attention(replace(SHAPE, length=76), 20, DType.F16),
    )
    for each in lite_space(Workload.of_program("attention", program), TargetKind.WEBGPU)[::9]
]


@pytest.mark.parametrize("candidate", HALF_CONFIGS, ids=str)
def test_a_cache_of_f16_is_read_and_written_rounded(candidate: Candidate) -> None:
    workload = candidate.workload
    inputs = inputs_of(workload)
    inputs[3][0] = 31
    assert {entries.dtype for entries in inputs[4:]} == {np.dtype(np.float16)}
    right = attended if len(inputs[0]) == 1 else attended_rows
    wanted = right(replace(SHAPE, length=76), inputs)
    *states, output = executed(legal(candidate).artifact, inputs, slices=2)
    for got, exact in zip(states, wanted, strict=False):
        assert got.dtype == np.float16
        # WGSL may round in either direction.
        assert (np.abs(got.astype(np.float64) - exact) <= 2.0**-10 * np.abs(exact) + 2e-7).all()
    error = np.abs(output - wanted[-1]).max()
    assert error <= expected(workload, TargetKind.WEBGPU, 1).tolerances.max() < 1e-3
    assert error <= 2e-5, "a block may read its own keys and values rounded"


@pytest.mark.parametrize("count", [4, 7])
def test_a_state_of_f16_of_any_program_is_written_entry_by_entry(count: int) -> None:
    text = (
        f"state: f16[{count}]\nmore: f32[{count}]\nnext[i: {count}] = state[i] + more[i]\n"
        f"c[i: {count}] = next[i] * 2.0\nstate := next"
    )
    workload = Workload.of_program("sums", parsed(text))
    inputs = inputs_of(workload)
    sums = inputs[0].astype(np.float32) + inputs[1]
    space = lite_space(workload, TargetKind.WEBGPU)
    assert {f16_storage_of(each) for each in space} == set(F16Storage)
    for candidate in (space[0], with_native_f16(space[0])):
        state, output = executed(legal(candidate).artifact, inputs)
        assert np.abs(state.astype(np.float32) - sums).max() <= 2.0**-10
        assert np.abs(output.astype(np.float32) - 2 * sums).max() < 1e-6
    # Kernels are compared by their states, too.
    assert 2 * 2.0**-23 * roundings(workload) > 2.0**-10 * np.abs(sums).max()


def test_a_cache_of_f16_is_for_a_gpu() -> None:
    program = decode_attention(SHAPE, DType.F16)
    assert attention_shape(Workload.of_program("attention", program).program) == SHAPE
    with pytest.raises(InvalidInput, match="f16"):
        lite_space(Workload.of_program("attention", program), TargetKind.WASM)


def test_the_loops_over_tokens_end_at_the_position() -> None:
    workload = Workload.of_program("decode_attention", decode_attention(SHAPE))
    text = gpu_compilation(CONFIGS[0].candidate(workload)).artifact.body.decode()
    loops = [line for line in text.splitlines() if "for (var" in line]
    assert len(loops) == 3
    assert all("- here" in line for line in loops)


def test_attention_is_found_by_its_program_and_its_reports_are_checked() -> None:
    workload = Workload.of_program("decode_attention", decode_attention(SHAPE))
    assert attention_shape(workload.program) == SHAPE
    assert matching(workload, TargetKind.WEBGPU)[0].name == "decode_attention"
    space = lite_space(workload, TargetKind.WEBGPU)
    assert space[0].requires == ()
    roles = [tensor.role for tensor in workload.tensors]
    assert roles == [Role.INPUT] * 4 + [Role.STATE] * 2 + [Role.OUTPUT]
    assert workload.tensors[3].limit == SHAPE.length
    found = expected(workload, TargetKind.WEBGPU, 3)
    assert found.tolerances.max() < 1e-3
    assert roundings(workload) < 1e5


@pytest.mark.parametrize(
    "changes", [{"scale": 0.3}, {"cap": 50.0}, {"window": 3}, {"cap": 0.7, "scale": 1 / 16}]
)
def test_scales_caps_and_windows_are_read_off_a_program(changes: dict[str, Any]) -> None:
    shape = replace(SHAPE, **changes)
    program = Workload.of_program("decode_attention", decode_attention(shape)).program
    assert attention_shape(program) == shape
    program = Workload.of_program("block_attention", block_attention(shape, ROWS)).program
    assert block_attention_shape(program) == (shape, ROWS)


def test_a_negative_score_is_no_such_attention_and_is_computed_as_stated() -> None:
    shape = AttentionShape(heads=2, kv_heads=1, head_dim=8, length=12)
    text = str(decode_attention(shape)).replace("exp(masked", "exp(0.0 - masked")
    workload = Workload.of_program("negative", parsed(text))
    assert [each.name for each in matching(workload, TargetKind.WEBGPU)] == ["elementwise"]


ADVANCE = """state: i32[4]
token: i32[1]
next[i: 4]: i32 = (state[0] + 1 if i == 0 else (token[0] if i == 1 else state[i]))
c[i: 4]: i32 = next[i]
state := next"""


def test_a_program_that_writes_its_input_reads_what_that_held_before() -> None:
    workload = Workload.of_program("advance", parsed(ADVANCE))
    inputs: list[Any] = [np.array([7, 1, 2, 3], np.int32), np.array([42], np.int32)]
    artifact = gpu_compilation(lite_space(workload, TargetKind.WEBGPU)[0]).artifact
    state, output = executed(artifact, inputs)
    assert list(state) == list(output) == [8, 42, 2, 3]
    assert [tensor.role for tensor in artifact.manifest.tensors] == ["state", "input", "output"]


def test_no_kernel_in_javascript_writes_its_inputs() -> None:
    with pytest.raises(InvalidInput, match="no kernels that write their inputs"):
        lite_space(Workload.of_program("advance", parsed(ADVANCE)), TargetKind.JAVASCRIPT)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("state := token", "updates no input by a stage"),
        ("token := next", "updates no input by a stage"),
        ("state := next\nstate := c", "updated twice"),
    ],
)
def test_an_update_is_of_an_input_by_a_stage_of_its_shape(line: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parsed(ADVANCE.replace("state := next", line))


def test_a_hostile_config_is_refused() -> None:
    workload = Workload.of_program("decode_attention", decode_attention(SHAPE))
    for changed, message in (
        (replace(CONFIGS[0], threads=48), "power of two"),
        (replace(CONFIGS[0], parts=0), "from 1 to 150"),
    ):
        assert message in changed.fault(workload)


@pytest.mark.parametrize("count", [40, 1000, 50_257])
def test_the_first_of_the_largest_entries_is_found(count: int) -> None:
    workload = Workload.of_program("argmax", argmax(count))
    space = lite_space(workload, TargetKind.WEBGPU)
    assert {candidate.family for candidate in space} == {"argmax"}
    assert space[0].requires == ()
    (entries,) = inputs_of(workload)
    entries[0, [count // 3, count // 3 + 7, count - 1]] = 0.75
    for candidate in space[:: max(1, len(space) // 4)]:
        steps = legal(candidate)
        (found,) = executed(steps.artifact, [entries], slices=2)
        assert found[0] == count // 3, candidate.config
    assert np.isfinite(expected(workload, TargetKind.WEBGPU, 1).tolerances).all()


ROWS = 20
BLOCK = AttentionShape(heads=6, kv_heads=2, head_dim=32, length=75)
BLOCK_ATTENTION = Workload.of_program("block_attention", block_attention(BLOCK, ROWS))
BLOCK_CONFIGS = [
    WebgpuBlockAttentionConfig(block_m=block_m, threads_per_row=threads, subgroups=subgroups)
    for block_m, threads, subgroups in ((8, 4, False), (2, 16, True), (32, 1, False))
]
TILED_CONFIGS = [
    WebgpuTiledBlockAttentionConfig(
        block_m=block_m,
        block_n=block_n,
        tile_m=4,
        threads_per_row=8,
        sliced_n=sliced_n,
        cache=cache,
        subgroups=subgroups,
    )
    for block_m, block_n, sliced_n, cache, subgroups in (
        (16, 16, 1, Cache.ROWS, False),
        (12, 48, 3, Cache.ROWS, True),
        (8, 16, 2, Cache.NONE, False),
    )
]


def attended_rows(shape: AttentionShape, inputs: list[Any]) -> list[Any]:
    """Rows that have no room are left out."""
    rows, *tables, position, keys, values = inputs
    here, outputs = int(position[0]), []
    for row in range(min(len(rows), shape.length - here)):
        place = np.array([here + row, 0, 0, 0], np.int32)
        keys, values, output = attended(shape, [rows[row : row + 1], *tables, place, keys, values])
        outputs.append(output)
    return [keys, values, np.concatenate(outputs)]


TILED = replace(BLOCK, length=76)
CAPPED = replace(TILED, cap=2.0, scale=0.7)


@pytest.mark.parametrize(
    ("shape", "here", "config"),
    [
        *((BLOCK, here, one) for here in (31, 60) for one in BLOCK_CONFIGS),
        *((TILED, here, one) for here in (31, 60) for one in TILED_CONFIGS),
        *((replace(GEMMA, length=75), 60, one) for one in BLOCK_CONFIGS),
        (CAPPED, 0, TILED_CONFIGS[0]),
    ],
    ids=str,
)
def test_each_row_attends_to_those_before_it_and_all_that_have_room_join_the_cache(
    shape: AttentionShape,
    here: int,
    config: WebgpuBlockAttentionConfig | WebgpuTiledBlockAttentionConfig,
) -> None:
    workload = Workload.of_program("block_attention", block_attention(shape, ROWS))
    inputs = inputs_of(workload)
    inputs[3][0] = here
    steps = legal(config.candidate(workload))
    found = executed(steps.artifact, inputs, slices=2)
    for got, wanted in zip(found, attended_rows(shape, inputs), strict=True):
        assert np.abs(got[: len(wanted)].astype(np.float64) - wanted).max() < 1e-6


def test_attention_of_a_block_is_found_by_its_program_and_its_reports_are_checked() -> None:
    assert block_attention_shape(BLOCK_ATTENTION.program) == (BLOCK, ROWS)
    assert matching(BLOCK_ATTENTION, TargetKind.WEBGPU)[0].name == "block_attention"
    space = lite_space(BLOCK_ATTENTION, TargetKind.WEBGPU)
    assert space[0].requires == ()
    assert expected(BLOCK_ATTENTION, TargetKind.WEBGPU, 3).tolerances.max() < 1e-3
    wide = Workload.of_program("block_attention", block_attention(TILED, ROWS))
    families = {each.family for each in lite_space(wide, TargetKind.WEBGPU)}
    assert families == {"block_attention", "tiled_block_attention"}
    text = gpu_compilation(space[0]).artifact.body.decode()
    (tokens,) = [line for line in text.splitlines() if "for (var step" in line]
    assert "- here" in tokens, "the loop ends at the row's place"


WIDE = AttentionShape(heads=2, kv_heads=1, head_dim=256, length=24, window=8)


@pytest.mark.parametrize("program", [decode_attention(WIDE), block_attention(WIDE, 8)])
def test_heads_of_256_entries_need_no_more_than_every_adapter_has(program: Program) -> None:
    first = lite_space(Workload.of_program("attention", program), TargetKind.WEBGPU)[0]
    assert first.requires == ()
    legal(first)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "right"),
    [(decode_attention(WIDE), attended), (block_attention(WIDE, 8), attended_rows)],
)
def test_heads_of_256_entries_are_right(program: Program, right: Callable[..., list[Any]]) -> None:
    workload = Workload.of_program("attention", program)
    inputs = inputs_of(workload)
    inputs[3][0] = 13
    found = executed(gpu_compilation(lite_space(workload, TargetKind.WEBGPU)[0]).artifact, inputs)
    for got, wanted in zip(found, right(WIDE, inputs), strict=True):
        assert np.abs(got.astype(np.float64) - wanted).max() < 1e-6


def test_a_hostile_config_of_a_block_is_refused() -> None:
    for changed, message in (
        (replace(BLOCK_CONFIGS[0], block_m=9), "threads=36 must be one of"),
        (replace(BLOCK_CONFIGS[0], block_m=1, threads_per_row=64), "from 1 to 32"),
        (replace(BLOCK_CONFIGS[2], subgroups=True), "nothing to add up"),
    ):
        assert message in changed.fault(BLOCK_ATTENTION)
