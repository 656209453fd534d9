"""Kernels in JavaScript, in Node: operators, programs and functions against NumPy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedProgram
from kernelzoo.linking import link_javascript
from services.tuner.codegen.javascript.module import print_module
from services.tuner.compile import compile_candidate
from services.tuner.ir.nodes import (
    Assign,
    Load,
    MathFunction,
    Register,
    RegisterRead,
    Shuffle,
    Store,
)
from services.tuner.passes.math_functions import LARGEST_ERROR_OF_POWER_ULP, LARGEST_ERROR_ULP
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import Floats, execute, inputs_of
from tests.unit.tuner.javascript_execution import Run, executed
from tests.unit.tuner.programs import X, Y, at, program
from tests.unit.tuner.reference import EXAMPLES, reference
from tests.unit.tuner.test_math_functions import DENORMAL, exact
from tests.unit.tuner.test_program_schedules import PROGRAMS, TOLERANCE, right_values, workload_of


def usual(workload: Workload, *inputs: Floats) -> Run:
    (candidate,) = lite_space(workload, TargetKind.JAVASCRIPT)
    artifact = compile_candidate(candidate)
    extent = artifact.manifest.range_extent
    halves = ((extent // 2, extent), (0, extent // 2))
    return Run(artifact=artifact, inputs=inputs or inputs_of(workload), slices=halves)


def test_operators_and_programs_compute_what_numpy_does(tmp_path: Path) -> None:
    named = {key: Workload.parse(key) for key in EXAMPLES}
    unnamed = {name: workload_of(text) for name, (_, text) in PROGRAMS.items()}
    wanted = {name: reference(each, inputs_of(each)) for name, each in named.items()}
    wanted |= {name: right_values(each, inputs_of(each)) for name, each in unnamed.items()}
    outputs = executed({name: usual(each) for name, each in (named | unnamed).items()}, tmp_path)
    errors = {name: float(np.abs(outputs[name] - each).max()) for name, each in wanted.items()}
    most = {name: comparison_tolerance(each) for name, each in named.items()}
    assert {n: e for n, e in errors.items() if not e <= most.get(n, TOLERANCE)} == {}


POINTS = 4000


def text_of(value: str, size: int, dtype: str = "f32") -> str:
    """c[i] = value, of x[i] and y[i]."""
    inputs = [f"{name}: f32[{size}]" for name in "xy" if f"{name}[" in value]
    kind = ": i32" if dtype == "i32" else ""
    return "\n".join((*inputs, f"c[i: {size}]{kind} = {value}"))


def mapped(value: str, *inputs: Floats, dtype: str = "f32") -> Run:
    return usual(workload_of(text_of(value, inputs[0].size, dtype)), *inputs)


def test_functions_are_as_exact_as_those_of_wasm(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    x = random.uniform(-80, 80, POINTS).astype(np.float32)
    x[::2] = random.uniform(-1, 1, POINTS // 2)
    positive = (MathFunction.SQRT, MathFunction.RSQRT, MathFunction.LOG, MathFunction.LOG1P)
    given = {each: np.abs(x) if each in positive else x for each in LARGEST_ERROR_ULP}
    runs = {str(each): mapped(f"{each}(x[i])", given[each]) for each in given}
    bases, exponents = np.abs(x), random.uniform(-7, 7, POINTS).astype(np.float32)
    found = executed({**runs, "pow": mapped("pow(x[i], y[i])", bases, exponents)}, tmp_path)
    for function, most in LARGEST_ERROR_ULP.items():
        error = ulps(found[function], exact(function, given[function]))
        assert error.max() <= most + 0.5, function
    error = ulps(found["pow"], np.float_power(bases, exponents))
    assert error.max() <= LARGEST_ERROR_OF_POWER_ULP


def ulps(found: Floats, wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = np.spacing(np.maximum(np.abs(wanted), DENORMAL).astype(np.float32))
    return np.asarray(np.abs(found - wanted) / unit)


WHOLE = (
    "whole(x[i])",
    "whole(x[i]) // 4 * 3 - 7",
    "whole(x[i]) % 4",
    "whole(x[i]) + whole(x[i])",
    "whole(round(x[i]) * 2.0)",
    "max(whole(x[i]), i)",
    "(1 if x[i] == y[i] else 0)",
    "(1 if x[i] != x[i] else 0)",
    # Equal as float32 alone.
    "(1 if y[i] * 3.0 == 0.3 else 0)",
    "shift_right(whole(x[i]), 4) + bit_and(whole(x[i]), 15)",
)


def test_integers_and_conditions_are_those_of_wasm(tmp_path: Path) -> None:
    x = np.array([0.5, 1.5, -2.5, -0.5, 7.9, -7.9, 3e9, -3e9, np.nan, np.inf, 0.1, 4], np.float32)
    y = np.full(12, 0.1, np.float32)
    given = {each: [a for name, a in (("x", x), ("y", y)) if f"{name}[" in each] for each in WHOLE}
    runs = {each: mapped(each, *given[each], dtype="i32") for each in WHOLE}
    for value, found in executed(runs, tmp_path).items():
        on_wasm = lite_space(workload_of(text_of(value, x.size, "i32")), TargetKind.WASM)[0]
        wanted = execute(compile_candidate(on_wasm), list(runs[value].inputs))
        assert np.array_equal(found, wanted), value


def test_linked_kernels_are_those_that_were_linked(tmp_path: Path) -> None:
    """Their order, names and text: each is found under its number."""
    runs = [usual(Workload.parse(key)) for key in ("softmax:f32:m5n37", "gelu:f32:n7")]
    linked = link_javascript([each.artifact.body for each in runs])
    single = executed({str(i): each for i, each in enumerate(runs)}, tmp_path)
    for place, each in enumerate(runs):
        picked = b"export { f%d as main };\n" % place
        again = replace(each, artifact=Artifact.of(linked + picked, each.artifact.manifest))
        assert np.array_equal(executed({"linked": again}, tmp_path)["linked"], single[str(place)])
    with pytest.raises(InvalidInput, match="module 1 is no kernel"):
        link_javascript([runs[0].artifact.body, b"export default 1"])


def test_a_vector_that_exchanges_its_own_lanes_is_refused() -> None:
    """It would have to be read whole before it is written."""
    register = Register(name="r", lanes=4)
    own = RegisterRead(register=register)
    exchanged = Shuffle(left=own, right=own, lanes=(1, 0, 3, 2))
    body = (
        Assign(register=register, value=Load(buffer=X, index=at(r=4), lanes=4)),
        Assign(register=register, value=exchanged),
        Store(buffer=Y, index=at(r=4), value=own),
    )
    with pytest.raises(UnsupportedProgram, match="lane by lane"):
        print_module(program(5, body, X, Y))
