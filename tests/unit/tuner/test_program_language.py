"""Every part of the language of programs, compiled and evaluated, against NumPy."""

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.entries import entries
from services.tuner.compile import compile_candidate, compile_program
from services.tuner.operators.lowering import prim_func
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute, run_program
from tests.unit.tuner.gpu_execution import execute_gpu

Array = NDArray[Any]
RANDOM = np.random.default_rng(11)
A = (RANDOM.standard_normal((5, 7)) * 3).astype(np.float32)
A[0, :4] = 0.5, -0.5, 1.5, 2.5
B = np.abs(RANDOM.standard_normal((5, 7))).astype(np.float32) + np.float32(0.1)
N = RANDOM.integers(-3, 4, (5, 7)).astype(np.int32)

HEAD = "a: f32[5, 7]\nb: f32[5, 7]\nn: i32[5, 7]\n"
ENTRY = HEAD + "c[i: 5, j: 7] = "
WHOLE = HEAD + "c[i: 5, j: 7]: i32 = "


PROGRAMS: dict[str, tuple[str, Callable[[], Array]]] = {
    "exp": (ENTRY + "exp(a[i, j])", lambda: np.exp(A)),
    "erf": (ENTRY + "erf(a[i, j])", lambda: np.vectorize(erf)(A)),
    "tanh": (ENTRY + "tanh(a[i, j])", lambda: np.tanh(A)),
    "sqrt": (ENTRY + "sqrt(b[i, j])", lambda: np.sqrt(B)),
    "rsqrt": (ENTRY + "rsqrt(b[i, j])", lambda: 1 / np.sqrt(B)),
    "sigmoid": (ENTRY + "sigmoid(a[i, j])", lambda: 1 / (1 + np.exp(-A))),
    "log": (ENTRY + "log(b[i, j])", lambda: np.log(B)),
    "expm1": (ENTRY + "expm1(a[i, j])", lambda: np.expm1(A)),
    "log1p": (ENTRY + "log1p(b[i, j])", lambda: np.log1p(B)),
    "fmod": (ENTRY + "fmod(a[i, j], b[i, j])", lambda: np.fmod(A, B)),
    "sin": (ENTRY + "sin(a[i, j])", lambda: np.sin(A)),
    "cos": (ENTRY + "cos(a[i, j])", lambda: np.cos(A)),
    "floor": (ENTRY + "floor(a[i, j])", lambda: np.floor(A)),
    "ceil": (ENTRY + "ceil(a[i, j])", lambda: np.ceil(A)),
    "round": (ENTRY + "round(a[i, j])", lambda: np.rint(A)),
    "abs": (ENTRY + "abs(a[i, j])", lambda: np.abs(A)),
    "pow": (ENTRY + "pow(b[i, j], a[i, j])", lambda: np.float_power(B, A)),
    "pow of a constant": (ENTRY + "pow(b[i, j], -1.5)", lambda: np.float_power(B, -1.5)),
    "square": (ENTRY + "pow(a[i, j], 2.0)", lambda: A * A),
    "real": (ENTRY + "real(n[i, j] * j)", lambda: (N * np.arange(7)).astype(np.float32)),
    "whole": (WHOLE + "whole(a[i, j] * 10.0)", lambda: np.trunc(A * 10).astype(np.int32)),
    "quotient": (WHOLE + "n[i, j] // 2 * 10 + n[i, j] % 3", lambda: N // 2 * 10 + N % 3),
    "extremes": (
        WHOLE + "max(min(n[i, j], 2), j - 4)",
        lambda: np.maximum(np.minimum(N, 2), np.arange(7) - 4),
    ),
    "reals below": (WHOLE + "(1 if a[i, j] < b[i, j] else 0)", lambda: (A < B) * 1),
    "reals at most": (WHOLE + "(1 if a[i, j] <= 0.5 else 0)", lambda: (A <= 0.5) * 1),
    "reals equal": (WHOLE + "(1 if a[i, j] == 0.5 else 0)", lambda: (A == 0.5) * 1),
    "reals differ": (
        WHOLE + "(1 if a[i, j] != 0.5 and n[i, j] != 1 else 0)",
        lambda: ((A != 0.5) & (N != 1)) * 1,
    ),
    "where": (ENTRY + "(a[i, j] if n[i, j] == 1 else b[i, j])", lambda: np.where(N == 1, A, B)),
    "clipped": (
        ENTRY + "(0.0 if a[i, j] < 0.0 else (1.0 if 1.0 < a[i, j] else a[i, j]))",
        lambda: np.clip(A, 0, 1),
    ),
    "not read": (
        ENTRY + "(a[i, j + 1] if n[i, j] < 9 and j < 6 else 2.0)",
        lambda: np.pad(A[:, 1:], ((0, 0), (0, 1)), constant_values=2),
    ),
    "gathered": (
        ENTRY + "a[max(min(n[i, j], 4), 0), j]",
        lambda: A[np.clip(N, 0, 4), np.arange(7)],
    ),
    "one of two by place": (
        ENTRY + "(a[i, j] if j == 3 else (b[i, j] if i != 2 else 0.5))",
        lambda: np.where(np.arange(7) == 3, A, np.where(np.arange(5)[:, None] != 2, B, 0.5)),
    ),
    "sum": (HEAD + "c[i: 5] = sum over k: 7 of a[i, k]", lambda: A.sum(1)),
    "smallest": (HEAD + "c[i: 5] = min over k: 7 of a[i, k]", lambda: A.min(1)),
    "largest": (HEAD + "c[i: 5] = max over k: 7 of a[i, k]", lambda: A.max(1)),
    "product": (HEAD + "c[j: 7] = prod over k: 5 of b[k, j]", lambda: B.prod(0)),
    "sum of integers": (HEAD + "c[i: 5]: i32 = sum over k: 7 of n[i, k]", lambda: N.sum(1)),
    "product of integers": (
        HEAD + "c[i: 5]: i32 = prod over k: 3 of n[i, k]",
        lambda: N[:, :3].prod(1),
    ),
    "smallest integer": (HEAD + "c[i: 5]: i32 = min over k: 7 of n[i, k]", lambda: N.min(1)),
    "argmax": (
        HEAD + "top[i: 5] = max over k: 7 of a[i, k]\n"
        "c[i: 5]: i32 = min over k: 7 of (k if a[i, k] == top[i] else 7)",
        lambda: A.argmax(1),
    ),
    "running sum": (
        HEAD + "c[i: 5, j: 7] = sum over k: 7 of (a[i, k] if k <= j else 0.0)",
        lambda: A.cumsum(1),
    ),
    "of truths": (
        HEAD + "t[i: 5, j: 7]: i32 = (1 if 0.0 < a[i, j] else 0)\n"
        "c[i: 5]: i32 = max over k: 7 of min(t[i, k], 1 - n[i, k])",
        lambda: np.minimum((A > 0) * 1, 1 - N).max(1),
    ),
    "one number": (
        HEAD + "t[] = sum over i: 5, j: 7 of a[i, j]\nc[i: 2] = t[()] * 0.5",
        lambda: np.repeat(A.sum() * np.float32(0.5), 2),
    ),
    "to one number": (HEAD + "c[] = max over i: 5, j: 7 of a[i, j]", A.max),
}


def given(program: Program) -> list[Array]:
    return [array for _, array in zip(program.inputs, (A, B, N), strict=True)]


def compiled(program: Program) -> Array:
    made = compile_program(prim_func(program), "program")
    flat: list[Array] = [each.view(np.float32).ravel() for each in given(program)]
    size = int(np.prod(program.output.shape))
    stored = np.asarray(run_program(made, flat, size), np.float32)
    return stored.view(np.int32) if program.output.dtype == "i32" else stored


def evaluated(program: Program) -> Array:
    arrays = [each.ravel().astype(np.float64) for each in given(program)]
    size = int(np.prod(program.output.shape))
    return entries(program, np.arange(size), lambda number, index: arrays[number][index])


ON_A_GPU = ("log", "sin", "pow", "floor", "whole", "where", "argmax", "of truths", "one number")


@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_part_of_the_language_is_the_same_on_a_gpu(name: str) -> None:
    """By the candidate that any program has."""
    text, by_numpy = PROGRAMS[name]
    workload = Workload.of_program("any", parsed(text))
    candidate = lite_space(workload, TargetKind.WEBGPU)[0]
    found = execute_gpu(compile_candidate(candidate), given(workload.program)).ravel()
    wanted = np.asarray(by_numpy()).ravel()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_part_of_the_language_is_what_numpy_says(name: str) -> None:
    text, by_numpy = PROGRAMS[name]
    program = parsed(text)
    wanted = np.asarray(by_numpy()).ravel()
    for found in (compiled(program), evaluated(program)):
        if program.output.dtype == "i32":
            assert found.tolist() == wanted.tolist()
        else:
            np.testing.assert_allclose(found, wanted, rtol=5e-6, atol=1e-6)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32)
COMPARED: dict[str, np.ufunc] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


@pytest.mark.parametrize("operator", COMPARED)
@pytest.mark.parametrize("right", ["b[i, j]", "a[i, j]", "1.0"])
def test_nan_is_compared_as_ieee_754_says(operator: str, right: str) -> None:
    """Unscheduled, and by the first candidate, which compares four at once."""
    a, b = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    program = parsed(
        "a: f32[7, 7]\nb: f32[7, 7]\n"
        f"c[i: 7, j: 7] = (b[i, j] if a[i, j] {operator} {right} and b[i, j] < 2.0 else -5.0)"
    )
    rights = {"b[i, j]": b, "a[i, j]": a, "1.0": np.ones_like(a)}
    holds = COMPARED[operator](a, rights[right])
    wanted = np.where(holds & (b < 2), b, np.float32(-5)).ravel()
    plain = run_program(
        compile_program(prim_func(program), "program"), [a.ravel(), b.ravel()], wanted.size
    )
    candidate = lite_space(Workload.of_program("any", program), TargetKind.WASM)[0]
    scheduled = execute(compile_candidate(candidate), [a, b])
    for found in (plain, scheduled.ravel()):
        np.testing.assert_array_equal(found, wanted)
