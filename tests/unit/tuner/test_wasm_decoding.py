"""Programs of decoders for wasm: states, attention over a cache, quantised weights."""

from typing import Any

import numpy as np

from kernelzoo.domain.operators.parsing import parsed
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import executed
from tests.unit.tuner.test_gpu_attention import ADVANCE


def test_a_program_that_writes_its_input_reads_what_that_held_before() -> None:
    workload = Workload.of_program("advance", parsed(ADVANCE))
    inputs: list[Any] = [np.array([7, 1, 2, 3], np.int32), np.array([42], np.int32)]
    artifact = compile_candidate(lite_space(workload, TargetKind.WASM)[0])
    state, output = executed(artifact, inputs)
    assert list(state) == list(output) == [8, 42, 2, 3]
    assert [tensor.role for tensor in artifact.manifest.tensors] == ["state", "input", "output"]
