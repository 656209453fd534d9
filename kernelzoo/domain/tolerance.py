"""Bounds how far two right results of a workload may differ under seeded inputs.

The bound follows from the operator's definition (its reductions and the functions that it calls),
the workload's extents and dtypes, and the rounding of the target. Nothing here knows an operator by
its name.
"""

from enum import Enum, auto
from functools import lru_cache
from math import prod, sqrt

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import Operator
from kernelzoo.domain.operators.expressions import Binary, BinaryOp, Function, Reducer, Stage
from kernelzoo.domain.operators.integer_products import SEEDED_SUMS, ZERO_POINTS
from kernelzoo.domain.operators.reduction import epsilon
from kernelzoo.domain.target import UNIT, TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload

SIDES = 2
"""Two results may err in opposite directions."""
F16_UNIT, F16_STEP = 2.0**-10, 2.0**-24
"""A result that is stored as f16 is rounded by this, as WGSL rounds in either direction (15.7.6).
The second is the step of the smallest f16."""
FUNCTION_ROUNDINGS = 16
"""More units than any function of the compiler, or the arithmetic around it, takes. In WebAssembly
all are polynomials, within 3 ulp. In WGSL exp is the device's, within 3 + 2·|x| ulp: 5 in softmax,
whose exponents are in [-1, 0] under seeded inputs; below 6 in all that use it where |x| may be
large, since e^-|x| falls faster than the error grows. A division takes 2.5 and inverseSqrt 2."""
ZERO_POINTS_APART = 4
"""Kernels sum q · a of a block of quantised weights, and take zero · Σ a away: terms of a block are
so many times as large as those of (q - zero) · a."""
FEW_COLUMNS = 16
INTEGER_ROUNDINGS = 4
"""A sum as a real number, the product of its scales, and that of both; one to spare."""
I8_SCALE = 256
"""Seeded i8 are that many times as large as seeded f32."""


class Growth(Enum):
    """Rounding errors of an operator grow in one of these ways."""

    ELEMENTWISE = auto()
    PRODUCTS = auto()
    INTEGERS = auto()
    WHOLE = auto()
    SUM = auto()
    MEAN = auto()
    LARGEST = auto()
    SHARE = auto()
    NORM = auto()


def comparison_tolerance(workload: Workload, target: TargetKind = TargetKind.WASM) -> float:
    """Largest absolute difference between two right results under seeded inputs.

    That of a program follows from its evaluation, which is stored; raises ValueError before. Of f16
    are inputs, which are exact, and the entry that is stored, which is rounded once.
    """
    if isinstance(workload, ProgramWorkload):
        if workload.roundings is None:
            raise ValueError(f"{workload.key} is not evaluated yet; plan one of its jobs first")
        return SIDES * UNIT[target] * workload.roundings
    return _of_operator(workload, target)


@lru_cache(maxsize=1 << 13)
def _of_operator(workload: Workload, target: TargetKind) -> float:
    tolerance = _of_computing(workload, UNIT[target])
    if workload.dtype is not DType.F16:
        return tolerance
    return tolerance + 2 * (F16_UNIT * _largest(workload) + F16_STEP)


@lru_cache(maxsize=256)
def growth_of(operator: Operator) -> Growth:
    """A norm calls a root, and shares of a total are powers divided by their sum."""
    reduced = [stage for stage in operator.stages if stage.reducer]
    if operator.stages[-1].dtype is DType.I32:
        return Growth.WHOLE
    if not reduced:
        return Growth.ELEMENTWISE
    if Function.RSQRT in operator.functions:
        return Growth.NORM
    if Function.EXP in operator.functions:
        return Growth.SHARE
    if all(stage.dtype is DType.I32 for stage in reduced):
        return Growth.INTEGERS
    if any(map(_multiplies, reduced)):
        return Growth.PRODUCTS
    if all(stage.reducer in (Reducer.MIN, Reducer.MAX) for stage in reduced):
        return Growth.LARGEST
    return Growth.SUM if operator.stages[-1].reducer else Growth.MEAN


def _multiplies(stage: Stage) -> bool:
    return isinstance(stage.value, Binary) and stage.value.op is BinaryOp.MUL


def _terms(workload: Workload) -> int:
    """Counts the terms of the longest reduction."""
    extent, stages = workload.extent, workload.operator.stages
    return max(prod(extent[str(axis.extent)] for axis in stage.over) for stage in stages)


def _of_computing(workload: Workload, unit: float) -> float:
    """Bounds the error of computing in float32. A sum of n terms in any order errs by at most
    n·unit times the sum of their magnitudes, fused or not (Higham, Accuracy and Stability, section
    3.1). Two results may err in opposite directions.

    The deviation of seeded inputs is near 0.29 from 16 columns on, by which a norm divides; its
    epsilon bounds what fewer columns may magnify. A share is at most e/n and at most
    1. Inputs are at most 1/2.
    """
    n, growth = _terms(workload), growth_of(workload.operator)
    roundings = 2 * (n + FUNCTION_ROUNDINGS) * unit
    match growth:
        case Growth.WHOLE:
            return 0.0
        case Growth.ELEMENTWISE | Growth.LARGEST:
            return 2 * FUNCTION_ROUNDINGS * unit * _weights_alone(workload)
        case Growth.PRODUCTS:
            return _of_products(workload, n, unit)
        case Growth.INTEGERS:
            return _of_integers(workload, n, unit)
        case Growth.NORM:
            return roundings * (12 if n >= FEW_COLUMNS else 1.02 / sqrt(epsilon(workload.extent)))
        case Growth.SHARE:
            return roundings * min(1, 3 / n)
        case Growth.SUM:
            return roundings * n / 2
        case Growth.MEAN:
            return roundings


def _of_products(workload: Workload, n: int, unit: float) -> float:
    """Σ|a·b| of seeded inputs is n/16 with deviation below √n/8.

    No part of an epilogue has a slope above 1.13; each rounds a few times more.
    """
    scale = _scale(workload)
    magnitude = scale * (n / 16 + 6 * sqrt(n) / 8)
    apart = ZERO_POINTS_APART * workload.given.get("block", 0)
    sums = 2 * (n + 1 + apart) * unit * magnitude
    if not workload.epilogue:
        return sums
    largest = scale * 0.25 * n + len(workload.epilogue)
    return 1.13 * sums + 2 * FUNCTION_ROUNDINGS * unit * min(largest, magnitude + 4)


def _of_integers(workload: Workload, n: int, unit: float) -> float:
    """Sums of integers are exact. Each is rounded as it becomes a real number, and as it is scaled
    by two seeded numbers, at most 1/2 each; parts of an epilogue follow as in `_of_products`."""
    largest = _largest_integers(workload, n) / 4
    scaled = INTEGER_ROUNDINGS * SIDES * unit * largest
    if not workload.epilogue:
        return scaled
    return 1.13 * scaled + 2 * FUNCTION_ROUNDINGS * unit * (largest + 4)


def _largest_integers(workload: Workload, n: int) -> float:
    """Seeded sums of n products of a number of 8 bits and one with sign, less a zero point times
    the sum of a column, and one times the sum of a row: six deviations, and what they are on
    average."""
    zeros = max(ZERO_POINTS // 2 * dict(workload.operator.limits).get("b_zero", 0), 64)
    return 6 * 147.3 * 74 * sqrt(n) + zeros * n + ZERO_POINTS * SEEDED_SUMS


def _scale(workload: Workload) -> int:
    """Returns how many times as large as seeded f32 weights the quantised ones are: one of w bits
    times a seeded scale is 2^(w-4) on average."""
    if workload.operator.weight_bits:
        return 1 << (workload.operator.weight_bits - 2)
    return I8_SCALE if any(t.dtype is DType.I8 for t in workload.tensors) else 1


def _weights_alone(workload: Workload) -> int:
    """Returns how many times as large as other entries those of a table of quantised weights
    are."""
    return 1 << max(0, workload.operator.weight_bits - 4)


def _largest(workload: Workload) -> float:
    """No entry is larger under seeded inputs; a sum of products is six deviations, √n/12 each. An
    entry of a norm is at most two deviations from its mean, or √n where a row has few columns.
    """
    n = _terms(workload)
    match growth_of(workload.operator):
        case Growth.PRODUCTS:
            return _scale(workload) * min(n / 4, sqrt(n) / 2) + len(workload.epilogue)
        case Growth.INTEGERS:
            return _largest_integers(workload, n) / 4 + len(workload.epilogue)
        case Growth.SHARE:
            return min(1, 3 / n)
        case Growth.SUM:
            return min(n / 2, 2 * sqrt(n))
        case Growth.NORM:
            return 3.0
    return 2.0 * _weights_alone(workload)
