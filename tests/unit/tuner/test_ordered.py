"""Scans, selections and updates at places: every form on every target, against NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.numerics.entries import entries
from kernelzoo.numerics.stages import run_program
from services.aggregator.rounding import bounded_entries
from services.aggregator.verification import roundings
from services.tuner.compile import compile_candidate
from services.tuner.ir.legality import Phase, faults
from services.tuner.schedules.registry import lite_space, matching, scheduled
from tests.unit.tuner.execution import execute
from tests.unit.tuner.gpu_execution import execute_on_gpu
from tests.unit.tuner.javascript_execution import Run
from tests.unit.tuner.javascript_execution import executed as executed_in_javascript

PROGRAMS = {
    "sums along rows": "x: f32[3, 1000]\nc[i: 3, j: 1000] = running_sum over t: 1000 of x[i, t]",
    "sums of many short rows": (
        "x: f32[600, 5]\nc[i: 600, j: 5] = running_sum over t: 5 of x[i, t]"
    ),
    "sums of integers": (
        "x: i32[3, 700]\nc[i: 3, j: 700]: i32 = running_sum over t: 700 of x[i, t]"
    ),
    "sums along the middle": (
        "x: f32[4, 90, 3]\nc[i: 4, j: 90, k: 3] = running_sum over t: 90 of x[i, t, k]"
    ),
    "sums along the front": "x: f32[9, 64]\nc[j: 9, k: 64] = running_sum over t: 9 of x[t, k]",
    "products": "x: f32[4, 9, 8]\nc[i: 4, j: 9, k: 8] = running_prod over t: 9 of x[i, t, k]",
    "the largest of few": "x: f32[4, 9]\nc[i: 4, r: 5]: i32 = largest over t: 9 of x[i, t]",
    "the smallest of one": "x: f32[4, 1]\nc[i: 4, r: 1]: i32 = smallest over t: 1 of x[i, t]",
    "the largest of many": (
        "x: f32[2, 5000]\nc[i: 2, r: 300]: i32 = largest over t: 5000 of x[i, t]"
    ),
    "a part of few": "x: f32[3, 100]\nc[i: 3, r: 40]: i32 = smallest over t: 100 of x[i, t]",
    "all in order": ("x: f32[2, 3000]\nc[i: 2, r: 3000]: i32 = smallest over t: 3000 of x[i, t]"),
    "the smallest of integers": (
        "x: i32[2, 5000]\nc[i: 2, r: 50]: i32 = smallest over t: 5000 of x[i, t]"
    ),
    "the largest of integers": (
        "x: i32[2, 5000]\nc[i: 2, r: 50]: i32 = largest over t: 5000 of x[i, t]"
    ),
    "entries added at places": (
        "x: f32[5, 6]\nu: f32[9, 6]\nat: i32[9, 6]\n"
        "c[i: 5, j: 6] = sum over k: 9, l: 6 of scatter(x[i, j], u[k, l], at[k, l], l)"
    ),
    "rows added": (
        "x: f32[5, 64]\nu: f32[9, 64]\nat: i32[9, 1]\n"
        "c[i: 5, j: 64] = sum over k: 9, l: 64 of scatter(x[i, j], u[k, l], at[k, 0], l)"
    ),
    "entries written": (
        "x: i32[5, 6]\nu: i32[40]\nat: i32[40, 2]\n"
        "c[i: 5, j: 6]: i32 = last over k: 40 of scatter(x[i, j], u[k], at[k, 0], at[k, 1])"
    ),
    "entries of rows written": (
        "x: f32[5, 6]\nu: f32[5, 7]\nat: i32[5, 7]\n"
        "c[i: 5, j: 6] = last over b: 5, k: 7 of scatter(x[i, j], u[b, k], b, at[b, k])"
    ),
    "a part of the rows": (
        "x: f32[5, 6]\nu: f32[3, 7]\nat: i32[3, 7]\n"
        "c[i: 5, j: 6] = prod over b: 3, k: 7 of scatter(x[i, j], u[b, k], b, at[b, k])"
    ),
    "the largest at places": (
        "u: f32[5, 3]\nat: i32[5, 3]\n"
        "c[i: 5, j: 6] = max over b: 5, k: 3 of scatter(0.5, u[b, k], b, at[b, k])"
    ),
    "the smallest integers at places": (
        "u: i32[9]\nat: i32[9, 1]\nc[i: 5]: i32 = min over k: 9 of scatter(3, u[k], at[k, 0])"
    ),
}
SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40], np.float32)


def workload_of(form: str) -> Workload:
    return Workload.of_program("ordered", parsed(PROGRAMS[form]))


def drawn(form: str) -> list[NDArray[Any]]:
    """Many equal numbers; places before the first and behind the last; where entries are ordered,
    each special number."""
    random = np.random.default_rng(5)
    program = workload_of(form).program
    given: list[NDArray[Any]] = []
    for each in program.inputs:
        if each.dtype == "f32":
            entries = np.round(random.standard_normal(each.shape), 1).astype(np.float32)
            if "r: " in PROGRAMS[form]:
                chosen = random.choice(entries.size, min(entries.size, 24), replace=False)
                entries.flat[chosen] = np.resize(SPECIAL, chosen.size)
        elif each is program.inputs[-1] and len(program.inputs) > 1:
            entries = random.integers(-3, 9, each.shape).astype(np.int32)
            entries.flat[0], entries.flat[-1] = -(1 << 31), (1 << 31) - 1
        else:
            entries = random.integers(-900, 900, each.shape).astype(np.int32)
            if "r: " in PROGRAMS[form]:
                entries.flat[:2] = -(1 << 31), (1 << 31) - 1
        given.append(entries)
    return given


def assert_right(form: str, made: NDArray[Any], wanted: NDArray[Any]) -> None:
    if wanted.dtype == np.int32:
        assert np.array_equal(made, wanted), form
    else:
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-4, err_msg=form)


@pytest.mark.parametrize("form", PROGRAMS)
def test_a_form_in_webassembly(form: str) -> None:
    workload, inputs = workload_of(form), drawn(form)
    wanted = run_program(workload.program, inputs)
    for candidate in lite_space(workload, TargetKind.WASM):
        artifact = compile_candidate(candidate)
        assert_right(form, execute(artifact, inputs), wanted)
        last = artifact.manifest.range_extent - 1
        if last:
            slices = ((last, last + 1), (0, last))
            assert_right(form, execute(artifact, inputs, slices), wanted)


@pytest.mark.parametrize("form", PROGRAMS)
def test_a_form_on_a_gpu(form: str) -> None:
    """NaN and numbers so small that a GPU may take them for 0 are left out."""
    workload = workload_of(form)
    inputs = [np.where(np.abs(x) < 1e-30, 0, x).astype(x.dtype) for x in drawn(form)]
    if "products" not in form:
        inputs = [x if x.dtype == np.int32 else np.nan_to_num(x) for x in inputs]
    wanted = run_program(workload.program, inputs)
    for candidate in lite_space(workload, TargetKind.WEBGPU):
        assert_right(form, execute_on_gpu(compile_candidate(candidate), inputs), wanted)


def test_all_forms_in_javascript(tmp_path: Path) -> None:
    runs = {
        form: Run(
            artifact=compile_candidate(lite_space(workload_of(form), TargetKind.JAVASCRIPT)[0]),
            inputs=drawn(form),
        )
        for form in PROGRAMS
    }
    for form, made in executed_in_javascript(runs, tmp_path).items():
        assert_right(form, made, run_program(workload_of(form).program, drawn(form)))


@pytest.mark.parametrize("form", PROGRAMS)
def test_reports_are_checked_against_the_same_values(form: str) -> None:
    workload, inputs = workload_of(form), drawn(form)
    positions = np.arange(workload.output.elements)

    def lookup(number: int, index: NDArray[np.int64]) -> NDArray[np.float64]:
        return inputs[number].reshape(-1)[index].astype(np.float64)

    wanted = run_program(workload.program, inputs).reshape(-1)
    np.testing.assert_allclose(entries(workload.program, positions, lookup), wanted, rtol=1e-5)
    bounded = bounded_entries(workload.program, positions, lookup)
    error = np.abs(bounded.values - wanted)
    assert np.all(error <= bounded.roundings * 2.0**-23)
    assert np.isfinite(roundings(workload))


@pytest.mark.parametrize("form", PROGRAMS)
def test_a_text_is_read_again_and_nothing_else_schedules_it(form: str) -> None:
    workload = workload_of(form)
    assert parsed(str(workload.program)) == workload.program
    for target in TargetKind:
        assert [each.name for each in matching(workload, target)] == ["ordered"]


@pytest.mark.parametrize("target", [TargetKind.WASM, TargetKind.WEBGPU])
@pytest.mark.parametrize("form", PROGRAMS)
def test_loop_nests_are_legal(form: str, target: TargetKind) -> None:
    for candidate in lite_space(workload_of(form), target):
        for nest in scheduled(candidate).nests:
            assert faults(nest, Phase.SCHEDULED) == ()


PATTERNS = {
    "rising": np.arange(9000, dtype=np.float32),
    "falling": -np.arange(9000, dtype=np.float32),
    "equal": np.ones(9000, np.float32),
    "missing first": np.where(np.arange(9000) < 5000, np.nan, -np.arange(9000)).astype(np.float32),
    "missing last": np.where(np.arange(9000) < 5000, -np.arange(9000), np.nan).astype(np.float32),
}


@pytest.mark.parametrize("order", ["largest", "smallest"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_order_of_entries_does_not_make_a_selection_wrong(pattern: str, order: str) -> None:
    """Rising entries are each held, so that the held ones are sorted again and again."""
    x = PATTERNS[pattern].reshape(1, 9000)
    text = f"x: f32[1, 9000]\nc[i: 1, r: 40]: i32 = {order} over t: 9000 of x[i, t]"
    workload = Workload.of_program("ordered", parsed(text))
    wanted = run_program(workload.program, [x])
    artifact = compile_candidate(lite_space(workload, TargetKind.WASM)[0])
    assert np.array_equal(execute(artifact, [x]), wanted)
    if not np.isnan(x).any():
        artifact = compile_candidate(lite_space(workload, TargetKind.WEBGPU)[0])
        assert np.array_equal(execute_on_gpu(artifact, [x]), wanted)


REFUSED = {
    "another row": "x: f32[4, 9]\nc[i: 4, r: 5]: i32 = largest over t: 9 of x[0, t]",
    "more than there are": "x: f32[4, 9]\nc[i: 4, r: 10]: i32 = largest over t: 9 of x[i, t]",
    "a part of a row": "x: f32[4, 9]\nc[i: 4, r: 5]: i32 = largest over t: 8 of x[i, t]",
    "a sum that is ordered": (
        "x: f32[4, 9]\nc[i: 4, r: 5]: i32 = largest over t: 9 of x[i, t] + x[i, t]"
    ),
    "a real place": "x: f32[4, 9]\nc[i: 4, r: 5] = largest over t: 9 of x[i, t]",
    "another extent": "x: f32[4, 9]\nc[i: 4, j: 8] = running_sum over t: 9 of x[i, t]",
    "not alone": (
        "x: f32[4, 9]\ns[i: 4, j: 9] = running_sum over t: 9 of x[i, t]\n"
        "c[i: 4, j: 9] = s[i, j] * 2.0"
    ),
    "a place of two": (
        "x: f32[4]\nu: f32[9]\nat: i32[9]\n"
        "c[i: 4] = sum over k: 9 of scatter(x[i], u[k], at[k] + 1)"
    ),
    "an update outside": (
        "x: f32[4]\nu: f32[8]\nat: i32[9]\nc[i: 4] = sum over k: 9 of scatter(x[i], u[k], at[k])"
    ),
    "a start outside": (
        "x: f32[3]\nu: f32[9]\nat: i32[9]\nc[i: 4] = sum over k: 9 of scatter(x[i], u[k], at[k])"
    ),
    "a scatter in a sum": (
        "x: f32[4]\nu: f32[9]\nat: i32[9]\n"
        "c[i: 4] = sum over k: 9 of scatter(x[i], u[k], at[k]) + 1.0"
    ),
    "no reducer": "x: f32[4]\nu: f32[9]\nat: i32[9]\nc[i: 4] = scatter(x[i], u[0], at[0])",
}


@pytest.mark.parametrize("form", REFUSED)
def test_a_program_of_another_form_is_refused(form: str) -> None:
    with pytest.raises(InvalidInput):
        parsed(REFUSED[form])
