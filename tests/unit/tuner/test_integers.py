"""Every operation on integers at the edges of 32 bits, on each target and evaluated."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics import stages
from kernelzoo.numerics.entries import entries
from services.aggregator.rounding import bounded_entries
from services.tuner.compile import compile_candidate, compile_program
from services.tuner.ir.interpreter import interpret
from services.tuner.operators.lowering import prim_func
from services.tuner.schedules.registry import lite_space
from services.tuner.tir.lowering import plain_program
from tests.unit.tuner.execution import execute, run_program
from tests.unit.tuner.gpu_execution import execute_on_gpu
from tests.unit.tuner.javascript_execution import Run, executed

Integers = NDArray[Any]
LEAST, MOST = -(1 << 31), (1 << 31) - 1
EDGES = (LEAST, LEAST + 1, -1_700_000_000, -7, -2, -1, 0, 1, 2, 3, 31, 33, (1 << 24) + 1, MOST)
PAIRS = np.array(list(product(EDGES, EDGES)), np.int64)
COUNT = len(PAIRS)


def wrapped(value: int) -> int:
    return (value - LEAST) % (1 << 32) + LEAST


def quotient(x: int, y: int) -> int:
    size = abs(x) // abs(y) if y else 0
    return wrapped(size if (x < 0) == (y < 0) else -size)


def power(x: int, y: int) -> int:
    if y >= 0:
        return wrapped(pow(x, y, 1 << 32))
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


OPERATIONS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "sum": ("{x} + {y}", lambda x, y: wrapped(x + y)),
    "difference": ("{x} - {y}", lambda x, y: wrapped(x - y)),
    "product": ("{x} * {y}", lambda x, y: wrapped(x * y)),
    "floor division": ("{x} // {y}", lambda x, y: wrapped(x // y) if y else 0),
    "modulo": ("{x} % {y}", lambda x, y: x % y if y else 0),
    "quotient": ("quotient({x}, {y})", quotient),
    "power": ("pow({x}, {y})", power),
    "smallest": ("min({x}, {y})", min),
    "largest": ("max({x}, {y})", max),
    "shift to the left": ("shift_left({x}, {y})", lambda x, y: wrapped(x << (y & 31))),
    "shift to the right": ("shift_right({x}, {y})", lambda x, y: x >> (y & 31)),
    "and": ("bit_and({x}, {y})", lambda x, y: x & y),
    "or": ("bit_or({x}, {y})", lambda x, y: x | y),
    "exclusive or": ("bit_xor({x}, {y})", lambda x, y: x ^ y),
    "below": ("(1 if {x} < {y} else 0)", lambda x, y: int(x < y)),
    # What would cancel were sums and products always in range.
    "product that is divided": ("{x} * 60 // 60 + {y}", lambda x, y: wrapped(
        wrapped(x * 60) // 60 + y
    )),
    "sum that is compared": ("(1 if {x} + 1 <= {y} else 0)", lambda x, y: int(
        wrapped(x + 1) <= y
    )),
    "difference of a difference": ("{x} - {y} - {x}", lambda _, y: wrapped(-y)),
}  # fmt: skip
HEAD = f"x: i32[{COUNT}]\ny: i32[{COUNT}]\n"


def given(program: Program) -> list[Integers]:
    columns = {"x": PAIRS[:, 0], "y": PAIRS[:, 1]}
    return [columns[each.name].astype(np.int32) for each in program.inputs]


def every_way(programs: dict[str, Program], folder: Path) -> dict[str, dict[str, Any]]:
    """Computes each program of all pairs, by its name and by who computes it."""
    made: dict[str, dict[str, Any]] = {name: {} for name in programs}
    runs = {}
    for name, program in programs.items():
        inputs, found = given(program), made[name]
        workload = Workload.of_program("integers", program)
        on = {target: lite_space(workload, target)[0] for target in TargetKind}
        found["wasm"] = execute(compile_candidate(on[TargetKind.WASM]), inputs)
        found["webgpu"] = execute_on_gpu(compile_candidate(on[TargetKind.WEBGPU]), inputs)
        runs[name] = Run(artifact=compile_candidate(on[TargetKind.JAVASCRIPT]), inputs=inputs)
        function = prim_func(program)
        found["unscheduled"] = run_program(
            compile_program(function, "integers"), inputs, COUNT, np.int32
        )
        stated = plain_program(function)
        names = [buffer.name for buffer in stated.parameters]
        interpreted = np.zeros(COUNT, np.int32)
        with np.errstate(all="ignore"):
            interpret(stated, dict(zip(names, [*inputs, interpreted], strict=True)), low=0, high=1)
        found["interpreted"] = interpreted
        found["graph"] = stages.run_program(program, inputs)

        def read(number: int, index: Any, inputs: Any = inputs) -> Any:
            return inputs[number].astype(np.float64)[index]

        found["report"] = entries(program, np.arange(COUNT), read)
        found["bounds"] = bounded_entries(program, np.arange(COUNT), read).values
    for name, output in executed(runs, folder).items():
        made[name]["javascript"] = output
    return made


def test_operations_on_integers_are_exact_on_every_target(tmp_path: Path) -> None:
    programs = {
        name: parsed(f"{HEAD}c[i: {COUNT}]: i32 = " + text.format(x="x[i]", y="y[i]"))
        for name, (text, _) in OPERATIONS.items()
    }
    for name, ways in every_way(programs, tmp_path).items():
        wanted = [OPERATIONS[name][1](int(x), int(y)) for x, y in PAIRS]
        for way, found in ways.items():
            assert found.ravel().tolist() == wanted, (name, way)


@pytest.mark.parametrize("by", [LEAST, -60, -1, 0, 1, 2, 7, 60, 1 << 30, MOST])
def test_a_number_as_the_right_operand_is_as_good_as_an_entry(by: int, tmp_path: Path) -> None:
    names = ("floor division", "modulo", "quotient", "power", "shift to the left", "product")
    programs = {
        name: parsed(
            f"x: i32[{COUNT}]\nc[i: {COUNT}]: i32 = "
            + OPERATIONS[name][0].format(x="x[i]", y=by)
        )
        for name in names
    }  # fmt: skip
    for name, ways in every_way(programs, tmp_path).items():
        wanted = [OPERATIONS[name][1](int(x), by) for x, _ in PAIRS]
        for way, found in ways.items():
            assert found.ravel().tolist() == wanted, (name, way)


def test_reductions_of_integers_wrap_around(tmp_path: Path) -> None:
    programs = {
        reducer: parsed(f"x: i32[{COUNT}]\nc[]: i32 = {reducer} over i: {COUNT} of x[i] * 3 + 1")
        for reducer in ("sum", "prod")
    }
    terms = [wrapped(int(x) * 3 + 1) for x, _ in PAIRS]
    total = 1
    for term in terms:
        total = wrapped(total * term)
    wanted = {"sum": wrapped(sum(terms)), "prod": total}
    for reducer, program in programs.items():
        inputs = given(program)
        workload = Workload.of_program("integers", program)
        on = {target: lite_space(workload, target)[0] for target in TargetKind}
        js = Run(artifact=compile_candidate(on[TargetKind.JAVASCRIPT]), inputs=inputs)
        found = (
            execute(compile_candidate(on[TargetKind.WASM]), inputs),
            execute_on_gpu(compile_candidate(on[TargetKind.WEBGPU]), inputs),
            executed({"c": js}, tmp_path)["c"],
            stages.run_program(program, inputs),
        )
        assert [int(each.ravel()[0]) for each in found] == [wanted[reducer]] * 4
