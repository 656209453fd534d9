"""Recomputes sampled output entries under a lease's seed, in float64, from the definition.

A timing cannot be checked; an output can. The agent reports the values at positions that follow
from the seed, and a kernel that is wrong anywhere near them, or was never run, is found here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.domain.seeded import GOLDEN, SAMPLED_ENTRIES, STEP, sampled_positions
from kernelzoo.domain.target import UNIT, TargetKind
from kernelzoo.domain.tolerance import F16_STEP, F16_UNIT, SIDES, comparison_tolerance
from kernelzoo.domain.workload import PROGRAM, Tensor, Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.numerics.entries import Floats, Lookup, Mask, entries
from kernelzoo.numerics.operators import Indices
from services.aggregator.rounding import Bounded, bounded_entries

SEEDS = 4
"""Entries of a program that are evaluated when it is planned."""
MOST_CHECKED_TERMS = SAMPLED_ENTRIES << 18
"""Terms of entries that a report is checked by: so many take about a second."""
MARGIN = 4.0
"""Entries that were not evaluated may have bounds so many times the largest that was."""
LEAST_SURE = 0.25
_U = UNIT[TargetKind.WASM]


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
            least = tensor.limit or 128
            return (x >> 24).astype(np.float64) % (2 * least) - least
        case DType.I32 | DType.I64:
            held = x % np.uint32(tensor.limit) if tensor.limit else x.view(np.int32)
            return held.astype(np.float64)


def expected_entries(workload: Workload, seed: int) -> Floats:
    """float64[SAMPLED_ENTRIES]: right values at `sampled_positions`."""
    return entries(workload.program, _positions(workload, seed), _lookup(workload, seed))


def _positions(workload: Workload, seed: int) -> Indices:
    return np.array(sampled_positions(seed, workload.output.elements), dtype=np.int64)


def _checked_positions(workload: Workload, seed: int) -> Indices:
    """Picks the entries that are recomputed: the first of the sampled ones, where all would take
    too long."""
    affordable = max(1, MOST_CHECKED_TERMS // workload.reduction_length)
    return _positions(workload, seed)[:affordable]


def _lookup(workload: Workload, seed: int) -> Lookup:
    tensors = workload.tensors

    def lookup(number: int, index: Indices) -> Floats:
        return input_values(seed, number, index, tensors[number])

    return lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Right values at `sampled_positions`, and by how much each may be off: inf where nobody can
    tell what is right."""

    entries: Floats
    tolerances: Floats


def expected(workload: Workload, target: TargetKind, seed: int) -> Expected:
    """A named operator has one tolerance for all entries, a program one for each."""
    if workload.operator is not PROGRAM:
        positions = _checked_positions(workload, seed)
        found = entries(workload.program, positions, _lookup(workload, seed))
        return _padded(found, np.full(found.shape, comparison_tolerance(workload, target)))
    bounded = _bounded(workload, seed)
    tolerances = SIDES * UNIT[target] * bounded.roundings
    return _padded(bounded.values, np.where(_is_sure(bounded), tolerances, np.inf))


def _padded(values: Floats, tolerances: Floats) -> Expected:
    """Fills up with entries that nobody recomputes, which may be any."""
    others = np.full(SAMPLED_ENTRIES - values.size, np.inf)
    return Expected(
        entries=np.concatenate([values, np.zeros(others.shape)]),
        tolerances=np.concatenate([tolerances, others]),
    )


def _bounded(workload: Workload, seed: int) -> Bounded:
    """Every entry of an output of f16 is rounded once more, when it is stored."""
    positions, lookup = _checked_positions(workload, seed), _lookup(workload, seed)
    found = bounded_entries(workload.program, positions, lookup)
    if not workload.program.makes_f16:
        return found
    stored = (F16_UNIT * np.abs(found.values) + F16_STEP) / UNIT[TargetKind.WEBGPU]
    return replace(found, roundings=found.roundings + stored)


def _is_sure(found: Bounded) -> Mask:
    return np.asarray(np.isfinite(found.values) & np.isfinite(found.roundings))


def roundings(workload: Workload) -> float:
    """Bounds how far two right results of a program may differ anywhere, in units of one rounding
    to f32: what `comparison_tolerance` takes. The largest bound of some entries, with a margin.

    Where a comparison may go either way an entry may be any other. Raises InvalidInput for a
    program that reads outside of a tensor, or of which hardly any entry can be checked.
    """
    # A recurrence is computed whole, whichever of its entries are asked for: one seed is enough.
    seeds = 1 if is_recurrent(workload.program) else SEEDS
    try:
        found = [_bounded(workload, seed) for seed in range(seeds)]
    except IndexError as error:
        raise InvalidInput(f"{workload.key}: {error}; put the read under a condition") from error
    sure = np.concatenate([_is_sure(each) for each in found])
    if sure.mean() < LEAST_SURE:
        raise InvalidInput(
            f"of {workload.key} {sure.mean():.0%} of the entries can be checked under seeded "
            "inputs from -1/2 to 1/2; state functions on numbers that they are defined on"
        )
    values = np.concatenate([each.values for each in found])
    bounds = np.concatenate([each.roundings for each in found])
    largest = MARGIN * float(bounds[sure].max())
    unsure = np.isfinite(values) & np.isinf(bounds)
    largest = max(largest, MARGIN * _rounding_of_states(workload))
    if unsure.any():
        largest = max(largest, MARGIN * float(np.abs(values[np.isfinite(values)]).max() + 1) / _U)
    return largest


def _rounding_of_states(workload: Workload) -> float:
    """The largest bound of some entries of states of f16, which are compared as the output is."""
    program, found = workload.program, 0.0
    halved = {each.name for each in program.inputs if each.dtype == DType.F16}
    names = [stage.name for stage in program.stages]
    for update in program.updates:
        if update.tensor in halved:
            stages = program.stages[: names.index(update.stage) + 1]
            # Without updates, so that old entries count as new ones: few of them are sampled.
            stated = replace(program, stages=stages, updates=())
            positions = np.array(sampled_positions(0, prod(stages[-1].shape)), dtype=np.int64)
            values = bounded_entries(stated, positions, _lookup(workload, 0)).values
            stored = (F16_UNIT * np.abs(values) + F16_STEP) / UNIT[TargetKind.WEBGPU]
            found = max(found, float(stored.max()))
    return found


def judge(sampled_entries: Sequence[float], expected: Expected) -> Judgement:
    """`expected`: of the workload on the target that reports."""
    got = np.array(sampled_entries, dtype=np.float64)
    if got.shape != expected.entries.shape:
        return _rejected(f"{got.size} sampled entries instead of {expected.entries.size}")
    with np.errstate(invalid="ignore"):
        error = np.abs(got - expected.entries)
    right = (error <= expected.tolerances) | np.isinf(expected.tolerances)
    if not right.all():
        worst = int(np.argmax(np.where(right, -1.0, np.nan_to_num(error, nan=np.inf))))
        return _rejected(
            f"a sampled entry is off by {error[worst]:.3g}; "
            f"at most {expected.tolerances[worst]:.3g} is right"
        )
    return TAKEN_AS_TOLD


def _rejected(detail: str) -> Judgement:
    return Judgement(verdict=Verdict.REJECTED, detail=detail)
