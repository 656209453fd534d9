"""The programs without a name whose kernels a replay compares, by the keys of their workloads.

They are those that tests of the families hold to be right, and attention and products as language
models have them.
"""

from dataclasses import replace

from kernelzoo.domain.operators.attention import attention
from kernelzoo.domain.operators.decoding import argmax, decode_attention
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.operators.prefill import block_attention
from kernelzoo.domain.workload import Workload
from tests.unit.tuner import (
    test_gpu_attention,
    test_gpu_many_rows,
    test_gpu_quantised,
    test_ordered,
    test_program_schedules,
    test_recurrence,
    test_wasm_decoding,
)


def programs() -> dict[str, str]:
    """Texts of programs by keys."""
    workloads = [Workload.of_program("replay", each) for each in _programs()]
    return {each.key: str(each.program) for each in workloads}


def _programs() -> list[Program]:
    shape = test_gpu_attention.SHAPE
    shapes = (shape, test_gpu_attention.GEMMA, replace(shape, length=76))
    quantised = (test_gpu_quantised.PROGRAMS, test_wasm_decoding.PROGRAMS)
    return [
        *(_stated(text) for _, text in test_program_schedules.PROGRAMS.values()),
        *map(_stated, test_ordered.PROGRAMS.values()),
        *(each.program for each in test_recurrence.RECURRENCES.values()),
        *(attention(operands) for operands, _ in test_gpu_many_rows.CASES.values()),
        *(program for table in quantised for program, _ in table.values()),
        *(decode_attention(each) for each in shapes),
        *(block_attention(each, 20) for each in shapes),
        argmax(1000),
    ]


def _stated(text: str) -> Program:
    return parsed("\n".join(line.strip() for line in text.strip().splitlines()))
