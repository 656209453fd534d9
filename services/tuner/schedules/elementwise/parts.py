"""A long reduction of few entries as two stages, the first of which has work for many threads.

    c[j: 2] = sum over k: 1048576 of a[j, k]
→
    c_parts[j: 2, p: 1024] = sum over k: 1024 of a[j, p * 1024 + k]
    c[j: 2] = sum over p: 1024 of c_parts[j, p]
"""

from dataclasses import replace
from math import isqrt, prod

from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Expression,
    Integer,
    Program,
    Read,
    Stage,
    number,
    terms,
)
from services.tuner.schedules.base.fused import substituted

MOST_TERMS = 4096
"""Terms that one thread takes one after another."""
MOST_ENTRIES = 4096
"""Entries with which there are threads enough without parts."""


def with_parts(program: Program) -> Program:
    """The program; a reduction of a prime number of terms along its longest axis stays."""
    if not any(map(_is_long, program.stages)):
        return program
    return replace(
        program, stages=tuple(new for stage in program.stages for new in _in_parts(stage))
    )


def _is_long(stage: Stage) -> bool:
    return bool(stage.over) and terms(stage) > MOST_TERMS and prod(stage.shape) < MOST_ENTRIES


def _in_parts(stage: Stage) -> tuple[Stage, ...]:
    if not _is_long(stage):
        return (stage,)
    wanted = isqrt(terms(stage))
    places: dict[str, Expression] = {}
    parts: list[Axis] = []
    over: list[Axis] = []
    # Outer axes are parts while these are too few; of one axis the first digits are.
    for axis in stage.over:
        extent, count = number(axis.extent), prod(number(each.extent) for each in parts)
        share = _divisor_near(extent, -(-wanted // count))
        part = Axis(f"{axis.name}_part", Integer(share))
        rest = Axis(axis.name, Integer(extent // share))
        if share > 1:
            parts.append(part)
        if extent > share:
            over.append(rest)
        scaled = Binary(BinaryOp.MUL, part, Integer(extent // share))
        if extent == share:
            places[axis.name] = part
        elif share > 1:
            places[axis.name] = Binary(BinaryOp.ADD, scaled, rest)
        else:
            places[axis.name] = rest
    if not parts or not over:
        return (stage,)
    name = f"{stage.name}_parts"
    value = substituted(stage.value, places)
    first = Stage(name, (*stage.axes, *parts), value, stage.reducer, tuple(over), stage.dtype)
    return first, replace(stage, value=Read(name, first.axes), over=tuple(parts))


def _divisor_near(extent: int, wanted: int) -> int:
    divisors = (n for n in range(1, min(extent, 2 * wanted) + 1) if extent % n == 0)
    return max(divisors)
