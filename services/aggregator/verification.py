"""Recomputes sampled output entries under a lease's seed, in float64, from the definition.

A timing cannot be checked; an output can. The agent reports the values at positions that follow
from the seed, and a kernel that is wrong anywhere near them, or was never run, is found here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.seeded import GOLDEN, STEP, sampled_positions
from kernelzoo.domain.workload import Tensor, Workload
from services.aggregator.evaluation import Floats, Indices, entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`detail` is '' for a verified report."""

    verdict: Verdict
    detail: str


TAKEN_AS_TOLD = Judgement(verdict=Verdict.VERIFIED, detail="")
"""Right; or a failure, which claims no output."""


def input_values(seed: int, number: int, index: Indices, tensor: Tensor) -> Floats:
    """`kernelzoo.domain.seeded.input_value` for many flat indices of input `number` at once."""
    x = (seed + number * GOLDEN + index.astype(np.uint64) * STEP).astype(np.uint32)
    x ^= x >> 16
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> 16
    match tensor.dtype:
        case DType.F32:
            return (x >> 8).astype(np.float64) * 2.0**-24 - 0.5
        case DType.F16:
            exact = (x >> 8).astype(np.float64) * 2.0**-24 - 0.5
            return exact.astype(np.float16).astype(np.float64)
        case DType.I8:
            return (x >> 24).astype(np.float64) - 128
        case DType.I32 | DType.I64:
            return (x % np.uint32(tensor.limit)).astype(np.float64)


def expected_entries(workload: Workload, seed: int) -> Floats:
    """float64[SAMPLED_ENTRIES]: right values at `sampled_positions`."""
    positions = np.array(sampled_positions(seed, workload.output.elements), dtype=np.int64)

    tensors = workload.tensors

    def lookup(number: int, index: Indices) -> Floats:
        return input_values(seed, number, index, tensors[number])

    return entries(workload.program, positions, lookup)


def judge(sampled_entries: Sequence[float], expected: Floats, tolerance: float) -> Judgement:
    """`tolerance`: of the workload on the target that reports."""
    got = np.array(sampled_entries, dtype=np.float64)
    if got.shape != expected.shape:
        return _rejected(f"{got.size} sampled entries instead of {expected.size}")
    error = float(np.max(np.abs(got - expected)))
    if not error <= tolerance:
        return _rejected(f"a sampled entry is off by {error:.3g}; at most {tolerance:.3g} is right")
    return TAKEN_AS_TOLD


def _rejected(detail: str) -> Judgement:
    return Judgement(verdict=Verdict.REJECTED, detail=detail)
