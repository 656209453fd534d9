"""Kernels in JavaScript: every operator and every kind of program, in Node, against NumPy."""

from pathlib import Path

import numpy as np

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import inputs_of
from tests.unit.tuner.javascript_execution import Run, executed
from tests.unit.tuner.reference import EXAMPLES, reference


def usual(workload: Workload, *halves: bool) -> Run:
    (candidate,) = lite_space(workload, TargetKind.JAVASCRIPT)
    return Run(artifact=compile_candidate(candidate), inputs=inputs_of(workload))


def test_every_operator_computes_what_numpy_does(tmp_path: Path) -> None:
    workloads = {key: Workload.parse(key) for key in EXAMPLES}
    outputs = executed({key: usual(each) for key, each in workloads.items()}, tmp_path)
    errors = {
        key: float(np.abs(outputs[key] - reference(each, inputs_of(each))).max())
        for key, each in workloads.items()
    }
    wrong = {
        key: error
        for key, error in errors.items()
        if not error <= comparison_tolerance(workloads[key], TargetKind.JAVASCRIPT)
    }
    assert wrong == {}
