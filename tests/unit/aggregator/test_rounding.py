"""A right output of a program is within the bounds of its errors, and a wrong one is not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.seeded import sampled_positions
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.aggregator.verification import expected, input_values, judge, roundings
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute

SOFTMAX = (
    "a: f32[9, 300]\nlargest[i: 9] = max over k: 300 of a[i, k]\n"
    "power[i: 9, j: 300] = exp(a[i, j] - largest[i])\n"
    "total[i: 9] = sum over k: 300 of power[i, k]\n"
    "c[i: 9, j: 300] = power[i, j] / total[i]"
)
GROUP_NORM = (
    "a: f32[2, 6, 40]\n"
    "mean[b: 2, g: 3] = sum over c: 2, p: 40 of a[b, g * 2 + c, p] * 0.0125\n"
    "rest[b: 2, c: 6, p: 40] = a[b, c, p] - mean[b, c // 2]\n"
    "square[b: 2, g: 3] = sum over c: 2, p: 40 of pow(rest[b, g * 2 + c, p], 2.0) * 0.0125\n"
    "c[b: 2, c: 6, p: 40] = rest[b, c, p] * rsqrt(square[b, c // 2] + 1e-05)"
)
PRODUCT = (
    "a: f32[20, 96]\nb: f32[30, 96]\n"
    "sum0[i: 20, j: 30] = sum over k: 96 of a[i, k] * b[j, k]\n"
    "c[i: 20, j: 30] = 0.5 * sum0[i, j] * (1.0 + erf(sum0[i, j]))"
)
ARGMAX = (
    "a: f32[70, 33]\ntop[i: 70] = max over k: 33 of a[i, k]\n"
    "c[i: 70]: i32 = min over k: 33 of (k if a[i, k] == top[i] else 33)"
)
STEPS = "a: f32[999]\nc[i: 999] = floor(a[i] * 7.3) + log(a[i])"
PROGRAMS = {
    "softmax": SOFTMAX, "group_norm": GROUP_NORM, "product": PRODUCT, "argmax": ARGMAX,
    "steps": STEPS,
}  # fmt: skip


def ran(workload: Workload, seed: int) -> NDArray[np.float64]:
    """The sampled entries of a compiled kernel."""
    inputs = [
        input_values(seed, number, np.arange(tensor.elements), tensor)
        .astype(np.float32)
        .reshape(tensor.shape)
        for number, tensor in enumerate(workload.tensors[:-1])
    ]
    candidate = lite_space(workload, TargetKind.WASM)[0]
    output = execute(compile_candidate(candidate), inputs).ravel()
    return output[list(sampled_positions(seed, output.size))].astype(np.float64)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_right_output_is_within_its_bounds_and_a_wrong_one_is_not(name: str) -> None:
    workload = Workload.of_program(name, parsed(PROGRAMS[name]))
    right = expected(workload, TargetKind.WASM, 3)
    got = ran(workload, 3)
    assert judge(got.tolist(), right).verdict is Verdict.VERIFIED
    sure = np.flatnonzero(np.isfinite(right.tolerances))
    assert sure.size > 20
    assert right.tolerances[sure].max() < 2e-4
    for place in sure[:5]:
        wrong = got.copy()
        wrong[place] += 1 if name == "argmax" else 1e-3
        assert judge(wrong.tolist(), right).verdict is Verdict.REJECTED
    if name != "steps":
        assert sure.size == got.size


def test_bounds_are_near_those_of_a_named_operator() -> None:
    named, workload = (
        Workload.parse("softmax:f32:m9n300"),
        Workload.of_program("softmax", parsed(SOFTMAX)),
    )
    evaluated = workload.evaluated(roundings(workload))
    ratio = comparison_tolerance(evaluated) / comparison_tolerance(named)
    assert 0.1 < ratio < 10


def test_what_may_be_any_of_two_entries_is_not_checked() -> None:
    workload = Workload.of_program(
        "step", parsed("a: f32[999]\nc[i: 999] = floor(a[i] * 0.0 + sqrt(1.0))")
    )
    tolerances = expected(workload, TargetKind.WASM, 1).tolerances
    assert np.isinf(tolerances).all()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: f32[9]\nc[i: 9] = a[i + 1]", "x0 is read outside of its axis 0"),
        ("a: f32[9]\nc[i: 9] = sqrt(a[i] - 1.0)", "of the entries can be checked"),
    ],
)
def test_a_program_that_cannot_be_evaluated_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        roundings(Workload.of_program("odd", parsed(text)))
