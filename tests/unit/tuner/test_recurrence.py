"""Recurrences on every target: all their schedules, slices in any order, the check of reports."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.operators.recurrence import outer_axes
from kernelzoo.domain.seeded import sampled_positions
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.entries import entries
from kernelzoo.numerics.stages import run_program
from services.aggregator.verification import expected, input_values, judge, roundings
from services.tuner.compile import compile_candidate
from services.tuner.schedules.recurrence.webgpu_config import SHARED_BYTES, WebgpuRecurrenceConfig
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute, inputs_of
from tests.unit.tuner.gpu_checks import legal as legal_on_gpu
from tests.unit.tuner.gpu_execution import execute_gpu
from tests.unit.tuner.javascript_execution import Run
from tests.unit.tuner.javascript_execution import executed as executed_in_javascript
from tests.unit.tuner.wasm_checks import legal

Floats = NDArray[np.float32]
TOLERANCE = 2e-6

LSTM = """
x: f32[{steps}, {batch}, {ways}, {columns}]
r: f32[{ways}, {size}, {columns}]
h: f32[{ways}, {batch}, {size}]
s[t: {steps}, d: {ways}, b: {batch}, n: {columns}] = sum over k: {size} of {before} * r[d, k, n]
c[t: {steps}, d: {ways}, b: {batch}, j: {size}] = {forget} * {cell} + {enter} * {new}
y[t: {steps}, d: {ways}, b: {batch}, j: {size}] = sigmoid({leave}) * tanh(c[t, d, b, j])
"""


def lstm(steps: int, ways: int, batch: int, size: int) -> Workload:
    def gate(number: int) -> str:
        column = f"j + {number * size}" if number else "j"
        enters = f"x[t, b, d, {column}]"
        if ways > 1:
            enters = f"({enters} if d < 1 else x[{steps - 1} - t, b, d, {column}])"
        return f"{enters} + s[t, d, b, {column}] * {1 / 64}"

    text = LSTM.format(
        steps=steps,
        ways=ways,
        batch=batch,
        size=size,
        columns=4 * size,
        before="(y[t - 1, d, b, k] if 0 < t else h[d, b, k])",
        cell="(c[t - 1, d, b, j] if 0 < t else 0.0)",
        enter=f"sigmoid({gate(0)})",
        leave=gate(1),
        forget=f"sigmoid({gate(2)})",
        new=f"tanh({gate(3)})",
    )
    return Workload.of_program("lstm", parsed(text.strip()))


def stated(text: str) -> Workload:
    return Workload.of_program("test", parsed(text.strip()))


RECURRENCES = {
    "both directions of a batch": lstm(7, 2, 3, 5),
    "one step": lstm(1, 1, 1, 8),
    "rows that share their weights": lstm(9, 1, 4, 12),
    "columns that are no vectors": lstm(10, 1, 2, 33),
    "what a product takes is a stage of the step": stated("""
x: f32[6, 2, 8]
r: f32[8, 8]
s0[t: 6, b: 2, j: 8] = sigmoid(x[t, b, j]) * (s2[t - 1, b, j] if 0 < t else 0.0)
s1[t: 6, b: 2, j: 8] = sum over k: 8 of s0[t, b, k] * r[k, j]
s2[t: 6, b: 2, j: 8] = tanh(s1[t, b, j] + x[t, b, j]) * 0.5
"""),
    "a sum of one axis": stated("""
x: f32[40]
s0[i: 40] = x[i] + (s0[i - 1] if 0 < i else 0.0)
"""),
    "weights that each of a batch has": stated("""
x: f32[5, 3, 6]
r: f32[3, 6, 6]
s0[t: 5, b: 3, j: 6] = sum over k: 6 of (s1[t - 1, b, k] if 0 < t else 0.25) * r[b, k, j]
s1[t: 5, b: 3, j: 6] = tanh(s0[t, b, j] + x[t, b, j])
"""),
    "integers, and the largest of a step": stated("""
x: f32[9, 4, 7]
n: i32[4]
s0[t: 9, b: 4] = max over k: 7 of x[t, b, k] + (s2[t - 1, b] if 0 < t else 0.0)
s1[t: 9, b: 4]: i32 = (s1[t - 1, b] if 0 < t else 0) + (1 if 0.0 < s0[t, b] else 0)
s2[t: 9, b: 4] = (s0[t, b] * 0.5 if t < n[b] else real(s1[t, b]))
"""),
    "entries that mix along the last axis": stated("""
x: f32[6, 3, 5]
s0[t: 6, b: 3, j: 5] = x[t, b, j] + (s0[t - 1, b, 4 - j] * 0.5 if 0 < t else 1.0)
"""),
    "an output of two parts": stated("""
x: f32[4, 2, 8]
s0[t: 4, b: 2, j: 8] = tanh(x[t, b, j] + (s0[t - 1, b, j] if 0 < t else 0.0))
s1[t: 4, b: 2, p: 2, j: 8] = (s0[t, b, j] if p < 1 else (s1[t - 1, b, 0, j] if 0 < t else 1.0))
"""),
}  # fmt: skip


def right_values(workload: Workload, inputs: list[Floats]) -> NDArray[np.float64]:
    def lookup(number: int, at: NDArray[np.int64]) -> NDArray[np.float64]:
        return inputs[number].ravel()[at].astype(np.float64)

    made = entries(workload.program, np.arange(workload.output.elements), lookup)
    return made.reshape(workload.output.shape)


@pytest.mark.parametrize("name", RECURRENCES)
def test_both_evaluations_agree(name: str) -> None:
    workload = RECURRENCES[name]
    inputs = inputs_of(workload)
    made = run_program(workload.program, [np.array(each) for each in inputs])
    np.testing.assert_allclose(made, right_values(workload, inputs), rtol=1e-6, atol=1e-6)


def test_an_lstm_is_what_its_equations_say() -> None:
    workload = RECURRENCES["both directions of a batch"]
    x, r, h = (each.astype(np.float64) for each in inputs_of(workload))
    size = h.shape[-1]
    states, cells = h.copy(), np.zeros(h.shape)
    made = []
    for step in range(len(x)):
        for way in range(2):
            place = step if way == 0 else len(x) - 1 - step
            total = x[place, :, way] + states[way] @ r[way] / 64
            gates = [total[:, n * size : (n + 1) * size] for n in range(4)]
            enter, leave, keep = (1 / (1 + np.exp(-gate)) for gate in gates[:3])
            cells[way] = keep * cells[way] + enter * np.tanh(gates[3])
            states[way] = leave * np.tanh(cells[way])
        made.append(states.copy())
    np.testing.assert_allclose(right_values(workload, inputs_of(workload)), made, atol=1e-12)


@pytest.mark.parametrize("name", RECURRENCES)
def test_every_schedule_of_wasm_is_right_whatever_slices_run_first(name: str) -> None:
    workload = RECURRENCES[name]
    inputs = inputs_of(workload)
    wanted = right_values(workload, inputs)
    for candidate in lite_space(workload, TargetKind.WASM):
        assert candidate.family == "recurrence"
        artifact = legal(candidate).artifact
        output = execute(artifact, inputs)
        assert np.abs(output - wanted).max() <= TOLERANCE, candidate.config
        extent = artifact.manifest.range_extent
        halves = ((extent // 2, extent), (0, extent // 2))
        assert np.array_equal(execute(artifact, inputs, halves), output)


def on_gpu(workload: Workload) -> tuple[Candidate, ...]:
    return tuple(each for each in lite_space(workload, TargetKind.WEBGPU) if not each.requires)


@pytest.mark.parametrize("name", RECURRENCES)
def test_every_schedule_of_webgpu_is_right(name: str) -> None:
    workload = RECURRENCES[name]
    inputs = inputs_of(workload)
    wanted = right_values(workload, inputs)
    for candidate in on_gpu(workload):
        output = execute_gpu(legal_on_gpu(candidate).artifact, inputs, slices=2)
        assert np.abs(output - wanted).max() <= TOLERANCE, candidate.config


def test_a_state_without_room_in_workgroup_memory_lies_in_scratch_memory() -> None:
    workload = lstm(3, 1, 2, 600)
    inputs = inputs_of(workload)
    wanted = right_values(workload, inputs)
    for size in SHARED_BYTES:
        config = WebgpuRecurrenceConfig(threads=256, vec4=True, shared_bytes=size)
        assert 0 < config.workgroup_bytes_for(workload) <= size
        artifact = legal_on_gpu(config.candidate(workload)).artifact
        assert artifact.manifest.scratch_bytes > 0
        assert "storageBarrier();" in artifact.body.decode()
        assert np.abs(execute_gpu(artifact, inputs) - wanted).max() <= 3e-6


def test_javascript_is_right(tmp_path: Path) -> None:
    inputs = {name: inputs_of(workload) for name, workload in RECURRENCES.items()}
    runs = {
        name: Run(
            artifact=compile_candidate(lite_space(workload, TargetKind.JAVASCRIPT)[0]),
            inputs=inputs[name],
        )
        for name, workload in RECURRENCES.items()
    }
    for name, output in executed_in_javascript(runs, tmp_path).items():
        wanted = right_values(RECURRENCES[name], inputs[name])
        assert np.abs(output.reshape(wanted.shape) - wanted).max() <= TOLERANCE, name


def test_slices_are_made_of_axes_along_which_no_stage_reads_another() -> None:
    found = {name: outer_axes(workload.program) for name, workload in RECURRENCES.items()}
    assert found["both directions of a batch"] == 2
    assert found["a sum of one axis"] == 0
    assert found["entries that mix along the last axis"] == 1


def test_a_wrong_entry_is_found_at_every_step() -> None:
    """Errors do not grow from step to step, as the weights are divided by a power of two."""
    workload = lstm(50, 1, 1, 32)
    right = expected(workload, TargetKind.WASM, seed=3)
    assert right.tolerances.max() < 2e-5
    assert judge(right.entries.tolist(), right).detail == ""
    for place in range(right.entries.size):
        reported = right.entries.copy()
        reported[place] += 1e-4
        assert "off by" in judge(reported.tolist(), right).detail


def test_bounds_of_a_recurrence_whose_errors_grow_end_with_what_its_functions_can_be() -> None:
    text = str(lstm(60, 1, 1, 64).program).replace(f" * {1 / 64}", "")
    workload = Workload.of_program("lstm", parsed(text))
    assert np.isfinite(roundings(workload))
    assert np.isfinite(expected(workload, TargetKind.WASM, seed=1).tolerances).all()


def test_inputs_of_a_report_give_what_a_kernel_computes() -> None:
    workload = RECURRENCES["both directions of a batch"]
    inputs = [
        input_values(5, number, np.arange(tensor.elements), tensor)
        .reshape(tensor.shape)
        .astype(np.float32)
        for number, tensor in enumerate(workload.tensors[:-1])
    ]
    artifact = compile_candidate(lite_space(workload, TargetKind.WASM)[0])
    output = execute(artifact, inputs).reshape(-1)
    right = expected(workload, TargetKind.WASM, seed=5)
    reported = [float(output[at]) for at in sampled_positions(5, output.size)]
    assert judge(reported, right).detail == ""
