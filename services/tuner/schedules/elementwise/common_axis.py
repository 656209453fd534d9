"""An axis of the output that all stages of a program have: each slice of it is computed by itself.

total[c] = sum over y of a[y, c]             c is common: an entry of total is read where the
rest[c, y] = a[y, c] - total[c]              reader has the same c, so that a slice of c needs
out[y, c] = rest[c, y] * rest[c, y]          that slice of all stages, and no other computes it
"""

from dataclasses import dataclass, replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Program,
    Stage,
    number,
    parts,
)
from services.tuner import ir
from services.tuner.schedules.base.fused import inlined
from services.tuner.schedules.base.iteration import reads_of
from services.tuner.schedules.base.rules import SLICES_WANTED

LINE = 16
"""Entries of a cache line: slices of neighbours are that long at least."""


MOST_OPERATIONS = 4
"""Operations of a stage that is computed again where it is read, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonAxis:
    """Position of the axis in the output, which is cut into `slices` of `block` entries."""

    position: int
    slices: int
    block: int


def with_cheap_stages_inside(program: Program) -> Program:
    """The program with stages of plain arithmetic computed where they are read, not stored."""
    cheap = [each for each in program.stages if each is not program.output and _is_cheap(each)]
    kept = (each for each in program.stages if each not in cheap)
    stages = (replace(each, value=inlined(each.value, cheap)) for each in kept)
    return replace(program, stages=tuple(stages))


def _is_cheap(stage: Stage) -> bool:
    arithmetic = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL)
    found = [part for part in parts(stage.value) if isinstance(part, Binary)]
    other = any(isinstance(part, Call | Choice | Cast) for part in parts(stage.value))
    if stage.reducer or stage.dtype is not DType.F32 or other:
        return False
    return len(found) <= MOST_OPERATIONS and all(part.op in arithmetic for part in found)


def common_axis(program: Program) -> CommonAxis | None:
    """The axis that makes as many slices as are wanted, or most, the outermost of equals; None
    where there is none, or a single stage."""
    if len(program.stages) < 2:
        return None
    found = []
    for position, axis in enumerate(program.output.axes):
        size = number(axis.extent)
        last = position == len(program.output.axes) - 1
        block = _block_of_neighbours(size) if last else 1
        if size > block > 0 and _is_common(program, position):
            found.append(CommonAxis(position=position, slices=size // block, block=block))
    return max(found, key=lambda each: min(each.slices, SLICES_WANTED), default=None)


def _block_of_neighbours(size: int) -> int:
    """The longest that leaves slices enough, or the shortest of whole lines; 0 where vectors would
    be cut."""
    sizes = [n for n in range(LINE, size, ir.LANES) if size % n == 0]
    enough = [n for n in sizes if size // n >= SLICES_WANTED]
    return max(enough, default=min(sizes, default=0))


def _is_common(program: Program, position: int) -> bool:
    stages = {stage.name: stage for stage in program.stages}
    positions = {program.output.name: position}
    for stage in reversed(program.stages):
        if stage.name not in positions:
            return False
        own = stage.axes[positions[stage.name]]
        for read in reads_of(stage.value):
            if read.tensor not in stages:
                continue
            places = [n for n, place in enumerate(read.at) if place == own]
            if len(places) != 1 or not _whole(stages[read.tensor].axes[places[0]], own):
                return False
            if positions.setdefault(read.tensor, places[0]) != places[0]:
                return False
            if any(own in parts(place) for n, place in enumerate(read.at) if n != places[0]):
                return False
    return True


def _whole(axis: Axis, other: Axis) -> bool:
    return number(axis.extent) == number(other.extent)
