"""Products of few rows that read their weights ahead."""

import numpy as np
import pytest
from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.ir.build import number
from services.tuner.ir.interpreter import interpret
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Let,
    Load,
    Loop,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.prefetching_matmul.config import (
    LINE_WORDS,
    WasmPrefetchingMatmulConfig,
)
from services.tuner.schedules.registry import lite_space, scheduled
from tests.unit.tuner.execution import execute, inputs_of, packed_inputs
from tests.unit.tuner.reference import reference

FAMILY = WasmPrefetchingMatmulConfig.family
WORKLOADS = (
    "matmul+bias+residual+relu:f32:m25k24n32:constant=b",
    "matmul_nt+bias+gelu:f32:m7k12n64:constant=b",
    "conv2d+bias+relu6:f32:b2h3w5c20o48kh1kw1stride1pad0:constant=b",
)


@pytest.mark.parametrize("key", WORKLOADS)
def test_products_that_read_weights_ahead_are_right(key: str) -> None:
    workload = Workload.parse(key)
    inputs = inputs_of(workload)
    right = reference(workload, inputs)
    candidates = [c for c in lite_space(workload, TargetKind.WASM) if c.family == FAMILY]
    assert candidates
    for candidate in candidates:
        artifact = compile_candidate(candidate)
        given = packed_inputs(candidate, artifact, inputs)
        error = np.abs(execute(artifact, given) - right).max()
        assert error <= comparison_tolerance(workload), dict(candidate.config)


@pytest.mark.parametrize(("m", "k"), [(8, 48), (13, 44), (128, 20)])
def test_every_line_of_the_weights_but_the_first_panels_is_read_ahead(m: int, k: int) -> None:
    workload = Workload.parse(f"matmul:f32:m{m}k{k}n32:constant=b")
    space = lite_space(workload, TargetKind.WASM)
    candidates = [each for each in space if each.family == FAMILY]
    assert candidates
    for candidate in candidates:
        (nest,) = scheduled(candidate).nests
        seen = Buffer(name="seen", scope=Scope.PARAMETER, dtype=DType.F32, size=k * 32)
        body = replace(nest.body, body=_marking(nest.body.body, seen))
        marked = replace(nest, parameters=(*nest.parameters, seen), body=body)
        given = {each.name: np.zeros(each.size, np.float32) for each in marked.parameters}
        interpret(marked, given, low=0, high=nest.body.extent)
        lines = given["seen"].reshape(-1, LINE_WORDS)
        assert lines[k * 8 // LINE_WORDS :].any(axis=1).all(), dict(candidate.config)


def _marking(block: Block, seen: Buffer) -> Block:
    """The block with a 1 stored where it reads ahead."""
    return tuple(_marked(statement, seen) for statement in block)


def _marked(statement: Statement, seen: Buffer) -> Statement:
    match statement:
        case Store(buffer=Buffer(name="ahead"), value=Load(index=index)):
            return Store(buffer=seen, index=index, value=number(1))
        case Loop(body=body) | Let(body=body) | Allocate(body=body):
            return replace(statement, body=_marking(body, seen))
    return statement
