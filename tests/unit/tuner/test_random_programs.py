"""Random programs give one result: interpreted, as wasm, and built by TVM for this machine."""

import numpy as np
import tvm
from hypothesis import given, note, reject, settings
from numpy.typing import NDArray

from services.tuner.compile import compile_program
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import Program
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import Node
from tests.examples import examples
from tests.unit.tuner.execution import run_program
from tests.unit.tuner.random_programs import ARRAYS, COLUMNS, ENTRIES, ROWS, programs

Values = NDArray[np.generic]


@given(function=programs())
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_a_random_program_computes_what_tvm_builds_of_it(function: Node) -> None:
    note(function.script())
    dtype = np.dtype(str(function.params[-1].ty.dtype)).type
    wanted = built_by_tvm(function, dtype)
    made = compile_program(function, "random")
    stated = interpreted(plain_program(function), dtype)
    assert np.array_equal(stated, wanted, equal_nan=dtype is np.float32), "stated"
    optimised = interpreted(made.program, dtype)
    assert np.array_equal(optimised, wanted, equal_nan=dtype is np.float32), "optimised"
    ran = run_program(made, list(ARRAYS.values()), ENTRIES, dtype)
    assert np.array_equal(ran, wanted, equal_nan=dtype is np.float32), "wasm"


def built_by_tvm(function: Node, dtype: type[np.generic]) -> Values:
    output = tvm.runtime.empty((ROWS, COLUMNS), np.dtype(dtype).name)
    arguments = [tvm.runtime.tensor(array) for array in ARRAYS.values()]
    try:
        built = tvm.compile(function, target="llvm")
    except ValueError:  # TVM folds casts of constants, and refuses one that is no int8.
        reject()
    built["main"](*arguments, output)
    return np.asarray(output.numpy()).ravel()


def interpreted(program: Program, dtype: type[np.generic]) -> Values:
    output = np.zeros(ENTRIES, dtype)
    names = [buffer.name for buffer in program.parameters]
    arrays = dict(zip(names, [*ARRAYS.values(), output], strict=True))
    with np.errstate(all="ignore"):
        interpret(program, arrays, low=0, high=program.body.extent)
    return output
