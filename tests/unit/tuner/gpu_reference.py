"""Computes programs for a GPU by the oracle, the interpreter."""

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import Program
from tests.unit.tuner.execution import NUMPY, Floats


def interpreted(programs: tuple[Program, ...], workload: Workload, inputs: list[Floats]) -> Floats:
    """The output: every program in turn, on buffers that start as NaN."""
    arrays = {
        buffer.name: np.full(buffer.size, -1, np.int32)
        if buffer.dtype is DType.I32
        else np.full(buffer.size, np.nan, NUMPY[buffer.dtype])
        for program in programs
        for buffer in program.parameters
    }
    for tensor, values in zip(workload.tensors, inputs, strict=False):
        arrays[tensor.name][: values.size] = values.ravel()
    for program in programs:
        interpret(program, arrays, low=0, high=program.body.extent)
    output = workload.output
    return np.asarray(arrays[output.name][: output.elements].reshape(output.shape))
